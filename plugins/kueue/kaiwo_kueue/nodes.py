"""Nodes followed by events: their pools, and the labels and taints that show them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kaiwo.engine.cached_object import Projection
from kaiwo.engine.controller import Controller, Watch
from kaiwo.engine.errors import Conflict, EngineError, NotFound
from kaiwo.engine.resource import NODE, POD
from kaiwo.engine.workqueue import Key
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import RUN_ID
from kaiwo_kueue.kinds import NODEPOOL
from kaiwo_kueue.merge import Merged, merge
from kaiwo_kueue.node_writes import leaves, node_patch, pool_of
from kaiwo_kueue.pools import pool_node, pools
from kaiwo_kueue.settings import KueueSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object
    from kaiwo.engine.store import CacheEvent
    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo_kueue.pools import Pool, PoolNode

_log = logging.getLogger(__name__)

FLAVOR_LIMIT = 64
"""Flavors of a resource group in Kueue 0.18, until the served CRD is read."""

_KEY = Key("", "nodes")
_RETRY = (
    30.0  # seconds until a label that waits for pods, or a node that could not be written, is tried again
)
_CONFLICT_RETRY = 0.5  # seconds until a node is tried again that somebody else wrote at the same time
_AT_ONCE = 8  # nodes written at the same time
_PROJECTION = Projection(
    keep=(
        ("spec", "unschedulable"),
        ("spec", "taints"),
        ("status", "allocatable"),
        ("status", "capacity"),
    )
)

_POD_PROJECTION = Projection(keep=(("status", "phase"),))
_ENDED = ("Succeeded", "Failed")


class NodePools:
    """What is known of nodes and pools, as of now."""

    def __init__(self, host: ControllerHost) -> None:
        """Follow the nodes of a host's manager."""
        self._host = host
        self._nodes: dict[str, PoolNode] = {}
        self._listeners: list[Callable[[], None]] = []
        self._known: tuple[tuple[Pool, ...], Merged] | None = None
        self._complained: set[tuple[str, str]] = set()
        self._limit = FLAVOR_LIMIT
        host.manager.watch(Watch(NODE, projection=_PROJECTION))
        host.manager.cache.subscribe(NODE, self._seen)
        host.on_config_change(self._reconfigured)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call back whenever a node changed in what pools are made of."""
        self._listeners.append(listener)

    @property
    def nodes(self) -> tuple[PoolNode, ...]:
        """All nodes."""
        return tuple(self._nodes.values())

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools, merged where they would be too many."""
        return self._work_out()[0]

    @property
    def merged(self) -> Merged:
        """Which pools were merged."""
        return self._work_out()[1]

    @property
    def taint(self) -> str:
        """Key of the taint of GPU nodes, empty without one."""
        config = self._host.config()
        return config.default_gpu_taint_key if config.add_taints_to_gpu_nodes else ""

    def limit(self, flavors: int) -> None:
        """Make no more pools than that."""
        if flavors != self._limit:
            self._limit = flavors
            self._changed()

    def _work_out(self) -> tuple[tuple[Pool, ...], Merged]:
        if self._known is None:
            found = pools(self._nodes.values())
            merged = merge(found, self._limit)
            final = pools(self._nodes.values(), merged.names) if merged.names else found
            left_out = set(merged.left_out)
            self._known = (tuple(pool for pool in final if pool.name not in left_out), merged)
        return self._known

    def _seen(self, event: CacheEvent) -> None:
        name = event.latest.name
        before = self._nodes.get(name)
        after = self._read(event.new) if event.new is not None else None
        if after is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = after
        if before != after:
            self._changed()

    def _read(self, entry: CachedObject) -> PoolNode:
        settings = self._host.settings()
        return pool_node(
            entry.full(),
            self._host.vendors,
            exclude_control_plane=self._host.config().exclude_master_nodes_from_node_pools,
            topology=settings.topology_rules if isinstance(settings, KueueSettings) else (),
            failed=self._vendor_failed,
        )

    def _reconfigured(self) -> None:
        for entry in self._host.manager.cache.list(NODE):
            self._nodes[entry.name] = self._read(entry)
        self._changed()

    def _changed(self) -> None:
        self._known = None
        for listener in self._listeners:
            listener()

    def _vendor_failed(self, vendor: str, error: Exception) -> None:
        warning_event = (vendor, f"{type(error).__name__}: {error}")
        if warning_event not in self._complained:
            self._complained.add(warning_event)
            _log.error("GPU vendor %s cannot read a node, its GPUs are in no pool: %s", *warning_event)


