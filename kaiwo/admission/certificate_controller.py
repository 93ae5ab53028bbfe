"""Keeps the webhook server in certificates, and the webhook configurations in the authorities for them.

Every process reads the stored certificates and serves with them once the configurations trust them. The one
that leads makes their successors and writes the authorities into the configurations. Everything is read anew
each time, so whatever somebody deletes or edits is as it was a few seconds later.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kaiwo.admission.bundles import CONFIGURATIONS, trusted_by, with_bundle
from kaiwo.admission.certificates import (
    MOST_RETIRED,
    RETIRED_AFTER,
    Certificates,
    expiry,
    fault_of,
    next_certificates,
)
from kaiwo.admission.names import (
    AUTHORITIES,
    CERTIFICATE,
    KEY,
    SECRET,
    configurations_name,
    server_names,
)
from kaiwo.api.installation import OPERATOR, head
from kaiwo.engine.errors import Conflict, EngineError, Forbidden, NotFound, NotLeading
from kaiwo.engine.resource import SECRET as SECRETS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

_log = logging.getLogger(__name__)

INTERVAL: Final = 10.0
"""Seconds between two readings while all is well."""

_UNSETTLED: Final = 1.0
"""Seconds between two readings while something is not as it shall be, for a start."""

_SOON: Final = 60.0
"""Seconds after which that, too, is read every `INTERVAL`: somebody has to do something first."""

PROPAGATION: Final = 10.0
"""Seconds from the moment that the configurations trust a certificate until it is used: every API server has
seen the change by then."""

_UNTRUSTED_TIMEOUT: Final = 30.0
"""Seconds after which a process without any certificate serves with one that the configurations do not trust:
somebody else may write them, in a way that is not known here."""

FIELD_MANAGER: Final = "kaiwo-webhooks"


@dataclass(frozen=True, slots=True)
class ServingState:
    """Whether webhooks are served.

    Attributes:
        reason: CamelCase word, `SERVED` when all is well.
        message: what is missing and what to do; empty when all is well.
        serving: whether requests are answered at all.
    """

    reason: str
    message: str = ""
    serving: bool = False

    @property
    def well(self) -> bool:
        """Whether nothing is missing."""
        return self.reason == SERVED


SERVED: Final = "Served"


class CertificateController:
    """Runs beside the manager, on every replica.

    Attributes:
        state: whether webhooks are served, and what is missing.
        expires: when the certificate in use or its authority ends, None while there is none.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        *,
        folder: Path | None,
        leading: Callable[[], bool],
        use: Callable[[Certificates], Awaitable[None]],
        on_change: Callable[[], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; `run` does the work.

        Args:
            client: reads, and writes while this process leads.
            namespace: of the operator.
            folder: with given certificates; None keeps self-signed ones in the Secret.
            leading: whether this process may write.
            use: serves with certificates; OSError if that fails.
            on_change: called when `state` has changed.
            now: the time, UTC.
            clock: monotonic seconds.
        """
        self.state = ServingState("Starting", "no certificate was read yet")
        self.expires: datetime | None = None
        self._client = client
        self._namespace = namespace
        self._folder = folder
        self._leading = leading
        self._use = use
        self._on_change = on_change
        self._now = now
        self._clock = clock
        self._names = server_names(namespace)
        self._serving: Certificates | None = None
        self._unserved: ServingState | None = None
        self._began = self._settled = clock()
        self._trusted: tuple[bytes, float] | None = None
        self._given: Certificates | None = None
        self._given_before: list[tuple[bytes, float]] = []

    async def run(self) -> None:
        """Repeat `step` for ever."""
        while True:
            try:
                state, settled = await self.step()
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001  or the next certificate would never be made
                _log.exception("webhook certificates: reading them failed")
                state, settled = self._failed("CertificateFailed", f"internal error: {error!r}"), False
            self._report(state)
            clock = self._clock()
            if settled:
                self._settled = clock
            soon = not settled and clock - self._settled < _SOON
            await asyncio.sleep(_UNSETTLED if soon else INTERVAL)

    def _report(self, state: ServingState) -> None:
        if state == self.state:
            return
        self.state = state
        if state.well:
            _log.info("webhooks are served")
        else:
            _log.warning("webhooks: %s: %s", state.reason, state.message)
        self._on_change()

    async def step(self) -> tuple[ServingState, bool]:
        """Bring everything one step further; the state, and whether nothing is left to do soon."""
        try:
            return await self._step()
        except NotLeading:  # the Lease was lost a moment ago: the next step only reads
            return self.state, False

    async def _step(self) -> tuple[ServingState, bool]:
        try:
            stored = await self._stored()
        except NotLeading:
            raise
        except EngineError as error:
            return self._failed(*_explain(error, f"Secret {self._namespace}/{SECRET}")), False
        except OSError as error:
            return self._failed("CertificateMissing", f"{self._folder}: {error.strerror or error}"), False
        fault = fault_of(stored, self._names, self._now())
        if fault is not None:
            return self._failed(fault.reason, f"{self._origin}: {fault.message}"), False
        found, problem = await self._configurations(stored)
        trusted = not stored.authorities or trusted_by(found, stored.certificate)
        settled = await self._serve(stored, trusted=trusted)
        if problem is None and not trusted:
            problem = self._failed("NotTrusted", f"the configurations do not trust {self._origin} yet")
        state = problem or self._unserved or ServingState(SERVED, serving=True)
        return state, settled and state.well

    @property
    def _origin(self) -> str:
        return str(self._folder) if self._folder else f"Secret {self._namespace}/{SECRET}"

    def _failed(self, reason: str, message: str) -> ServingState:
        return ServingState(reason, message, serving=self._serving is not None)

    # -- what is stored

    async def _stored(self) -> Certificates:
        """The given files, or the Secret; the leader changes the latter when that is due."""
        if self._folder is not None:
            return await asyncio.to_thread(_read_folder, self._folder)
        try:
            secret = await self._client.get(SECRETS, self._namespace, SECRET)
        except NotFound:
            if not self._leading():
                raise
            secret = await self._create()
        stored = _of_secret(secret)
        change = (
            next_certificates(stored, self._serving, self._names, self._now()) if self._leading() else None
        )
        if change is None:
            return stored
        _log.info("webhook certificates: Secret %s/%s changes: %s", self._namespace, SECRET, change.why)
        data = {name: base64.b64encode(value).decode() for name, value in change.certificates.files().items()}
        try:
            secret = await self._client.merge_patch(
                SECRETS, self._namespace, SECRET, {"data": data},
                uid=secret["metadata"]["uid"], resource_version=secret["metadata"]["resourceVersion"],
                field_manager=FIELD_MANAGER,
            )  # fmt: skip
        except Conflict:  # another process was quicker, and its certificates count
            secret = await self._client.get(SECRETS, self._namespace, SECRET)
        return _of_secret(secret)

    async def _create(self) -> Object:
        """Make the Secret that somebody deleted, still empty.

        By a server-side apply: the right to create can be limited to a name for it, and for nothing else.
        """
        obj = head(
            SECRETS.api_version, SECRETS.kind, SECRET,
            app=OPERATOR, installation=self._namespace, namespace=self._namespace,
        )  # fmt: skip
        _log.warning("webhook certificates: Secret %s/%s is missing and made again", self._namespace, SECRET)
        return await self._client.apply(SECRETS, obj, field_manager=FIELD_MANAGER)

    # -- what the API server trusts

    async def _configurations(self, stored: Certificates) -> tuple[list[Object], ServingState | None]:
        """The configurations that there are, and what is wrong with one."""
        problem: ServingState | None = None
        found: list[Object] = []
        for kind in CONFIGURATIONS:
            try:
                found.append(await self._configuration(kind, self._wanted(stored)))
            except NotFound:
                continue
            except NotLeading:
                raise
            except EngineError as error:
                what = f"{kind.kind} {configurations_name(self._namespace)}"
                problem = problem or self._failed(*_explain(error, what))
        if not found and problem is None:
            name = configurations_name(self._namespace)
            problem = self._failed(
                "NotRegistered", f"no webhook configuration {name}: apply kaiwo manifests --webhooks"
            )
        return found, problem

    def _wanted(self, stored: Certificates) -> bytes:
        """The authorities to be trusted: the stored ones, and for a while those of files that were replaced.

        In the Secret the earlier ones are stored too.
        """
        now = self._clock()
        if self._folder is None or not stored.authorities:
            return stored.authorities
        if self._given is not None and self._given.authorities not in (b"", stored.authorities):
            self._given_before.append((self._given.authorities, now))
        self._given = stored
        kept = RETIRED_AFTER.total_seconds()
        self._given_before = [
            (pem, since)
            for pem, since in self._given_before[-MOST_RETIRED:]
            if now < since + kept and pem != stored.authorities
        ]
        return b"\n".join([stored.authorities, *(pem for pem, _ in self._given_before)])

    async def _configuration(self, kind: Resource, authorities: bytes) -> Object:
        """A configuration, with the authorities in it if this process leads; NotFound if there is none."""
        found = await self._client.get(kind, None, configurations_name(self._namespace))
        document = with_bundle(found, authorities) if authorities and self._leading() else None
        if document is None:
            return found
        _log.info(
            "webhook certificates: writing the authorities into %s %s",
            kind.kind,
            document["metadata"]["name"],
        )
        return await self._client.apply(kind, document, field_manager=FIELD_MANAGER)

    # -- what is served

    async def _serve(self, stored: Certificates, *, trusted: bool) -> bool:
        """Serve with the stored certificates if it is time for them; whether that is done."""
        self._unserved = None
        clock = self._clock()
        if trusted and (self._trusted is None or self._trusted[0] != stored.certificate):
            self._trusted = (stored.certificate, clock)
        elif not trusted:
            self._trusted = None
        current = self._serving
        if current is not None and (current.certificate, current.key) == (stored.certificate, stored.key):
            self._serving, self.expires = stored, expiry(stored)  # of other authorities, maybe
            return True
        usable = current is not None and fault_of(current, self._names, self._now()) is None
        if usable and (self._trusted is None or clock - self._trusted[1] < PROPAGATION):
            return False
        if current is None and not trusted and clock - self._began < _UNTRUSTED_TIMEOUT:
            return False
        try:
            await self._use(stored)
        except ssl.SSLError as error:
            self._unserved = self._failed(
                "CertificateInvalid", f"{self._origin}: {error.reason or 'unusable'}"
            )
            return False
        except OSError as error:
            self._unserved = self._failed("AddressUnusable", str(error))
            return False
        self._serving, self.expires = stored, expiry(stored)
        _log.info("webhook certificates: serving with one that expires at %s", self.expires)
        return True


def _explain(error: EngineError, what: str) -> tuple[str, str]:
    """Reason and message for what the API server does not do."""
    if isinstance(error, Forbidden):
        return "Forbidden", f"{what}: {error.stable_message}; apply kaiwo manifests rbac --webhooks"
    if isinstance(error, NotFound):
        return "CertificateMissing", f"{what} does not exist; the operator that leads makes it"
    return "Unreachable", f"{what}: {error.stable_message}"


def _of_secret(secret: Mapping[str, Any]) -> Certificates:
    """What a Secret holds; what is no base64 counts as missing."""
    files = {}
    for name in (CERTIFICATE, KEY, AUTHORITIES):
        try:
            files[name] = base64.b64decode((secret.get("data") or {}).get(name) or "")
        except binascii.Error:
            continue
    return Certificates.of(files)


def _read_folder(folder: Path) -> Certificates:
    """The files of a folder; the authorities may be missing."""
    files = {name: (folder / name).read_bytes() for name in (CERTIFICATE, KEY)}
    authorities = folder / AUTHORITIES
    if authorities.exists():
        files[AUTHORITIES] = authorities.read_bytes()
    return Certificates.of(files)
