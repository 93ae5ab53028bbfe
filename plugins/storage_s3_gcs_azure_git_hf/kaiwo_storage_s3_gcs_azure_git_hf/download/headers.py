"""Response headers of objects, which the object store client does not show."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import errors

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPConnection

    from kaiwo_storage_s3_gcs_azure_git_hf.download.gate import Gate

Address: TypeAlias = Callable[[str], tuple[str, Mapping[str, str]]]
"""From a key to the URL that a HEAD request goes to, and its headers; a redirect elsewhere loses them."""

_REDIRECTS: Final = 5
_REDIRECTED: Final = frozenset({301, 302, 303, 307, 308})
_INFORMATIONAL: Final = range(100, 200)
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
        self._all: list[HTTPConnection] = []

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
        """Status and headers of the last answer; names are in lower case.

        Raises:
            OSError: there was none.
        """
        url, fields = self._address(key)
        place = urlsplit(url)
        direct = self._gate.direct(place.hostname or "")
        for _ in range(_REDIRECTS):
            status, given = self._head(place, fields, direct=direct)
            onward = _onward(place, given.get("location", ""))
            if status not in _REDIRECTED or onward is None:
                break
            if elsewhere(place, onward):
                fields = {}
            # Where a server sends one to is never reached but through the gate.
            place, direct = onward, False
        return status, given

    def _head(
        self, place: SplitResult, fields: Mapping[str, str], *, direct: bool
    ) -> tuple[int, dict[str, str]]:
        # The host as it is written, without credentials.
        host = place.netloc.rpartition("@")[2]
        whole = place._replace(netloc=host, fragment="")
        absolute = not direct and place.scheme == "http"
        target = (whole if absolute else whole._replace(scheme="", netloc="")).geturl() or "/"
        sent = {"host": host, **{name.lower(): value for name, value in fields.items()}}
        connection = self._connection(place, direct=direct)
        if connection.sock:
            # One that was kept may have been closed meanwhile; a new one has no such excuse.
            with contextlib.suppress(OSError):
                return _asked(connection, target, sent)
        return _asked(connection, target, sent)

    def _connection(self, place: SplitResult, *, direct: bool) -> HTTPConnection:
        """This thread's connection to a place; it is opened when it is used, again when it was closed."""
        kept: dict[str, HTTPConnection] = self._kept.__dict__
        name = f"{place.scheme} {place.hostname} {place.port} {direct}"
        if name not in kept:
            kept[name] = self._opened(place, direct=direct)
            self._all.append(kept[name])
        return kept[name]

    def _opened(self, place: SplitResult, *, direct: bool) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        secure = place.scheme == "https"
        server = (place.hostname or "", place.port or (443 if secure else 80))
        first = server if direct else self._gate.address
        connection = (
            HTTPSConnection(*first, timeout=self._seconds, context=_trust())
            if secure
            else HTTPConnection(*first, timeout=self._seconds)
        )
        if secure and not direct:
            connection.set_tunnel(*server)
        return connection


def elsewhere(place: SplitResult, onward: SplitResult) -> bool:
    """Whether a redirect leads where headers with credentials must not go: without TLS, everybody reads."""
    return (onward.scheme, onward.netloc) != (place.scheme, place.netloc)


def _onward(place: SplitResult, location: str) -> SplitResult | None:
    """Where a redirect leads to; None when that is no place of HTTP."""
    with contextlib.suppress(ValueError):
        onward = urlsplit(urljoin(place.geturl(), location))
        if onward.scheme in ("http", "https") and onward.hostname and onward.port != 0:
            return onward
    return None


def _asked(connection: HTTPConnection, target: str, fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
    """Status and headers of the answer to a HEAD request.

    Raises:
        OSError: there was none, or the request cannot be sent as it is; the connection is closed.
    """
    from http.client import HTTPException

    try:
        connection.request("HEAD", target, headers=fields)
        with connection.getresponse() as response:
            while response.status in _INFORMATIONAL:
                # The standard library skips 100 alone, and reads on when it has no headers.
                response.headers = None  # type: ignore[assignment] # as before the first
                response.begin()
            response.read()
            return response.status, {name.lower(): value for name, value in response.getheaders()}
    except OSError:
        connection.close()
        raise
    except (HTTPException, ValueError) as error:
        connection.close()
        raise ConnectionError(f"{type(error).__name__}: no answer in HTTP") from None


@cache
def _trust() -> ssl.SSLContext:
    """The system's certificates, read once."""
    import ssl

    return ssl.create_default_context()


def seconds(value: str) -> float:
    """What a Retry-After header says (RFC 9110 10.2.3: seconds, or a date); 0 when it says nothing."""
    if value.strip().isdecimal():
        return float(value)
    import email.utils

    with contextlib.suppress(ValueError, TypeError):
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return 0.0
