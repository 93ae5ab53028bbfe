"""The one way out: a proxy on loopback inside the program through which every client connects.

Object stores, git and the Hub's client each resolve names and follow redirects on their own, so a check
before the first request says nothing about where the bytes come from. The gate resolves, checks every address
and connects to the very address it checked: no second resolution, no unchecked redirect.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import addresses, relay

if TYPE_CHECKING:
    import urllib.request

_CONNECT_SECONDS = 15.0


class Gate:
    """A checking proxy for http (absolute form) and https (CONNECT).

    Attributes:
        address: its host and port.
        url: likewise, as it is given to clients.
    """

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._loopback = False
        self._refused: dict[str, str] = {}
        self._unreached: dict[str, str] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address: tuple[str, int] = self._listener.getsockname()
        self.url = "http://{}:{}".format(*self.address)
        self._thread = threading.Thread(target=self._serve, name="gate", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more connections."""
        # Closing alone would leave the port open until the thread that waits for a connection has had one.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def opener(self) -> urllib.request.OpenerDirector:
        """Python's own HTTP client, which follows redirects, on its way through the gate."""
        from kaiwo_storage_s3_gcs_azure_git_hf.download import through

        return through.opener(*self.address)

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

    def unreached(self) -> str | None:
        """What could not be resolved or reached last, and why; None when everything could."""
        return next(reversed(self._unreached.values()), None)

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a checked address.

        Raises:
            relay.RefusedError: every address of the host is refused.
            OSError: it cannot be resolved or reached.
        """
        try:
            return self._connected(host, port)
        except OSError as error:
            self._unreached[host] = f"{host} cannot be reached ({error.strerror or error})"
            raise

    def _connected(self, host: str, port: int) -> socket.socket:
        loopback = self._loopback and addresses.written_loopback(host)
        failure: OSError | None = None
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError:
            raise OSError("it is no host name") from None
        for family, kind, proto, _, place in found:
            address = addresses.literal(str(place[0]))
            why = address and addresses.refusal(address, private=self._private, loopback=loopback)
            if why or address is None:
                shown = host if host == str(place[0]) else f"{host} ({place[0]})"
                self._refused[host] = f"{shown} {why}"
                raise relay.RefusedError(self._refused[host])
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
        with contextlib.suppress(OSError):  # the listener was shut down
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._handle, args=(client,), name="gate", daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        with contextlib.closing(relay.Relay(client, self.connect)) as running, contextlib.suppress(OSError):
            running.run()
