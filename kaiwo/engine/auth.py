"""Where authorization headers come from, and how they stay fresh."""

from __future__ import annotations

import asyncio
import importlib
import time
from typing import TYPE_CHECKING, Any, Protocol

from kaiwo.engine.errors import CredentialsError
from kaiwo.engine.timestamps import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object

Headers = dict[str, str]

TOKEN_FILE_PERIOD = 60.0
"""Seconds between two reads of a token file; the shortest life of a projected token is ten minutes."""

EXPIRY_MARGIN = 60.0
"""Seconds before its stated end at which a credential is renewed, so that none ends under way."""

_ODD = (OSError, KeyError, TypeError, ValueError, AttributeError)
"""What the package lets through when a provider answers something odd."""


class Authenticator(Protocol):
    """A source of headers, called before every request: it must usually answer without waiting."""

    async def headers(self, *, refresh: bool) -> Headers:
        """Headers that are valid now.

        Args:
            refresh: the API server rejected the last ones (401); get new ones even if they seem valid.

        Raises:
            CredentialsError: none can be had.
        """
        ...


class Static:
    """Headers that never change: a token, a password, or nothing beside a client certificate."""

    def __init__(self, headers: Headers | None = None) -> None:
        self._headers = headers or {}

    async def headers(self, *, refresh: bool) -> Headers:  # noqa: ARG002 -- there is nothing to refresh
        """The same every time."""
        return self._headers


class TokenFile:
    """A bearer token in a file that something else rotates, such as a service account's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._headers: Headers = {}
        self._read_at = -TOKEN_FILE_PERIOD

    async def headers(self, *, refresh: bool) -> Headers:
        """The token as of at most a minute ago; a file that has vanished leaves the last known one."""
        now = time.monotonic()
        if refresh or now - self._read_at >= TOKEN_FILE_PERIOD:
            try:
                token = self._path.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                if not self._headers:
                    raise CredentialsError(f"token file {self._path}: {error}") from error
                token = ""
            self._read_at = now
            if token:
                self._headers = {"Authorization": f"Bearer {token}"}
            elif not self._headers:
                raise CredentialsError(f"token file {self._path} is empty")
        return self._headers


class Renewing:
    """Headers from something slow that states an end: an exec plugin or an identity provider."""

    def __init__(self, fetch: Callable[[], tuple[Headers, float | None]]) -> None:
        """Take the source.

        Args:
            fetch: blocking; returns the headers and the Unix time of their end, if they have one.
        """
        self._fetch = fetch
        self._headers: Headers | None = None
        self._ends: float | None = None
        self._lock = asyncio.Lock()

    async def headers(self, *, refresh: bool) -> Headers:
        """The last ones while they last; one caller renews while the others wait for the result."""
        known = self._headers
        if known is not None and not refresh and not self._ending():
            return known
        async with self._lock:
            if self._headers is None or self._ending() or (refresh and self._headers is known):
                self._headers, self._ends = await asyncio.to_thread(self._fetch)
            return self._headers or {}

    def _ending(self) -> bool:
        return self._ends is not None and time.time() >= self._ends - EXPIRY_MARGIN


def exec_plugin(
    user: Object, cluster: Object, where: str, on_certificate: Callable[[str, str], None]
) -> Renewing:
    """Credentials of a plugin, which runs again when they end.

    Args:
        user: the ``user`` section with its ``exec`` block.
        cluster: the ``cluster`` section; plugins may want it.
        where: file and user, for messages.
        on_certificate: called with certificate and key (PEM) when the plugin returns those.
    """

    def fetch() -> tuple[Headers, float | None]:
        from kaiwo.engine.exec_credential import run_plugin  # most users need none

        status = run_plugin(user["exec"], cluster, where)
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if bool(certificate) != bool(key):
            raise CredentialsError(
                f"{where}: the credential plugin {user['exec'].get('command')!r} returned only a client "
                "certificate or only a key; they are needed together"
            )
        if certificate and key:
            on_certificate(str(certificate), str(key))
        token = status.get("token")
        if not token and not (certificate and key):
            raise CredentialsError(f"{where}: the credential plugin returned neither token nor certificate")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return headers, _unix(status.get("expirationTimestamp"))

    return Renewing(fetch)


def identity_provider(config: Object, context: str, where: str) -> Renewing:
    """Tokens of an ``auth-provider`` user (OIDC, GCP), refreshed by the `kubernetes` package.

    Args:
        config: the whole kubeconfig as read.
        context: name of the chosen context.
        where: file and user, for messages.
    """

    def fetch() -> tuple[Headers, float | None]:
        # 20 MB and 0.2 s, and most users need neither.
        library: Any = importlib.import_module("kubernetes.config")
        configuration = importlib.import_module("kubernetes.client").Configuration()
        try:
            library.load_kube_config_from_dict(config, context=context, client_configuration=configuration)
        except (library.ConfigException, *_ODD) as error:
            raise CredentialsError(f"{where}: the auth-provider gave no token: {error}") from error
        token = configuration.api_key.get("BearerToken") or configuration.api_key.get("authorization")
        if not token:
            raise CredentialsError(f"{where}: the auth-provider gave no token; log in again with its tool")
        # The package renews an ended token when it loads; that happens every five minutes.
        return {"Authorization": str(token)}, time.time() + 300 + EXPIRY_MARGIN

    return Renewing(fetch)


def _unix(stamp: object) -> float | None:
    """Unix time of an RFC 3339 stamp, None when there is none that can be read."""
    moment = parse_time(stamp)
    return moment.timestamp() if moment else None
