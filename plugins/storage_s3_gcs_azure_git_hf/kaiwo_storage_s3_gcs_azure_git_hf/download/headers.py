"""Response headers of objects, which the object store client does not show."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import errors, head

if TYPE_CHECKING:
    from kaiwo_storage_s3_gcs_azure_git_hf.download.gate import Gate

Address: TypeAlias = Callable[[str], tuple[str, Mapping[str, str]]]
"""From a key to the URL that a HEAD request goes to, and its headers; a redirect elsewhere loses them."""

_REDIRECTS: Final = 5
_REDIRECTED: Final = frozenset({301, 302, 303, 307, 308})
_SUCCESSFUL: Final = range(200, 300)
_NOT_IMPLEMENTED: Final = 501


class Headers:
    """Asks for the headers of objects of one store; each thread keeps its connection."""

    def __init__(self, gate: Gate, address: Address, seconds: float) -> None:
        """Prepare.

        Args:
            gate: the way out.
            address: how an object is asked for.
            seconds: how long a store may be silent.
        """
        self._seconds = seconds
        self._gate = gate
        self._address = address
        self._kept = threading.local()
        self._all: list[head.Connection] = []

    def close(self) -> None:
        """End every thread's connections."""
        for connection in self._all:
            connection.close()

    def of(self, key: str) -> Mapping[str, str]:
        """The headers of an object, names in lower case; empty when the store does not tell.

        Raises:
            ConnectionError: the store cannot be reached now, or is busy.
        """
        try:
            status, given = self._ask(key)
        except OSError as error:
            raise ConnectionError(f"no answer ({type(error).__name__})") from None
        if errors.passing(status) and status != _NOT_IMPLEMENTED:
            raise ConnectionError(f"status code: {status}")
        return given if status in _SUCCESSFUL else {}

    def ranged(self, key: str) -> bool:
        """Whether an object can be read in ranges (RFC 9110 14.3)."""
        with contextlib.suppress(ConnectionError):
            return self.of(key).get("accept-ranges", "").strip().lower() == "bytes"
        return False

    def patience(self, key: str) -> float:
        """Seconds that a busy store asks to wait before the next request; 0 when it does not say."""
        try:
            status, given = self._ask(key)
        except OSError:
            return 0.0
        return seconds(given.get("retry-after", "")) if errors.passing(status) else 0.0

    def _ask(self, key: str) -> tuple[int, dict[str, str]]:
        url, fields = self._address(key)
        direct = self._gate.direct(urlsplit(url).hostname or "")
        for _ in range(_REDIRECTS):
            status, given = self._head(urlsplit(url), fields, direct=direct)
            onward = urlsplit(urljoin(url, given.get("location", "")))
            if status not in _REDIRECTED or onward.scheme not in ("http", "https"):
                break
            if onward.netloc != urlsplit(url).netloc:
                fields = {}
            # Where a server sends one to is never reached but through the gate.
            url, direct = onward.geturl(), False
        return status, given

    def _head(
        self, place: SplitResult, fields: Mapping[str, str], *, direct: bool
    ) -> tuple[int, dict[str, str]]:
        # The host as it is written, without credentials.
        host = place.netloc.rpartition("@")[2]
        secure = place.scheme == "https"
        port = place.port or (443 if secure else 80)
        whole = place._replace(netloc=host, fragment="")
        absolute = not direct and not secure
        target = (whole if absolute else whole._replace(scheme="", netloc="")).geturl() or "/"
        where = head.Place(place.hostname or "", port, secure, None if direct else self._gate.address)
        sent = {"host": host, **{name.lower(): value for name, value in fields.items()}}
        return self._connection(where).head(target, sent)

    def _connection(self, place: head.Place) -> head.Connection:
        kept: dict[str, head.Connection] = self._kept.__dict__
        if str(place) not in kept:
            kept[str(place)] = head.Connection(place, self._seconds)
            self._all.append(kept[str(place)])
        return kept[str(place)]


def seconds(value: str) -> float:
    """What a Retry-After header says (RFC 9110 10.2.3: seconds, or a date); 0 when it says nothing."""
    if value.strip().isdecimal():
        return float(value)
    import email.utils  # noqa: PLC0415 - a start would pay for it, and busy stores are rare

    with contextlib.suppress(ValueError, TypeError):
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return 0.0
