"""How to reach an API server: address, TLS, and headers that stay fresh."""

from __future__ import annotations

import ssl
from pathlib import Path


class Connection:
    """An API server and the right to talk to it.

    Attributes:
        server: base URL without a trailing slash.
        ssl_context: TLS settings with CA and client certificate, None for plain http.
        namespace: the namespace of the context, or of the pod's service account, or ``default``.
        proxy: URL of an HTTP proxy, or None.
    """

    server: str
    ssl_context: ssl.SSLContext | None
    namespace: str
    proxy: str | None

    async def headers(self, *, refresh: bool = False) -> dict[str, str]:
        """Authorization headers that are valid now; ``refresh`` after a 401 forces rotated ones."""
        ...


def load(kubeconfig: str | Path | None = None, context: str | None = None) -> Connection:
    """From a kubeconfig (argument, else KUBECONFIG, else in-cluster, else ~/.kube/config).

    Raises:
        CredentialsError: no kubeconfig, unknown context, unreadable file.
    """
    ...


def static(server: str, *, token: str | None = None, ca_file: str | Path | None = None,
           client_cert: tuple[str, str] | None = None, namespace: str = "default") -> Connection:
    """A connection from plain values, for tests and tools."""
    ...