class NodeController:
    """Writes labels and taints of nodes.

    Attributes:
        controller: what the manager runs.
        waiting: nodes whose new label waits for pods, to the pool they leave.
    """

    def __init__(self, host: ControllerHost, known: NodePools) -> None:
        """Put together.

        Args:
            host: the operator around it.
            known: nodes and pools.
        """
        self._host = host
        self._known = known
        self._listeners: list[Callable[[], None]] = []
        self.waiting: dict[str, str] = {}
        pods = Watch(POD, self._of_pod, _POD_PROJECTION, namespace=host.namespace, label_selector=RUN_ID)
        self.controller = Controller(
            "kueue-nodes",
            [Watch(NODE, projection=_PROJECTION), pods],
            self.reconcile,
            workers=1,
            initial=lambda: [_KEY],
        )
        known.on_change(lambda: self.controller.enqueue(_KEY))

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call back when other nodes wait than before."""
        self._listeners.append(listener)

    def _of_pod(self, event: CacheEvent) -> Iterable[Key]:
        """A pod that ends may be the one that a node's new label waits for."""
        if not self.waiting:
            return ()
        ended = event.new is None or event.new.part("status", "phase") in _ENDED
        return (_KEY,) if ended else ()

    async def reconcile(self, key: Key) -> float | None:
        """Look at all nodes; only those that are not right are written."""
        del key
        names, taint = self._known.merged.names, self._known.taint
        todo: list[tuple[PoolNode, Object]] = []
        for node in self._known.nodes:
            patch = node_patch(node, pool_of(node, names), taint)
            if patch:
                todo.append((node, patch))
        gate = asyncio.Semaphore(_AT_ONCE)
        before = self.waiting
        self.waiting = {}
        done = await asyncio.gather(*(self._write(node, patch, gate) for node, patch in todo))
        if before != self.waiting:
            for listener in self._listeners:
                listener()
        return min((again for again in done if again is not None), default=None)

    async def _write(self, node: PoolNode, patch: Object, gate: asyncio.Semaphore) -> float | None:
        """Write one node; seconds until it has to be tried again, None when nothing is left to do."""
        async with gate:
            entry = self._host.manager.cache.get(NODE, None, node.name)
            if entry is None:
                return None
            try:
                old = leaves(node, patch)
                if old and await self._is_selected(node.name, old):
                    self.waiting[node.name] = old
                    return _RETRY
                live = await self._host.manager.client.merge_patch(
                    NODE, None, node.name, patch,
                    uid=entry.uid, resource_version=entry.resource_version, field_manager="kaiwo",
                )  # fmt: skip
            except (Conflict, NotFound):
                # Often a node that has just joined: kubelet and controllers write it too, and workloads wait.
                return _CONFLICT_RETRY
            except EngineError as error:
                _log.warning("node %s: its labels cannot be written: %s", node.name, error)
                return _RETRY
            self._host.manager.cache.assume(NODE, live)
            _log.info("node %s: wrote %s", node.name, _words(patch))
            return None

    async def _is_selected(self, node: str, pool: str) -> bool:
        """Whether a pod on a node selects a pool; without its label such a pod could not start again."""
        pods = self._host.manager.client.list(POD, field_selector=f"spec.nodeName={node}")
        async for pod in pods:
            spec, status = lenient_map(pod.get("spec")), lenient_map(pod.get("status"))
            ended = status.get("phase") in _ENDED
            if not ended and lenient_map(spec.get("nodeSelector")).get(NODEPOOL) == pool:
                return True
        return False


def _words(patch: Object) -> str:
    labels = lenient_map(lenient_map(patch.get("metadata")).get("labels"))
    said = [f"{key}={value}" if value is not None else f"{key} taken back" for key, value in labels.items()]
    return ", ".join([*said, *(["taints"] if "spec" in patch else [])]) or "its note"
