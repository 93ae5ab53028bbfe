"""Leader election by Lease; a process without a valid lease does not write.

The semantics are client-go's, with one addition: validity is measured by CLOCK_BOOTTIME, which also runs
while the machine is suspended, from before the renewing request was sent. A process that was frozen and
thawed therefore finds its lease invalid before it sends anything.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.engine.errors import AlreadyExists, Conflict, EngineError, NotFound
from kaiwo.engine.resource import LEASE
from kaiwo.engine.timestamps import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_log = logging.getLogger(__name__)

JITTER = 1.2
"""A waiting candidate tries again after up to this factor of the retry period, as in client-go."""

TRIES_AFTER_FAILURE = 4
"""Tries per retry period after a renewal that failed: what is left of the lease is short."""


def boottime() -> float:
    """Seconds since boot, suspension included (monotonic time where the system has no such clock)."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class LeaderElector:
    """One candidate for one Lease object.

    Attributes:
        identity: who we are; unique per process.
        holder: who holds the lease as last seen, empty when no process does.
        problem: why the last attempt failed, empty when the API server answered it.
        unled: seconds from the last renewal by a holder until we acquired the lease, by the clocks of both;
            None while that is not known.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration: float = 10.0,
        renew_deadline: float = 7.0,
        retry_period: float = 2.0,
        clock: Callable[[], float] = boottime,
        annotations: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: reads and writes the lease, also while this process does not lead.
            namespace: of the Lease.
            name: of the Lease.
            identity: who we are. No two processes may use one at the same time; a lease still in this name
                is taken at once.
            duration: seconds after its last renewal that others leave a lease alone.
            renew_deadline: seconds after its last renewal that the holder still writes. The rest up to
                `duration` is for requests that are under way.
            retry_period: seconds between two renewals, and between two tries to acquire.
            clock: seconds; must run on while the process is frozen or the machine suspended.
            annotations: what the Lease gets with each acquisition and renewal.

        Raises:
            ValueError: unless duration > renew_deadline > retry_period > 0.
        """
        if not duration > renew_deadline > retry_period > 0:
            raise ValueError(
                f"lease {namespace}/{name}: leaseDuration {duration} > renewDeadline {renew_deadline} > "
                f"retryPeriod {retry_period} > 0 must hold"
            )
        self.identity = identity
        self.holder = ""
        self.problem = ""
        self.unled: float | None = None
        self._client = client
        self._namespace = namespace
        self._name = name
        self._duration = duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._clock = clock
        self._annotations = annotations
        self._renewed: float | None = None  # when the last successful request was sent, by our clock
        self._seen: Object = {}  # the spec as last seen, and since when unchanged
        self._seen_at = 0.0
        self._mine: Object | None = None  # the Lease as we last wrote it

    @property
    def slack(self) -> float:
        """Seconds for which a write may be under way: others leave the lease alone for so much longer."""
        return self._duration - self._renew_deadline

    def valid(self) -> bool:
        """Whether this process may write now."""
        return self._renewed is not None and self._clock() - self._renewed < self._renew_deadline

    def health(self) -> tuple[bool, str]:
        """Whether this process leads or waits for its turn; not when it cannot reach the lease at all."""
        if self.valid():
            return True, "this process leads"
        name = f"lease {self._namespace}/{self._name}"
        if self.problem:
            return False, f"{name}: {self.problem}"
        return True, f"waits for {name}, held by {self.holder or 'no process'}"

    async def acquire(self) -> None:
        """Wait until we hold the lease."""
        waits_for = None
        while not await self._attempt():
            if not self.problem and self.holder not in (waits_for, self.identity):
                waits_for = self.holder
                _log.info(
                    "lease %s/%s is held by %s; this process waits for it and is ready to take over",
                    self._namespace, self._name, self.holder,
                )  # fmt: skip
            pause = self._retry_period * random.uniform(1.0, JITTER)  # noqa: S311 -- jitter needs no secrecy
            await asyncio.sleep(pause)

    async def keep(self) -> None:
        """Renew for as long as it works; returns when the lease is lost."""
        pause = self._retry_period
        while True:
            await asyncio.sleep(pause)
            started = self._clock()
            if not self.valid():
                # Frozen, or cut off for too long: another process may lead by now.
                break
            if await self._attempt():
                period = self._retry_period
            elif self.valid() and self.holder == self.identity:
                period = self._retry_period / TRIES_AFTER_FAILURE
            else:
                break
            pause = max(0.0, period - (self._clock() - started))
        self._renewed = None
        if self.holder in ("", self.identity):
            text = f"not renewed within {self._renew_deadline:g} s; another process may lead by now"
        else:
            text = f"lost to {self.holder}"
        _log.warning("lease %s/%s %s", self._namespace, self._name, text)

    async def release(self) -> None:
        """Give the lease up, so that a successor need not wait for its end."""
        if not self.valid():
            self._renewed = None
            return
        self._renewed = None
        try:
            async with asyncio.timeout(self._duration - self._renew_deadline):
                lease = await self._client.get(LEASE, self._namespace, self._name, urgent=True)
                spec = lease.get("spec") or {}
                if spec.get("holderIdentity") == self.identity:
                    lease["spec"] = {
                        **spec,
                        "holderIdentity": "",
                        "leaseDurationSeconds": 1,
                        "renewTime": _now(),
                    }
                    await self._client.replace(LEASE, lease, urgent=True)
        except (EngineError, TimeoutError) as error:
            _log.warning("lease %s/%s not released, it will run out: %s", self._namespace, self._name, error)

    async def _attempt(self) -> bool:
        """Acquire or renew once; whether we hold the lease now."""
        sent = self._clock()
        try:
            # As in controller-runtime: a request that hangs leaves time for another one.
            async with asyncio.timeout(min(self._renew_deadline / 2, self._left())):
                held = await self._write()
        except (Conflict, AlreadyExists):
            self._mine, self.problem = None, ""
            return False  # another process was quicker; the next read shows which
        except (EngineError, TimeoutError) as error:
            self._mine, self.problem = None, str(error) or "timed out"
            _log.warning("lease %s/%s: %s", self._namespace, self._name, self.problem)
            return False
        self.problem = ""
        if held:
            self._renewed = sent
        return held

    def _left(self) -> float:
        """Seconds for which the lease is valid; without end while it is not held."""
        if self._renewed is None or not self.valid():
            return math.inf
        return self._renewed + self._renew_deadline - self._clock()

    async def _write(self) -> bool:
        lease = self._mine if self._renewed is not None else None
        if lease is None:
            try:
                lease = await self._client.get(LEASE, self._namespace, self._name, urgent=True)
            except NotFound:
                if not self._free(self._seen):
                    return False  # deleted, while its holder may still write
                self._remember(await self._client.create(LEASE, self._new(), urgent=True))
                return True
        spec: Object = lease.get("spec") or {}
        self._read(lease)
        now = _now()
        if self.holder == self.identity and self._renewed is not None:
            lease = {
                **lease,
                "spec": {**spec, "renewTime": now, "leaseDurationSeconds": round(self._duration)},
            }
        elif self._free(spec):
            renewed = parse_time(spec.get("renewTime"))
            self.unled = None if renewed is None else (datetime.now(UTC) - renewed).total_seconds()
            lease["spec"] = {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": round(self._duration),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1,
            }
        else:
            return False
        if annotations := self._annotations():
            metadata = lease["metadata"]
            kept = {**(metadata.get("annotations") or {}), **annotations}
            lease = {**lease, "metadata": {**metadata, "annotations": kept}}
        self._remember(await self._client.replace(LEASE, lease, urgent=True))
        return True

    def _remember(self, lease: Object) -> None:
        """Renew from the Lease as written last; if another process wrote since, the version conflicts."""
        self._mine = lease
        self._read(lease)

    def _free(self, spec: Object) -> bool:
        """Whether the lease can be taken: given up, still in our name, or not renewed while we watched.

        Only our own clock is used: the stamps in the lease come from another machine's.
        """
        if self.holder in ("", self.identity):
            return True
        stated = spec.get("leaseDurationSeconds")
        length = float(stated) if isinstance(stated, int) and stated > 0 else self._duration
        return self._clock() - self._seen_at >= length

    def _read(self, lease: Object) -> None:
        spec: Object = lease.get("spec") or {}
        if spec != self._seen:
            self._seen, self._seen_at = spec, self._clock()
        self.holder = str(spec.get("holderIdentity") or "")

    def _new(self) -> Object:
        now = _now()
        annotations = self._annotations()
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                **({"annotations": dict(annotations)} if annotations else {}),
            },
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": round(self._duration),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }


def _now() -> str:
    """The API's MicroTime."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
