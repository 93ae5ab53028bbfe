"""HEAD requests over kept connections, with as little work for each as possible.

An answer to HEAD has no content, so it ends with its head (RFC 9112 6.3): nothing else of HTTP is needed. The
client of the standard library takes longer to load than a small download, and several times as long for each
request.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

_LONGEST: Final = 64 * 1024
"""Bytes of a head; servers and clients have limits of 8 to 64 KiB."""

_END: Final = b"\r\n\r\n"
_INFORMATIONAL: Final = range(100, 200)
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Where requests go.

    Attributes:
        host: the server.
        port: likewise.
        secure: whether it speaks TLS.
        proxy: host and port of the proxy in between; None for none.
    """

    host: str
    port: int
    secure: bool
    proxy: tuple[str, int] | None


class Connection:
    """A connection to one place, opened when it is needed and again when the server closed it."""

    def __init__(self, place: Place, seconds: float) -> None:
        """Prepare.

        Args:
            place: where to.
            seconds: how long it may be silent.
        """
        self._place = place
        self._seconds = seconds
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """End it; the next request opens another."""
        if self._socket:
            self._socket.close()
        self._socket = None

    def head(self, target: str, fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        """Ask for the head of `target`.

        Args:
            target: of the request line; absolute through a proxy without TLS.
            fields: all headers.

        Returns:
            The status, and the headers with their names in lower case.

        Raises:
            OSError: there was no answer, or none in HTTP.
        """
        lines = [f"HEAD {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        if any("\r" in line or "\n" in line for line in lines):
            raise OSError("the request has a line break in it")
        request = "\r\n".join([*lines, "", ""]).encode()
        if self._socket:
            # One that was kept may have been closed meanwhile; a new one has no such excuse.
            with contextlib.suppress(OSError):
                return self._asked(self._socket, request)
            self.close()
        self._socket = self._opened()
        return self._asked(self._socket, request)

    def _asked(self, connection: socket.socket, request: bytes) -> tuple[int, dict[str, str]]:
        connection.sendall(request)
        status, version, fields = _answer(connection)
        if version == "HTTP/1.0" or fields.get("connection", "").lower() == "close":
            self.close()
        return status, fields

    def _opened(self) -> socket.socket:
        place = self._place
        connection = socket.create_connection(place.proxy or (place.host, place.port), self._seconds)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if place.proxy and place.secure:
                self._tunnel(connection)
            return (
                _trust().wrap_socket(connection, server_hostname=place.host) if place.secure else connection
            )
        except BaseException:
            connection.close()
            raise

    def _tunnel(self, connection: socket.socket) -> None:
        host = f"[{self._place.host}]" if ":" in self._place.host else self._place.host
        where = f"{host}:{self._place.port}"
        connection.sendall(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
        status, _, _ = _answer(connection)
        if status != _OK:
            raise ConnectionError(f"the proxy answered {status}")


@cache
def _trust() -> ssl.SSLContext:
    """The system's certificates, read once."""
    import ssl  # noqa: PLC0415 - stores in the cluster often do without

    return ssl.create_default_context()


def _answer(connection: socket.socket) -> tuple[int, str, dict[str, str]]:
    """Status, version and headers of the next answer that is final."""
    data = b""
    while True:
        while _END not in data:
            more = connection.recv(_LONGEST)
            if not more or len(data) > _LONGEST:
                raise ConnectionError("the answer has no end")
            data += more
        head, _, data = data.partition(_END)
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        number = rest[:3]
        if not version.startswith("HTTP/1.") or not number.isdecimal():
            raise ConnectionError("the answer is not HTTP")
        if int(number) not in _INFORMATIONAL:
            pairs = (line.partition(":") for line in lines)
            return int(number), version, {name.strip().lower(): value.strip() for name, _, value in pairs}
