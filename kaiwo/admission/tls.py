"""The TLS context of the webhook server."""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.admission.certificates import Certificates


class ServerContext:
    """A context whose certificate can change while connections are open.

    Connections keep the certificate they began with; the next handshake uses the new one.

    Attributes:
        context: for the listening socket.
    """

    def __init__(self, given: Certificates) -> None:
        """Begin with some certificates; ssl.SSLError if they cannot be used."""
        self.context = _context(given)
        self._current = self.context
        # Called at every handshake, also at one that names no server.
        self.context.sni_callback = self._select

    def use(self, given: Certificates) -> None:
        """Use other certificates from now on; ssl.SSLError if they cannot be used, and nothing changes."""
        self._current = _context(given)

    def _select(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        del name
        connection.context = self._current


def _context(given: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with _file(given.certificate + b"\n" + given.key) as path:
        context.load_cert_chain(path, password=_no_password)
    return context


def _no_password() -> str:
    """Answer OpenSSL, which would ask on the terminal for the password of an encrypted key."""
    return ""


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A file with a content: Python reads certificates from files only.

    It is in memory where the system has such files: the root file system of the operator is read-only, and a
    key has no business on a disk.
    """
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("certificates")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as memory:
            memory.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
