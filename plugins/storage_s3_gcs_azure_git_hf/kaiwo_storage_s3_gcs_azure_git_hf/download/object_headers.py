"""Reads response headers of objects, which the object store client does not show."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import errors
from kaiwo_storage_s3_gcs_azure_git_hf.download.urls import crosses_origin

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPConnection

    from kaiwo_storage_s3_gcs_azure_git_hf.download.egress_proxy import EgressProxy

HeadRequest: TypeAlias = Callable[[str], tuple[str, Mapping[str, str]]]
"""Takes a key; returns URL and headers of its HEAD request. Other origins do not get the headers."""

_REDIRECTS: Final = 5
_REDIRECTED: Final = frozenset({301, 302, 303, 307, 308})
_INFORMATIONAL: Final = range(100, 200)
_SUCCESSFUL: Final = range(200, 300)
_NOT_IMPLEMENTED: Final = 501


class HeaderReader:
    """Reads the headers of objects of one store; each thread keeps its connection."""

    def __init__(self, proxy: EgressProxy, head_request: HeadRequest, timeout: float) -> None:
        """Prepare; nothing is requested yet.

        Args:
            proxy: the egress proxy.
            head_request: makes the request for a key.
            timeout: seconds that a store may be silent.
        """
        self._timeout = timeout
        self._proxy = proxy
        self._head_request = head_request
        self._kept = threading.local()
        self._connections: list[HTTPConnection] = []

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._connections:
            connection.close()

    def read(self, key: str) -> Mapping[str, str]:
        """Read the headers of an object, names in lower case; empty when the store refuses.

        Raises:
            ConnectionError: the store is unreachable or busy.
        """
        try:
            status, given = self._follow(key)
        except OSError as error:
            raise ConnectionError(f"no response ({type(error).__name__})") from None
        if errors.is_retryable_status(status) and status != _NOT_IMPLEMENTED:
            raise ConnectionError(f"status code: {status}")
        return given if status in _SUCCESSFUL else {}

    def supports_ranges(self, key: str) -> bool:
        """Whether an object can be read in ranges (RFC 9110 14.3)."""
        with contextlib.suppress(ConnectionError):
            return self.read(key).get("accept-ranges", "").strip().lower() == "bytes"
        return False

    def retry_after(self, key: str) -> float:
        """Seconds that a busy store asks to wait before the next request; 0 when it names none."""
        try:
            status, given = self._follow(key)
        except OSError:
            return 0.0
        if not errors.is_retryable_status(status):
            return 0.0
        return retry_after_seconds(given.get("retry-after", ""))

    def _follow(self, key: str) -> tuple[int, dict[str, str]]:
        """Follow redirects; status and headers of the last response, names in lower case.

        Raises:
            OSError: there was no response.
        """
        url, fields = self._head_request(key)
        place = urlsplit(url)
        direct = self._proxy.is_direct(place.hostname or "")
        for _ in range(_REDIRECTS):
            status, given = self._head(place, fields, direct=direct)
            onward = _redirect_target(place, given.get("location", ""))
            if status not in _REDIRECTED or onward is None:
                break
            if crosses_origin(place, onward):
                fields = {}
            # The target of a redirect is always checked by the egress proxy.
            place, direct = onward, False
        return status, given

    def _head(
        self, place: SplitResult, fields: Mapping[str, str], *, direct: bool
    ) -> tuple[int, dict[str, str]]:
        # The host as it is written, without user info.
        host = place.netloc.rpartition("@")[2]
        whole = place._replace(netloc=host, fragment="")
        absolute = not direct and place.scheme == "http"
        target = (whole if absolute else whole._replace(scheme="", netloc="")).geturl() or "/"
        sent = {"host": host, **{name.lower(): value for name, value in fields.items()}}
        connection = self._connection(place, direct=direct)
        if connection.sock:
            # The server may have closed a kept connection; a new connection is tried once.
            with contextlib.suppress(OSError):
                return _send_head(connection, target, sent)
        return _send_head(connection, target, sent)

    def _connection(self, place: SplitResult, *, direct: bool) -> HTTPConnection:
        """This thread's connection to a server; opened on first use, reopened after it was closed."""
        kept: dict[str, HTTPConnection] = self._kept.__dict__
        name = f"{place.scheme} {place.hostname} {place.port} {direct}"
        if name not in kept:
            kept[name] = self._new_connection(place, direct=direct)
            self._connections.append(kept[name])
        return kept[name]

    def _new_connection(self, place: SplitResult, *, direct: bool) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415 - slow to import

        secure = place.scheme == "https"
        server = (place.hostname or "", place.port or (443 if secure else 80))
        first = server if direct else self._proxy.address
        connection = (
            HTTPSConnection(*first, timeout=self._timeout, context=_tls_context())
            if secure
            else HTTPConnection(*first, timeout=self._timeout)
        )
        if secure and not direct:
            connection.set_tunnel(*server)
        return connection


def _redirect_target(place: SplitResult, location: str) -> SplitResult | None:
    """The target of a redirect; None when it is not an http or https URL."""
    with contextlib.suppress(ValueError):
        onward = urlsplit(urljoin(place.geturl(), location))
        if onward.scheme in ("http", "https") and onward.hostname and onward.port != 0:
            return onward
    return None


def _send_head(
    connection: HTTPConnection, target: str, fields: Mapping[str, str]
) -> tuple[int, dict[str, str]]:
    """Send a HEAD request; status and headers of the response.

    Raises:
        OSError: there was no response, or the request cannot be sent; the connection is closed.
    """
    from http.client import HTTPException  # noqa: PLC0415 - loaded with the connection

    try:
        connection.request("HEAD", target, headers=fields)
        with connection.getresponse() as response:
            while response.status in _INFORMATIONAL:
                # The standard library skips only 100, and reads the next response when headers is None.
                response.headers = None  # type: ignore[assignment] # as before the first
                response.begin()
            response.read()
            return response.status, {name.lower(): value for name, value in response.getheaders()}
    except OSError:
        connection.close()
        raise
    except (HTTPException, ValueError) as error:
        connection.close()
        raise ConnectionError(f"{type(error).__name__}: not an HTTP response") from None


@cache
def _tls_context() -> ssl.SSLContext:
    """The system's certificates, read once."""
    import ssl  # noqa: PLC0415 - slow to import, and stores inside a cluster often have no TLS

    return ssl.create_default_context()


def retry_after_seconds(value: str) -> float:
    """Parse a Retry-After header (RFC 9110 10.2.3: seconds, or a date); 0 when it is neither."""
    if value.strip().isdecimal():
        return float(value)
    import email.utils  # noqa: PLC0415 - slow to import, and busy stores are rare

    with contextlib.suppress(ValueError, TypeError):
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return 0.0
