"""One client connection of the egress proxy, and the bytes that pass through it.

A plain http connection carries many requests. Each is checked: a request for another host goes to another,
checked connection. What follows CONNECT is opaque.
"""

from __future__ import annotations

import select
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import byte_movers

if TYPE_CHECKING:
    from collections.abc import Callable

Connect: TypeAlias = "Callable[[str, int], socket.socket]"

_MAX_HEAD_BYTES = 64 * 1024
_HOP_HEADERS = (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"upgrade")
_HEAD_END = b"\r\n\r\n"


class BlockedAddressError(Exception):
    """The address policy blocks an address."""


@dataclass(frozen=True, slots=True)
class _ProxiedRequest:
    """The head of a request, as it is forwarded.

    Attributes:
        host: the server.
        port: its port.
        head: what the server is sent.
        body: bytes that follow the head; None for all until the end of the connection.
        tunnel: whether this is CONNECT, and what follows is opaque.
    """

    host: str
    port: int
    head: bytes
    body: int | None
    tunnel: bool = False


def _parse_head(head: bytes) -> _ProxiedRequest:
    """Parse the head of a request.

    Raises:
        ValueError: it is not one of HTTP.
    """
    first, *lines = head.split(b"\r\n")
    method, target, version = first.decode("latin-1").split(" ")
    if method == "CONNECT":
        place = urlsplit(f"//{target}")
        return _ProxiedRequest(place.hostname or "", place.port or 443, b"", None, tunnel=True)
    place = urlsplit(target)
    if place.scheme != "http":
        raise ValueError("not an http URL")
    fields = (line.partition(b":") for line in lines)
    named = {name.strip().lower(): value.strip().lower() for name, _, value in fields}
    if place.netloc.count(":") > 1 and "[" not in place.netloc:
        # A client that writes an IPv6 address without brackets, so that its end is not known.
        place = place._replace(netloc=named.get(b"host", b"").decode("latin-1"))
    path = (place.path or "/") + (f"?{place.query}" if place.query else "")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _HOP_HEADERS]
    body: int | None = int(named.get(b"content-length", 0))
    last = b"close" in named.get(b"connection", b"") + named.get(b"proxy-connection", b"")
    if b"transfer-encoding" in named:
        # The end of a chunked body is not parsed, so no other request can follow it.
        body, last = None, True
    kept += [b"Connection: close"] if last else []
    sent = b"\r\n".join([f"{method} {path} {version}".encode("latin-1"), *kept, b"", b""])
    return _ProxiedRequest(place.hostname or "", place.port or 80, sent, body)


class ProxyConnection:
    """One client connection."""

    def __init__(self, client: socket.socket, connect: Connect) -> None:
        self._client = client
        self._connect = connect
        self._server: socket.socket | None = None
        self._place: tuple[str, int] | None = None
        self._pending = b""
        self._body: int | None = 0
        self._mover = byte_movers.byte_mover()

    def close(self) -> None:
        """Close both connections."""
        self._mover.close()
        for side in (self._client, self._server):
            if side:
                side.close()

    def run(self) -> None:
        """Forward until one side is done.

        Raises:
            OSError: a connection broke.
        """
        client_open = True
        while True:
            watched = select.poll()
            if client_open:
                watched.register(self._client, select.POLLIN)
            if self._server:
                watched.register(self._server, select.POLLIN)
            same = self._server
            while same is self._server:
                ready = {number for number, _ in watched.poll()}
                if self._server and self._server.fileno() in ready and not self._to_client(self._server):
                    return
                if client_open and self._client.fileno() in ready and not self._from_client():
                    if self._server is None:
                        return
                    client_open = False
                    self._server.shutdown(socket.SHUT_WR)
                    break

    def _to_client(self, server: socket.socket) -> bool:
        return self._mover.move(server, self._client, byte_movers.MAX_BYTES) > 0

    def _from_client(self) -> bool:
        """Forward what the client sent; whether more may follow."""
        if self._server and self._body is None:
            return self._mover.move(self._client, self._server, byte_movers.MAX_BYTES) > 0
        if self._server and self._body:
            moved = self._mover.move(self._client, self._server, self._body)
            self._body -= moved
            return moved > 0
        data = self._client.recv(_MAX_HEAD_BYTES)
        self._pending += data
        head, found, rest = self._pending.partition(_HEAD_END)
        if not found:
            return bool(data) and len(self._pending) <= _MAX_HEAD_BYTES
        self._pending = b""
        try:
            request = _parse_head(head)
        except ValueError:
            self._reply("400 Bad Request", "malformed request")
            return False
        return self._forward(request, rest)

    def _forward(self, request: _ProxiedRequest, rest: bytes) -> bool:
        place = (request.host, request.port)
        if self._server is None or self._place != place:
            if self._server:
                self._server.close()
                self._server = None
            try:
                self._server = self._connect(*place)
            except BlockedAddressError as error:
                self._reply("403 Forbidden", str(error))
                return False
            except OSError:
                self._reply("502 Bad Gateway", "host unreachable")
                return False
            self._place = place
        if request.tunnel:
            self._client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self._server.sendall(request.head + rest)
        self._body = None if request.body is None else max(request.body - len(rest), 0)
        return True

    def _reply(self, status: str, text: str) -> None:
        body = f"{text}\n".encode()
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self._client.sendall(head.encode() + body)
