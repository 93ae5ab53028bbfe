"""Response headers of objects, which the object store client does not show."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import errors

if TYPE_CHECKING:
    from kaiwo_storage_s3_gcs_azure_git_hf.download.gate import Gate

Address: TypeAlias = Callable[[str], tuple[str, Mapping[str, str]]]
"""From a key to the URL that a HEAD request goes to, and its headers; a redirect elsewhere loses them."""

_SECONDS: Final = 30
_REDIRECTS: Final = 5
_REDIRECTED: Final = frozenset({301, 302, 303, 307, 308})
_NOT_IMPLEMENTED: Final = 501


class Headers:
    """Asks for the headers of objects of one store; each thread keeps its connection."""

    def __init__(self, gate: Gate, address: Address) -> None:
        self._gate = gate
        self._address = address
        self._kept = threading.local()
        self._all: list[http.client.HTTPConnection] = []

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
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(f"no answer ({type(error).__name__})") from None
        if errors.passing(status) and status != _NOT_IMPLEMENTED:
            raise ConnectionError(f"status code: {status}")
        return given if status < http.client.MULTIPLE_CHOICES else {}

    def ranged(self, key: str) -> bool:
        """Whether an object can be read in ranges (RFC 9110 14.3)."""
        with contextlib.suppress(ConnectionError):
            return self.of(key).get("accept-ranges", "").strip().lower() == "bytes"
        return False

    def patience(self, key: str) -> float:
        """Seconds that a busy store asks to wait before the next request; 0 when it does not say."""
        try:
            status, given = self._ask(key)
        except (OSError, http.client.HTTPException):
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
        path = place._replace(scheme="", netloc="", fragment="").geturl() or "/"
        proxied = not direct and place.scheme == "http"
        target = place._replace(fragment="").geturl() if proxied else path
        connection = self._connection(place, direct=direct)
        sent = {"host": _host(place), **{name.lower(): value for name, value in fields.items()}}
        for _ in range(2):
            fresh = connection.sock is None
            try:
                connection.request("HEAD", target, headers=sent)
                answer = connection.getresponse()
                answer.read()
                return answer.status, {name.lower(): value for name, value in answer.headers.items()}
            except (OSError, http.client.HTTPException):
                # A connection that was kept may have been closed meanwhile; a new one has no such excuse.
                connection.close()
                if fresh:
                    raise
        raise ConnectionError("the connection was closed")

    def _connection(self, place: SplitResult, *, direct: bool) -> http.client.HTTPConnection:
        kept: dict[str, http.client.HTTPConnection] = self._kept.__dict__
        name = f"{place.scheme}://{_host(place)} {direct}"
        if name not in kept:
            kept[name] = self._connect(place, direct=direct)
            self._all.append(kept[name])
        return kept[name]

    def _connect(self, place: SplitResult, *, direct: bool) -> http.client.HTTPConnection:
        host = place.hostname or ""
        if place.scheme == "http":
            reached = (host, place.port or http.client.HTTP_PORT) if direct else self._gate.address
            return http.client.HTTPConnection(*reached, timeout=_SECONDS)
        port = place.port or http.client.HTTPS_PORT
        reached = (host, port) if direct else self._gate.address
        connection = http.client.HTTPSConnection(*reached, timeout=_SECONDS, context=_trust())
        if not direct:
            connection.set_tunnel(host, port)
        return connection


def _host(place: SplitResult) -> str:
    """Host and port as they are written, without credentials."""
    return place.netloc.rpartition("@")[2]


@cache
def _trust() -> ssl.SSLContext:
    """The system's certificates, read once."""
    return ssl.create_default_context()


def seconds(value: str) -> float:
    """What a Retry-After header says (RFC 9110 10.2.3: seconds, or a date); 0 when it says nothing."""
    if value.strip().isdecimal():
        return float(value)
    with contextlib.suppress(ValueError, TypeError):
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return 0.0
