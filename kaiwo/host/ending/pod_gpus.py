"""How many GPUs pods have on which nodes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from kaiwo.engine.quantity import quantity
from kaiwo.engine.resource import POD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.client import Client
    from kaiwo.engine.store import Cache

    PodGpus = tuple[int, str, int]  # version of the pod, its node, GPUs there

_OVER = frozenset({"Succeeded", "Failed"})


class HeldGpus:
    """The GPUs of all pods of the cache. It outlives decisions: a version of a pod is decoded once."""

    def __init__(self, cache: Cache) -> None:
        """Nothing is read yet.

        Args:
            cache: holds the pods.
        """
        self._cache = cache
        self._known: dict[str, dict[str, PodGpus]] = {}

    def by_node(self, key: str) -> Counter[str]:
        """GPUs of a key that pods have, by node."""
        before, now = self._known.get(key, {}), {}
        found: Counter[str] = Counter()
        for pod in self._cache.list(POD):
            known = before.get(pod.uid)
            if known is None or known[0] != pod.version:
                known = (pod.version, *_held(_decode(pod.clean()), key))
            now[pod.uid] = known
            found[known[1]] += known[2]
        self._known[key] = now
        return found


def gpus_by_node(pods: Iterable[CachedObject], key: str) -> Counter[str]:
    """GPUs of a key that some pods have, by node; only nodes where they have any."""
    found: Counter[str] = Counter()
    for pod in pods:
        node, gpus = _held(_decode(pod.clean()), key)
        if gpus:
            found[node] += gpus
    return found


async def used_on(client: Client, node: str, key: str) -> int:
    """The GPUs of a key that all pods on a node have, whoever made them, as the API server says now."""
    used = 0
    async for pod in client.list(POD, None, field_selector=f"spec.nodeName={node}"):
        used += _held(msgspec.convert(pod, _Pod), key)[1]
    return used


class _Resources(msgspec.Struct, gc=False):
    requests: dict[str, str] = {}


class _Container(msgspec.Struct, gc=False, rename="camel"):
    resources: _Resources = msgspec.field(default_factory=_Resources)
    restart_policy: str = ""


class _PodSpec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


class _PodStatus(msgspec.Struct, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, gc=False):
    """What is read of a pod. The API server has validated it, and there are thousands."""

    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


_decode = msgspec.json.Decoder(_Pod).decode


def _held(pod: _Pod, key: str) -> tuple[str, int]:
    """The node of a pod and its GPUs there; none where it has no node or has ended.

    As many as `pod_requests` counts, which reads all resources of a pod and takes four times as long.
    """
    spec = pod.spec
    if not spec.node_name or pod.status.phase in _OVER:
        return "", 0
    gpus = sum(_count(container, key) for container in spec.containers)
    sidecars, largest = 0, 0
    for container in spec.init_containers:
        count = _count(container, key)
        if container.restart_policy == "Always":
            sidecars += count
            count = 0
        largest = max(largest, sidecars + count)
    # An init container's device stays with the pod until the pod ends, as the scheduler counts it.
    return spec.node_name, max(gpus + sidecars, largest)


def _count(container: _Container, key: str) -> int:
    asked = container.resources.requests.get(key)
    if asked is None:
        return 0
    if asked.isdecimal():
        return int(asked)
    amount = quantity(asked)
    return amount.units if amount is not None else 0
