"""Facts about the cluster that plans use, computed once per change instead of once per reconciliation."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kaiwo.engine.cached_object import Projection
from kaiwo.engine.resource import NODE, PRIORITY_CLASS, STORAGE_CLASS
from kaiwo.workload.gpus.nodes import expected_nodes, node_fact
from kaiwo.workload.storage.classes import storage_class

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.store import Cache, CacheEvent
    from kaiwo.plugin.facts import NodeFact
    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo.workload.storage.classes import StorageClass

_log = logging.getLogger(__name__)

NODE_PROJECTION = Projection(
    keep=(
        ("spec", "unschedulable"),
        ("status", "allocatable"),
        ("status", "capacity"),
        ("status", "conditions", "*", "type"),
        ("status", "conditions", "*", "status"),
    )
)
"""What vendors may read of a node (labels come with the metadata), and whether it takes pods."""

PRIORITY_CLASS_PROJECTION = Projection(keep=(("value",),))
STORAGE_CLASS_PROJECTION = Projection(keep=(("volumeBindingMode",), ("allowVolumeExpansion",)))


class ClusterFacts:
    """The current nodes with their GPUs, priority classes and storage classes.

    A kubelet writes its node every few seconds; listeners are called only when a fact changes.
    """

    def __init__(
        self, cache: Cache, vendors: tuple[GpuVendor, ...], config: Callable[[], ResolvedConfig]
    ) -> None:
        """Subscribe to the cache.

        Args:
            cache: holds nodes, where there are vendors, and both kinds of classes; the caller watches them.
            vendors: loaded vendors; their code may raise.
            config: the configuration in force (``nodes.expectedGpus``).
        """
        self._cache = cache
        self._vendors = vendors
        self._config = config
        self._listeners: list[Callable[[], None]] = []
        self._nodes: dict[str, NodeFact] = {}
        self._priority_classes: set[str] = set()
        self._storage_classes: Mapping[str, StorageClass] = {}
        self._all: tuple[ResolvedConfig, tuple[NodeFact, ...]] | None = None
        self._class_names: frozenset[str] | None = None
        self._reported: set[tuple[str, str]] = set()
        if vendors:
            cache.subscribe(NODE, self._node)
        cache.subscribe(PRIORITY_CLASS, self._priority_class)
        cache.subscribe(STORAGE_CLASS, self._storage_class)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Register a callback for changes of facts."""
        self._listeners.append(listener)

    @property
    def nodes(self) -> tuple[NodeFact, ...]:
        """All nodes, sorted by name, then those an autoscaler can add."""
        config = self._config()
        if self._all is None or self._all[0] is not config:
            real = tuple(self._nodes[name] for name in sorted(self._nodes))
            self._all = (config, real + expected_nodes(config, self._vendors))
        return self._all[1]

    @property
    def priority_classes(self) -> frozenset[str]:
        """Names of all Kubernetes PriorityClasses."""
        if self._class_names is None:
            self._class_names = frozenset(self._priority_classes)
        return self._class_names

    @property
    def storage_classes(self) -> Mapping[str, StorageClass]:
        """All StorageClasses by name."""
        return self._storage_classes

    def read_nodes(self) -> None:
        """Read all nodes again, because the settings of vendors changed."""
        before = dict(self._nodes)
        for entry in self._cache.list(NODE) if self._vendors else ():
            self._read(entry)
        if before != self._nodes:
            self._all = None
            self._changed()

    def _read(self, entry: CachedObject) -> NodeFact:
        fact = node_fact(entry.full(), self._vendors, self._vendor_failed)
        self._nodes[entry.name] = fact
        return fact

    def _node(self, event: CacheEvent) -> None:
        name = event.latest.name
        before = self._nodes.get(name)
        after: NodeFact | None = None
        if event.new is None:
            self._nodes.pop(name, None)
        else:
            after = self._read(event.new)
        if before != after:
            self._all = None
            self._changed()

    def _priority_class(self, event: CacheEvent) -> None:
        if event.new is None:
            self._priority_classes.discard(event.latest.name)
        elif event.old is None:
            self._priority_classes.add(event.latest.name)
        else:
            return
        self._class_names = None
        self._changed()

    def _storage_class(self, event: CacheEvent) -> None:
        before = self._storage_classes
        after = {name: known for name, known in before.items() if name != event.latest.name}
        if event.new is not None:
            after[event.latest.name] = storage_class(event.new.full())
        if after != before:
            self._storage_classes = after
            self._changed()

    def _vendor_failed(self, vendor: str, error: Exception) -> None:
        failure = (vendor, f"{type(error).__name__}: {error}")
        if failure not in self._reported:
            self._reported.add(failure)
            _log.error(
                "GPU vendor plugin %s failed to read a node; the GPUs of the node do not count: %s", *failure
            )

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()
