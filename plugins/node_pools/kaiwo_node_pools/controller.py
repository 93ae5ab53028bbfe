"""The controller that writes labels, annotations and the taint of nodes.

One key stands for all nodes, because their number of pools decides which pools are merged. Nodes are followed
through the cache, so that a reconciliation in which nothing changed compares values and writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.api_errors import Conflict, EngineError, NotFound
from kaiwo.plugin.kit.cache import Projection
from kaiwo.plugin.kit.controllers import Controller, Key, RepeatedWrites, Watch, render_hash
from kaiwo.plugin.kit.json_access import lenient_map
from kaiwo.plugin.kit.kinds import NODE, POD
from kaiwo.plugin.kit.names import RUN_ID
from kaiwo.plugin.kit.nodes import NODEPOOL
from kaiwo_node_pools.flavors import FLAVOR_PROJECTION, RESOURCE_FLAVOR, changes_selection, selected_pools
from kaiwo_node_pools.node_patch import node_patch, pending_patch, pool_left
from kaiwo_node_pools.pool_limit import LOWEST, READ_AGAIN, PoolLimit, limit_for
from kaiwo_node_pools.pool_merge import merged_names
from kaiwo_node_pools.pools import node_pools, pool_node, pool_of, with_kept_pool
from kaiwo_node_pools.settings import NodePoolsSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.kit.cache import CachedObject, CacheEvent
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_node_pools.pools import PoolNode

_log = logging.getLogger(__name__)

KEY = Key("", "nodes")

_RETRY = 30.0  # seconds until a node is tried again whose label waits for pods, or that could not be written
_CONFLICT_RETRY = 0.5  # seconds until a node is tried again that somebody else wrote at the same time
_CONCURRENT_WRITES = 8
_ENDED = ("Succeeded", "Failed")
_NODE_PROJECTION = Projection(
    keep=(
        ("spec", "unschedulable"),
        ("spec", "taints"),
        ("status", "allocatable"),
        ("status", "capacity"),
    )
)
_POD_PROJECTION = Projection(keep=(("status", "phase"),))


def build(host: ControllerHost) -> None:
    """Add the plugin's controller to the host's manager."""
    host.manager.add(NodeController(host).controller)


class NodeController:
    """Writes labels, annotations and the taint of nodes.

    Attributes:
        controller: what the manager runs.
    """

    def __init__(self, host: ControllerHost) -> None:
        """Follow the nodes of a host's manager.

        Args:
            host: the operator around it.
        """
        self._host = host
        self._nodes: dict[str, PoolNode] = {}
        self._limit = PoolLimit(host.manager.client)
        self._repeated = RepeatedWrites()
        self._changed_back: set[str] = set()  # nodes of which the log says that somebody changes them back
        self._logged: set[tuple[str, str]] = set()
        self._waiting: set[str] = set()  # nodes whose new label waits for pods
        pods = Watch(POD, self._keys_of_pod, _POD_PROJECTION, host.namespaces, label_selector=RUN_ID)
        flavors = Watch(
            RESOURCE_FLAVOR, lambda event: (KEY,) if changes_selection(event) else (), FLAVOR_PROJECTION
        )
        self.controller = Controller(
            "node-pools",
            [Watch(NODE, projection=_NODE_PROJECTION), pods, flavors],
            self.reconcile,
            workers=1,
            initial=lambda: [KEY],
        )
        host.manager.watch(Watch(NODE, projection=_NODE_PROJECTION))
        host.manager.cache.subscribe(NODE, self._on_node)
        host.on_config_change(self._on_config_change)

    async def reconcile(self, key: Key) -> float | None:
        """Write the nodes that do not show what they should; the time until the next try, None for never."""
        del key
        selected = selected_pools(self._host.manager.cache)
        nodes = [with_kept_pool(node, selected) for node in self._nodes.values()]
        pools = node_pools(nodes)
        read_again = len(pools) > LOWEST
        limit = await self._limit.read() if read_again else LOWEST
        merged = merged_names(pools, limit_for(nodes, limit))
        config = self._host.config()
        taint = config.default_gpu_taint_key if config.add_taints_to_gpu_nodes else ""
        writes: list[tuple[PoolNode, str, Object]] = []
        for node in nodes:
            pool = pool_of(node, merged)
            patch = node_patch(node, pool, taint)
            if patch:
                writes.append((node, pool, patch))
        slots = asyncio.Semaphore(_CONCURRENT_WRITES)
        self._waiting = set()
        retries = await asyncio.gather(*(self._write(*write, slots) for write in writes))
        if read_again:
            retries.append(READ_AGAIN)
        return min((retry for retry in retries if retry is not None), default=None)

    async def _write(
        self, node: PoolNode, pool: str, patch: Object, slots: asyncio.Semaphore
    ) -> float | None:
        """Write one node; seconds until it has to be tried again, None when nothing is left to do."""
        async with slots:
            entry = self._host.manager.cache.get(NODE, None, node.name)
            if entry is None:
                return None
            retry: float | None = None
            digest = render_hash(patch)
            pause = self._repeated.pause(node.name, digest)
            if pause > 0:
                self._warn(node.name, patch)
                return pause
            try:
                old = pool_left(node, patch)
                if old and await self._is_selected(node.name, old):
                    self._waiting.add(node.name)
                    retry, patch = _RETRY, pending_patch(node, pool)
                    if not patch:
                        return retry
                live = await self._host.manager.client.merge_patch(
                    NODE, None, node.name, patch,
                    uid=entry.uid, resource_version=entry.resource_version, field_manager="kaiwo",
                )  # fmt: skip
            except (Conflict, NotFound):
                # Often a node that has just joined: kubelet and controllers write it too, and workloads wait.
                return _CONFLICT_RETRY
            except EngineError as error:
                _log.warning("node %s: cannot write its labels: %s", node.name, error)
                return _RETRY
            self._host.manager.cache.assume(NODE, live)
            self._repeated.record(node.name, digest)
            _log.info("node %s: wrote %s", node.name, _summary(patch))
            return retry

    def _warn(self, node: str, patch: Object) -> None:
        """Say once that somebody changes a node back."""
        if node in self._changed_back:
            return
        self._changed_back.add(node)
        _log.warning(
            "node %s: somebody takes back what Kaiwo writes (%s); it is written ever more rarely from now "
            "on. Find who else writes it: kubectl get node %s -o yaml --show-managed-fields",
            node, _summary(patch), node,
        )  # fmt: skip

    async def _is_selected(self, node: str, pool: str) -> bool:
        """Whether a pod on a node selects a pool; without its label such a pod could not start again.

        Where the operator runs workloads of chosen namespaces only, it may read only their pods.
        """
        for namespace in self._host.namespaces or (None,):
            pods = self._host.manager.client.list(POD, namespace, field_selector=f"spec.nodeName={node}")
            async for pod in pods:
                spec, status = lenient_map(pod.get("spec")), lenient_map(pod.get("status"))
                ended = status.get("phase") in _ENDED
                if not ended and lenient_map(spec.get("nodeSelector")).get(NODEPOOL) == pool:
                    return True
        return False

    def _keys_of_pod(self, event: CacheEvent) -> Iterable[Key]:
        """A pod that ends may be the one that a node's new label waits for."""
        if not self._waiting:
            return ()
        ended = event.new is None or event.new.part("status", "phase") in _ENDED
        return (KEY,) if ended else ()

    def _on_node(self, event: CacheEvent) -> None:
        name = event.latest.name
        before = self._nodes.get(name)
        after = self._read(event.new) if event.new is not None else None
        if after is None:
            self._nodes.pop(name, None)
            self._repeated.forget(name)
            self._changed_back.discard(name)
        else:
            self._nodes[name] = after
        if before != after:
            self.controller.enqueue(KEY)

    def _on_config_change(self) -> None:
        for entry in self._host.manager.cache.list(NODE):
            self._nodes[entry.name] = self._read(entry)
        self.controller.enqueue(KEY)

    def _read(self, entry: CachedObject) -> PoolNode:
        settings = self._host.settings()
        return pool_node(
            entry.full(),
            self._host.vendors,
            exclude_control_plane=self._host.config().exclude_master_nodes_from_node_pools,
            topology=settings.topology_rules if isinstance(settings, NodePoolsSettings) else (),
            failed=self._vendor_failed,
        )

    def _vendor_failed(self, vendor: str, error: Exception) -> None:
        failure = (vendor, f"{type(error).__name__}: {error}")
        if failure not in self._logged:
            self._logged.add(failure)
            _log.error("GPU vendor %s cannot read a node, its GPUs are in no pool: %s", *failure)


def _summary(patch: Object) -> str:
    metadata = lenient_map(patch.get("metadata"))
    parts = [
        f"{key}={value}" if value is not None else f"{key} removed"
        for name in ("labels", "annotations")
        for key, value in lenient_map(metadata.get(name)).items()
        if not key.endswith("/node-wrote")
    ]
    return ", ".join([*parts, *(["taints"] if "spec" in patch else [])]) or "its record"
