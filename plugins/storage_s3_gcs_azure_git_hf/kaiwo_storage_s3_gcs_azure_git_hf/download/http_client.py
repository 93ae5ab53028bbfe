"""The HTTP client of the program itself: headers of objects, LFS files, and large files of the Hub.

It knows http and https only, connects through the egress proxy, and sends credentials to one origin only.
"""

from __future__ import annotations

import contextlib
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urljoin, urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping
    from http.client import HTTPConnection, HTTPResponse

    from kaiwo_storage_s3_gcs_azure_git_hf.download.egress_proxy import EgressProxy

_MAX_REDIRECTS: Final = 10
_MAX_REDIRECT_BODY: Final = 64 * 1024
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SEE_OTHER: Final = 303
_INFORMATIONAL: Final = range(100, 200)
_MAX_INFORMATIONAL: Final = 100
"""Informational answers before the response. A server that says now and then that it still works (102) sends
some; one that never stops would keep the connection, each of its lines in time, for ever."""

_SUCCESSFUL: Final = range(200, 300)


class RedirectError(Exception):
    """A server redirects to a URL that is not followed."""


class HttpStatusError(OSError):
    """A server responded with a status other than 2xx.

    Attributes:
        status: the HTTP status.
        retry_after: seconds that the server asks to wait before the next request; 0 when it names none.
    """

    def __init__(self, status: int, reason: str = "", retry_after: float = 0.0) -> None:
        """Describe the response.

        Args:
            status: the HTTP status.
            reason: what the server says of it; empty when it says nothing.
            retry_after: seconds that it asks to wait.
        """
        super().__init__(f"HTTP {status}: {reason}" if reason else f"HTTP {status}")
        self.status = status
        self.retry_after = retry_after


class HttpClient:
    """A client whose connections are kept by each thread."""

    def __init__(self, proxy: EgressProxy, timeout: float) -> None:
        """Prepare; nothing is connected yet.

        Args:
            proxy: the egress proxy.
            timeout: seconds that a server may be silent.
        """
        self._proxy = proxy
        self._timeout = timeout
        self._kept = threading.local()
        self._connections: list[HTTPConnection] = []

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._connections:
            connection.close()

    @contextlib.contextmanager
    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        credentials: Mapping[str, str] | None = None,
        body: bytes | None = None,
        endpoint: bool = False,
        same_origin: bool = False,
    ) -> Iterator[HTTPResponse]:
        """Send a request and follow redirects; the response can be read inside the context.

        Args:
            method: the method; See Other changes one with a body to GET.
            url: an http or https URL.
            headers: headers that every server gets.
            credentials: headers that are dropped when a redirect leaves the origin of the URL.
            body: the body.
            endpoint: whether the user wrote the URL; then a literal address is checked here and connected
                directly.
            same_origin: whether a redirect that leaves the origin of the URL is not followed.

        Raises:
            RedirectError: a redirect leads to something other than http or https, or where it must not, or
                there are too many.
            OSError: there was no response, or the request cannot be sent.
        """
        place = _split(url)
        direct = endpoint and self._proxy.is_direct(place.hostname or "")
        shared = {"user-agent": "kaiwo-download", **_lower(headers)}
        secret = _lower(credentials)
        for _ in range(_MAX_REDIRECTS + 1):
            connection = self._connection(place, direct=direct)
            response = _exchange(connection, method, place, {**shared, **secret}, body, absolute=not direct)
            if response.status not in _REDIRECTS:
                try:
                    yield response
                finally:
                    _release(connection, response)
                return
            response.read(_MAX_REDIRECT_BODY)
            _release(connection, response)
            target = _split(response.getheader("location") or "", place.geturl())
            if crosses_origin(place, target):
                if same_origin:
                    raise RedirectError(f"it leads to another server, {target.scheme}://{target.hostname}")
                secret = {}
            if response.status == _SEE_OTHER and body is not None:
                method, body = "GET", None
            # The target of a redirect is always checked by the egress proxy.
            place, direct = target, False
        raise RedirectError(f"more than {_MAX_REDIRECTS} redirects")

    def _connection(self, place: SplitResult, *, direct: bool) -> HTTPConnection:
        """This thread's connection to a server; opened on first use, reopened after it was closed."""
        kept: dict[str, HTTPConnection] = self._kept.__dict__
        name = f"{place.scheme} {place.hostname} {place.port} {direct}"
        if name not in kept:
            kept[name] = self._new_connection(place, direct=direct)
            self._connections.append(kept[name])
        return kept[name]

    def _new_connection(self, place: SplitResult, *, direct: bool) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        secure = place.scheme == "https"
        server = (place.hostname or "", place.port or (443 if secure else 80))
        first = server if direct else self._proxy.address
        connection = (
            HTTPSConnection(*first, timeout=self._timeout, context=tls_context())
            if secure
            else HTTPConnection(*first, timeout=self._timeout)
        )
        connection.response_class = _response_class()
        if secure and not direct:
            connection.set_tunnel(*server)
        return connection


