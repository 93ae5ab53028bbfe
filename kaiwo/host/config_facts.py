"""Reads from the cache what the values of a KaiwoConfig refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.quantity import quantity
from kaiwo.engine.resource import NAMESPACE, NODE
from kaiwo.host.config_warnings import ConfigFacts
from kaiwo.plugin.queues import QueueFacts
from kaiwo.workload import plugin_calls
from kaiwo.workload.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from kaiwo.engine.quantity import Quantity
    from kaiwo.engine.resource import Resource
    from kaiwo.engine.store import Cache
    from kaiwo.host.cluster_facts import ClusterFacts
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.model import Registry


class ConfigFactsReader:
    """What the values of the KaiwoConfig refer to, as of now.

    Attributes:
        queue_kinds: kinds by which the queue system knows its queues.
    """

    def __init__(
        self,
        cache: Cache,
        cluster: ClusterFacts,
        plugins: Plugins,
        registry: Registry,
        *,
        served: Callable[[Resource], bool],
        settings: Callable[[], Mapping[str, BaseModel]],
        monitored: bool,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            cache: holds nodes and the objects of the queue system.
            cluster: knows the StorageClasses.
            plugins: loaded plugins and the states of all.
            registry: their declarations under a time limit.
            served: whether the cluster serves a kind.
            settings: validated settings by name of the plugin.
            monitored: whether the operator reads the use of GPUs.
        """
        self._monitored = monitored
        self._cache = cache
        self._cluster = cluster
        self._plugins = plugins
        self._queue = registry.queue
        self._served = served
        self._settings = settings
        queue = registry.queue
        kinds = [kind for kind in queue.reads if kind not in queue.owned] if queue and queue.queues else []
        self.queue_kinds = tuple(kind for kind in kinds if kind != NAMESPACE)

    def read(self, default_queue: str) -> ConfigFacts:
        """Read everything.

        Args:
            default_queue: name of the default queue.
        """
        return ConfigFacts(
            plugins={state.name: state.state for state in self._plugins.states},
            with_settings=frozenset(self._plugins.settings_models()),
            storage_classes=frozenset(self._cluster.storage_classes),
            queues=self._queues(default_queue),
            gpu_keys={vendor.name: tuple(vendor.resource_keys) for vendor in self._plugins.vendors},
            largest_node=self._largest_node(),
            monitored=self._monitored,
        )

    def _queues(self, default_queue: str) -> frozenset[str] | None:
        """Names of the queues; None while they are not known."""
        queue = self._queue
        served = [kind for kind in self.queue_kinds if self._served(kind)]
        if queue is None or not served or not all(self._cache.synced(kind) for kind in served):
            return None
        facts = QueueFacts(
            objects={kind: tuple(item.readable() for item in self._cache.list(kind)) for kind in served},
            default_queue=default_queue,
            settings=self._settings().get(queue.plugin),
            missing=frozenset(self.queue_kinds) - frozenset(served),
        )
        try:
            return plugin_calls.queues(queue, facts)
        except PluginError:
            return None  # it is reported on the workloads that need the plugin

    def _largest_node(self) -> Quantity | None:
        sizes = (quantity(node.part("status", "allocatable", "memory")) for node in self._cache.list(NODE))
        return max((size for size in sizes if size is not None), default=None)
