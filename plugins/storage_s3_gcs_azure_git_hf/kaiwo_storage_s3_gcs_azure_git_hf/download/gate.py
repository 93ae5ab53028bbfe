"""The one way out: a proxy on loopback inside the program through which every client connects.

Object stores, git and the Hub's client each resolve names and follow redirects on their own, so a check
before the first request says nothing about where the bytes come from. The gate resolves, checks every address
and connects to the very address it checked: no second resolution, no unchecked redirect.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import addresses

_LONGEST_HEAD = 64 * 1024
_CHUNK = 1024**2
_CONNECT_SECONDS = 15.0


class RefusedError(Exception):
    """An address may not be reached."""


class Gate:
    """A checking proxy for http (absolute form) and https (CONNECT).

    Attributes:
        url: its address, to be given to clients.
    """

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._loopback = False
        self._refused: dict[str, str] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, name="gate", daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def written(self, url: str) -> str | None:
        """Take note of a URL that a user wrote: loopback may be reached when it is written as such.

        Returns:
            Why its address may never be reached, None when nothing is wrong or only resolving will tell.
        """
        host = urlsplit(url).hostname or ""
        if addresses.written_loopback(host):
            self._loopback = True
        address = addresses.literal(host)
        why = address and addresses.refusal(
            address, private=self._private, loopback=addresses.written_loopback(host)
        )
        return f"{host} {why}" if why else None

    def direct(self, host: str) -> bool:
        """Whether a host is written as an address that may be reached: there is nothing to resolve."""
        address = addresses.literal(host)
        return address is not None and not addresses.refusal(address, private=self._private, loopback=True)

    def refused(self) -> str | None:
        """What was refused last; None when nothing was."""
        return next(reversed(self._refused.values()), None)

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a checked address.

        Raises:
            RefusedError: every address of the host is refused.
            OSError: it cannot be resolved or reached.
        """
        loopback = self._loopback and addresses.written_loopback(host)
        failure: OSError | None = None
        for family, kind, proto, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            address = addresses.literal(str(place[0]))
            why = address and addresses.refusal(address, private=self._private, loopback=loopback)
            if why or address is None:
                shown = host if host == str(place[0]) else f"{host} ({place[0]})"
                self._refused[host] = f"{shown} {why}"
                raise RefusedError(self._refused[host])
            connection = socket.socket(family, kind, proto)
            connection.settimeout(_CONNECT_SECONDS)
            try:
                connection.connect(place)
            except OSError as error:
                connection.close()
                failure = error
                continue
            connection.settimeout(None)
            return connection
        raise failure or OSError(f"{host} has no address")

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._handle, args=(client,), name="gate", daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head, rest = _head(client)
            if not head:
                return
            method, target, version = [
                *head.split(b"\r\n", 1)[0].decode("latin-1").split(" "),
                "",
                "",
            ][:3]
            place = urlsplit(f"//{target}" if method == "CONNECT" else target)
            port = place.port or (443 if place.scheme == "https" else 80)
            try:
                server = self.connect(place.hostname or "", port)
            except RefusedError as error:
                _answer(client, "403 Forbidden", str(error))
                return
            except OSError:
                _answer(client, "502 Bad Gateway", "cannot be reached")
                return
            with server:
                if method == "CONNECT":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    server.sendall(rest)
                else:
                    path = (place.path or "/") + (f"?{place.query}" if place.query else "")
                    server.sendall(_forwarded(head, f"{method} {path} {version}") + rest)
                _pump(client, server)


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request, and what came after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = client.recv(_LONGEST_HEAD)
        data += more
        if not more or len(data) > _LONGEST_HEAD:
            return b"", b""
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _forwarded(head: bytes, first: str) -> bytes:
    """A head for the origin server: one request per connection, so that the next one is checked anew."""
    lines = head.split(b"\r\n")[1:]
    hop = (b"connection:", b"proxy-connection:", b"proxy-authorization:")
    kept = [line for line in lines if not line.lower().startswith(hop)]
    return b"\r\n".join([first.encode("latin-1"), *kept, b"Connection: close", b"", b""])


def _answer(client: socket.socket, status: str, text: str) -> None:
    body = f"{text}\n".encode()
    client.sendall(
        f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
    )


def _pump(client: socket.socket, server: socket.socket) -> None:
    """Move bytes both ways until one side is done; in the kernel, without copying them into the program."""
    other = {client: server, server: client}
    reader, writer = os.pipe()
    try:
        open_sides = {client, server}
        while open_sides:
            ready, _, _ = select.select(list(open_sides), [], [])
            for side in ready:
                moved = os.splice(side.fileno(), writer, _CHUNK)
                if not moved:
                    open_sides.discard(side)
                    with contextlib.suppress(OSError):
                        other[side].shutdown(socket.SHUT_WR)
                    if side is server:
                        return
                while moved:
                    moved -= os.splice(reader, other[side].fileno(), moved)
    finally:
        os.close(reader)
        os.close(writer)
