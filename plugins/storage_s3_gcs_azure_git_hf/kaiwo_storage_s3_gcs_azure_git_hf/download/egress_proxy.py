"""The egress proxy: a proxy on loopback inside the program through which every client connects.

Object stores, git and the Hub client each resolve names and follow redirects on their own. A check before the
first request therefore does not show where the bytes come from. The egress proxy resolves a name, checks
every address and connects to the very address that it checked: there is no second resolution and no redirect
that is not checked.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit

from kaiwo.plugin.kit import addresses
from kaiwo_storage_s3_gcs_azure_git_hf.download import proxy_connection

_CONNECT_SECONDS = 15.0
_SETTING = "KaiwoConfig storage.allowPrivateEndpoints"


class EgressProxy:
    """A proxy that checks addresses, for http (absolute form) and https (CONNECT).

    Attributes:
        address: its host and port.
        url: the same as a URL, as clients are given it.
    """

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._loopback: set[str] = set()
        self._blocked: dict[str, str] = {}
        self._unreachable: dict[str, str] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address: tuple[str, int] = self._listener.getsockname()
        self.url = "http://{}:{}".format(*self.address)
        self._thread = threading.Thread(target=self._serve, name="egress-proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no more connections."""
        # Closing alone would leave the port open until the thread in accept() has had one more connection.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def register_endpoint(self, url: str) -> str | None:
        """Register a URL that the user wrote; this host, if it is loopback, may be reached only after that.

        Returns:
            Why its address is blocked; None when it is allowed or only resolving will tell.
        """
        host = urlsplit(url).hostname or ""
        if addresses.is_loopback_host(host):
            self._loopback.add(host)
        address = addresses.parse_address(host)
        reason = address and self._blocked_reason(address, loopback=addresses.is_loopback_host(host))
        return f"{host} {reason}" if reason else None

    def is_direct(self, host: str) -> bool:
        """Whether a host is written as an allowed address, so that there is nothing to resolve."""
        address = addresses.parse_address(host)
        return address is not None and not self._blocked_reason(address, loopback=True)

    def _blocked_reason(self, address: addresses.IpAddress, *, loopback: bool) -> str | None:
        return addresses.blocked_reason(address, private=self._private, loopback=loopback, setting=_SETTING)

    def last_blocked(self) -> str | None:
        """The host that was blocked last, and why; None when none was."""
        return next(reversed(self._blocked.values()), None)

    def last_unreachable(self) -> str | None:
        """The host that could not be resolved or reached last, and why; None when all could."""
        return next(reversed(self._unreachable.values()), None)

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to a checked address of a host.

        Raises:
            proxy_connection.BlockedAddressError: an address of the host is blocked.
            OSError: it cannot be resolved or reached.
        """
        try:
            return self._connect_checked(host, port)
        except OSError as error:
            self._unreachable[host] = f"{host} is unreachable ({error.strerror or error})"
            raise

    def _connect_checked(self, host: str, port: int) -> socket.socket:
        loopback = host.strip("[]").lower() in self._loopback
        failure: OSError | None = None
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError:
            raise OSError("invalid host name") from None
        for family, kind, proto, _, place in found:
            address = addresses.parse_address(str(place[0]))
            reason = address and self._blocked_reason(address, loopback=loopback)
            if reason or address is None:
                shown = host if host == str(place[0]) else f"{host} ({place[0]})"
                self._blocked[host] = f"{shown} {reason}"
                raise proxy_connection.BlockedAddressError(self._blocked[host])
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
                threading.Thread(
                    target=self._handle, args=(client,), name="egress-proxy", daemon=True
                ).start()

    def _handle(self, client: socket.socket) -> None:
        # A client whose connection stays open would wait for its timeout.
        with (
            contextlib.closing(client),
            contextlib.suppress(OSError),
            contextlib.closing(proxy_connection.ProxyConnection(client, self.connect)) as connection,
        ):
            connection.run()
