"""Whether a queue can ever give what a planned workload requests, in the words of ``kaiwo why``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.pods.requests import pod_requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.quantity import Quantity
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.queue_usage import QueueUsage
    from kaiwo.plugin.queues import QueueSystem
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.model import Plan


class QuotaCheck:
    """Compares planned workloads with the quotas of their queues, which are read once for each namespace."""

    def __init__(self, cluster: Cluster, plugins: Plugins) -> None:
        """Nothing is read yet.

        Args:
            cluster: where the queues are.
            plugins: what is loaded; without a queue system nothing is compared.
        """
        self._cluster = cluster
        self._plugins = plugins
        self._known: dict[str, QueueUsage | None] = {}

    def warning(self, plan: Plan, namespace: str) -> str:
        """Why the queue never starts what is planned; empty where it can, or the quotas may not be read.

        Args:
            plan: of a workload for which objects are created.
            namespace: the workload's.
        """
        from kaiwo.client.queue import queue_named
        from kaiwo.workload.queues.estimate import beyond_quota

        system = self._plugins.queue_system
        if system is None or not system.queue_label or not plan.rendered:
            return ""
        child = plan.rendered[0].child
        name = lenient_map(lenient_map(child.get("metadata")).get("labels")).get(system.queue_label)
        usage = self._quotas(namespace) if isinstance(name, str) and name else None
        queue = queue_named(usage, namespace, str(name)) if usage is not None else None
        if queue is None or not (reason := beyond_quota(queue, _pod_sets(child, system))):
            return ""
        return f"queue {queue.name} can never start it: {reason}; request less, or name another queue"

    def _quotas(self, namespace: str) -> QueueUsage | None:
        from kaiwo.client.queue import read_quotas

        if namespace not in self._known:
            self._known[namespace] = None
            # A cluster or a plugin's code that fails: a warning must not keep anybody from sending.
            with suppress(Exception):
                self._known[namespace] = self._cluster.run(
                    lambda api: read_quotas(api, self._plugins, namespace)
                )
        return self._known[namespace]


def _pod_sets(child: Object, system: QueueSystem) -> list[Mapping[str, Quantity]]:
    """What each set of pods requests at least.

    An object with one pod template starts with as many pods as the queue system says, and may start with one
    where that says nothing. One with several templates, as a Ray cluster, starts as a whole.
    """
    found = list(_templates(child))
    if len(found) == 1:
        found = [(found[0][0], _fewest_pods(child, system))]
    return [
        {key: amount * pods for key, amount in pod_requests(spec).items()} for spec, pods in found if pods
    ]


def _fewest_pods(child: Object, system: QueueSystem) -> int:
    with suppress(Exception):  # a plugin's code that fails, as above
        fewest = system.fewest_pods(child) if system.fewest_pods is not None else None
        return 1 if fewest is None else fewest
    return 1


def _templates(value: object, pods: int = 1) -> Iterator[tuple[Object, int]]:
    """The pod specs of the templates in an object, each with the number of pods that a group of it states."""
    if isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield spec, pods
            return
        for key, item in value.items():
            stated = _count(value.get("replicas")) * _count(value.get("numOfHosts"))
            yield from _templates(item, stated if key == "template" else 1)
    elif isinstance(value, list):
        for item in value:
            yield from _templates(item)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 1
