"""What a metrics endpoint asks of its callers: a bearer token, and trust in the CA of its certificate.

Both are read from files at each scrape, so they may be rotated. The token goes to the server of the
configured endpoint and to no other one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kaiwo.engine.auth import TokenFile
from kaiwo.engine.errors import CredentialsError
from kaiwo.engine.trust import trusting

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from kaiwo.host.settings import Settings


@dataclass(frozen=True, slots=True)
class EndpointFiles:
    """The files for one server.

    Attributes:
        token: with a bearer token; None for none.
        ca: with CA certificates (PEM); None for the system's.
    """

    token: Path | None = None
    ca: Path | None = None

    @classmethod
    def of(cls, settings: Settings, url: str) -> EndpointFiles:
        """The files for an endpoint: none where it is on another server than that of resource monitoring."""
        if _server(url) != _server(settings.resource_monitoring_metrics_endpoint):
            return cls()
        return cls(settings.resource_monitoring_token_file, settings.resource_monitoring_ca_file)


class EndpointAccess:
    """Reads the files of one endpoint."""

    def __init__(self, files: EndpointFiles) -> None:
        """Nothing is read yet."""
        self.files = files
        self._token = TokenFile(files.token) if files.token else None
        self._context: ssl.SSLContext | None = None
        self._read: tuple[int, ...] = ()

    async def headers(self) -> dict[str, str]:
        """The header with the token as it is now; a file that has vanished leaves the last known one.

        Raises:
            CredentialsError: there is no token. The message does not show what the file has.
        """
        if self._token is None:
            return {}
        headers = await self._token.headers(refresh=True)
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise CredentialsError(f"token file {self.files.token}: expected one line with a token")
        return headers

    def tls(self) -> ssl.SSLContext | bool:
        """How a server's certificate is checked; the same object for as long as the file is the same.

        Raises:
            CredentialsError: the file has no certificates.
        """
        if self.files.ca is None:
            return True
        try:
            stat = self.files.ca.stat()
            read = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if self._context is None or read != self._read:
                self._context = trusting(cafile=self.files.ca)
                self._read = read
        except OSError as error:
            raise CredentialsError(f"CA file {self.files.ca}: {error.strerror or error}") from error
        return self._context


def _server(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"https": 443, "http": 80}.get(parts.scheme)