@cache
def _response_class() -> type[HTTPResponse]:
    """The class of responses that read a bounded number of status lines."""
    from http.client import HTTPException, HTTPResponse

    class Response(HTTPResponse):
        """A response after no more than so many informational answers."""

        _status_lines = 0

        def _read_status(self) -> tuple[str, int, str]:
            # The standard library calls it for each answer, and skips those with 100 by itself.
            self._status_lines += 1
            if self._status_lines > _MAX_INFORMATIONAL + 1:
                raise HTTPException(f"more than {_MAX_INFORMATIONAL} informational answers")
            line: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
            return line

    return Response


def check_status(response: HTTPResponse) -> None:
    """Check that a response has a status of success.

    Raises:
        HttpStatusError: it has another.
    """
    if response.status not in _SUCCESSFUL:
        wait = retry_after_seconds(response.getheader("retry-after") or "")
        raise HttpStatusError(response.status, retry_after=wait)


def retry_after_seconds(value: str) -> float:
    """Parse a Retry-After header (RFC 9110 10.2.3: seconds, or a date); 0 when it is neither."""
    if value.strip().isdecimal():
        return float(value)
    import email.utils

    with contextlib.suppress(ValueError, TypeError):
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return 0.0


def crosses_origin(source: SplitResult, target: SplitResult) -> bool:
    """Whether a redirect leaves the origin, so that headers with credentials must not follow it."""
    return (target.scheme, target.netloc) != (source.scheme, source.netloc)


@cache
def tls_context() -> ssl.SSLContext:
    """The system's certificates, read once."""
    import ssl

    return ssl.create_default_context()


def _split(url: str, base: str = "") -> SplitResult:
    """Split a URL, which may be relative to another.

    Raises:
        RedirectError: it is not an http or https URL of a server.
    """
    with contextlib.suppress(ValueError):
        place = urlsplit(urljoin(base, url))
        if place.scheme in ("http", "https") and place.hostname and place.port != 0:
            return place
    raise RedirectError(f"{url[:200]!r} is not an http or https URL")


def _lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in (headers or {}).items()}


def _exchange(
    connection: HTTPConnection,
    method: str,
    place: SplitResult,
    headers: Mapping[str, str],
    body: bytes | None,
    *,
    absolute: bool,
) -> HTTPResponse:
    """Send one request; the response, whose body is not read yet.

    Raises:
        OSError: there was no response, or the request cannot be sent; the connection is closed.
    """
    # The host as it is written, without user info.
    host = place.netloc.rpartition("@")[2]
    whole = place._replace(netloc=host, fragment="")
    proxied = absolute and place.scheme == "http"
    target = (whole if proxied else whole._replace(scheme="", netloc="")).geturl() or "/"
    fields = {"host": host, **headers}
    if connection.sock:
        # The server may have closed a kept connection; a new connection is tried once.
        try:
            return _send_once(connection, method, target, fields, body)
        except TimeoutError:
            raise
        except OSError:
            pass
    return _send_once(connection, method, target, fields, body)


def _send_once(
    connection: HTTPConnection, method: str, target: str, fields: Mapping[str, str], body: bytes | None
) -> HTTPResponse:
    from http.client import HTTPException

    try:
        connection.request(method, target, body, headers=fields)
        response = connection.getresponse()
        while response.status in _INFORMATIONAL:
            # The standard library skips only 100, and reads the next response when headers is None.
            response.headers = None  # type: ignore[assignment] # as before the first
            response.begin()
    except OSError:
        connection.close()
        raise
    except (HTTPException, ValueError) as error:
        connection.close()
        raise ConnectionError(f"{type(error).__name__}: not an HTTP response") from None
    return response


def _release(connection: HTTPConnection, response: HTTPResponse) -> None:
    """Keep a connection whose response was read to its end, and close any other."""
    if response.isclosed():
        return
    response.close()
    connection.close()
