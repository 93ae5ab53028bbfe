"""Several operators in one cluster that share its namespaces: what each reconciles, and what none does."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from kaiwo.api.conditions import Condition
from kaiwo.api.config_names import SHARD_LABEL
from kaiwo.engine.cached_object import Projection
from kaiwo.engine.controller import Watch
from kaiwo.engine.errors import EngineError
from kaiwo.engine.resource import NAMESPACE
from kaiwo.engine.shard import MAIN, Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.engine.controller import Controller
    from kaiwo.engine.manager import Manager
    from kaiwo.host.settings import Settings

_log = logging.getLogger(__name__)

SHARDS_SERVED: Final = "ShardsServed"
"""The condition of KaiwoConfig about namespaces whose shard no process leads."""

SEEN_ANNOTATION: Final = "kaiwo.silogen.ai/namespaces-seen"
"""On Leases: the resourceVersion of Namespaces up to which a process reconciles its own ones only."""

INTERVAL: Final = 30.0
"""Seconds between two looks at the Leases of other shards; a shard is missed at the second one."""

_SHOWN: Final = 5


class Sharding:
    """The part of one operator process, all namespaces where there are no shards.

    Attributes:
        whole: whether this process does what only one of the cluster does: queues, nodes, KaiwoConfig,
            preemption and GPU time.
    """

    def __init__(self, settings: Settings) -> None:
        """Read the settings; nothing is watched yet.

        Args:
            settings: process settings.
        """
        self._settings = settings
        self._shard: Shard | None = None
        self._unserved: dict[str, list[str]] = {}
        self._on_change: Callable[[], None] = lambda: None
        self.whole = settings.shard in ("", MAIN)

    @property
    def lease(self) -> str:
        """Name of the Lease of this process."""
        settings = self._settings
        return settings.lease_name if self.whole else f"{settings.lease_name}-{settings.shard}"

    def annotations(self) -> Mapping[str, str]:
        """What the Lease says of the namespaces; nothing where there are no shards."""
        return self._shard.annotations if self._shard is not None else {}

    def attach(self, manager: Manager, namespace: str) -> None:
        """Watch Namespaces, if there are shards.

        Args:
            manager: of the process.
            namespace: of the Leases.
        """
        if not self._settings.shard:
            return
        manager.watch(Watch(NAMESPACE, projection=Projection(keep=(("metadata",),))))
        self._shard = manager.shard = Shard(
            manager.client, manager.cache,
            name=self._settings.shard, label=SHARD_LABEL, annotation=SEEN_ANNOTATION,
            namespace=namespace, lease=self._settings.lease_name,
        )  # fmt: skip
        manager.health.check("shard", self._shard.health)

    def limit(self, controller: Controller) -> Controller:
        """A controller that reconciles only what is in the namespaces of this process."""
        if self._shard is not None:
            self._shard.add(controller)
        return controller

    def serves(self, namespace: str) -> bool:
        """Whether this process reconciles the workloads of a namespace."""
        return self._shard is None or self._shard.serves(namespace)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Register the callback for changes of the condition."""
        self._on_change = listener

    def condition(self, generation: int) -> Condition | None:
        """The condition about namespaces that nobody serves, None while each is served.

        Args:
            generation: of the KaiwoConfig.
        """
        if not self._unserved:
            return None
        parts = []
        for shard, namespaces in sorted(self._unserved.items()):
            names = ", ".join(namespaces[:_SHOWN])
            more = f" and {len(namespaces) - _SHOWN} more" if len(namespaces) > _SHOWN else ""
            parts.append(f"no operator leads shard {shard}, which namespaces {names}{more} belong to")
        text = (
            f"{'; '.join(parts)}. Start its operator (kaiwo manifests --shard NAME), or change the label "
            f"{SHARD_LABEL} of the namespaces"
        )
        return Condition(SHARDS_SERVED, "False", "NoOperator", text, generation)

    async def run(self, manager: Manager) -> None:
        """Look for namespaces that no process serves, in the process that does this for all; never returns.

        Args:
            manager: knows whether this process leads.
        """
        before: dict[str, list[str]] = {}
        while True:
            found = await self._missing(manager)
            # A Lease is free for a moment in each rollout.
            missed = {shard: sorted(names) for shard, names in found.items() if shard in before}
            before = found
            if missed != self._unserved:
                self._unserved = missed
                for shard, names in missed.items():
                    _log.warning("no operator leads shard %s: %s", shard, ", ".join(names[:_SHOWN]))
                self._on_change()
            await asyncio.sleep(INTERVAL)

    async def _missing(self, manager: Manager) -> dict[str, list[str]]:
        if self._shard is None or not self.whole or not manager.leading:
            return {}
        try:
            return await self._shard.unserved()
        except EngineError as error:
            _log.warning("Leases cannot be read: %s", error)
            return {}
