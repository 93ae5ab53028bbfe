"""How GPUs are split over pods, and why that is impossible now.

The number a user asked for is never reduced: what does not fit is refused with the nearest counts that do.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kaiwo.api.suggestion import did_you_mean
from kaiwo.plugin.facts import Allocation, Blocked
from kaiwo.workload.gpus.capacity import Capacity, capacity
from kaiwo.workload.gpus.requested_models import requested_models
from kaiwo.workload.gpus.resource_keys import is_gpu, matches
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo.workload.pods.requests import pod_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import AllocationInput
    from kaiwo.plugin.vendors import GpuVendor

DEFAULT = "default"
"""The vendor name that means KaiwoConfig's ``nodes.defaultGpuResourceKey``."""

_SEARCH = 4096
"""How far from the requested count a count that fits is searched for."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """Whose GPUs are asked for.

    Attributes:
        vendor: the vendor's name.
        key: the resource key to request.
        models: models the pods may run on, as nodes are labelled; empty for any.
        named: the vendor with, where it is not the vendor's first, the key; for messages.
    """

    vendor: str
    key: str
    models: tuple[str, ...]
    named: str


def find_vendor(name: str, vendors: Iterable[GpuVendor], default_key: str) -> tuple[GpuVendor, str] | Blocked:
    """The loaded vendor of a name, in any case, and the resource key to request; or why there is none."""
    wanted, loaded = name.strip().lower(), list(vendors)
    names = ", ".join(sorted(vendor.name for vendor in loaded)) or "none"
    if wanted == DEFAULT:
        for vendor in loaded:
            if any(matches(default_key, pattern) for pattern in vendor.resource_keys):
                return vendor, default_key
        return Blocked(
            "VendorNotLoaded",
            f"spec.gpuVendor: no loaded GPU vendor plugin serves resource key {default_key!r} of vendor "
            f"'default' (KaiwoConfig nodes.defaultGpuResourceKey); loaded: {names}; set "
            "another key, or install or select the plugin that serves it",
        )
    for vendor in loaded:
        if vendor.name.lower() == wanted and vendor.resource_keys:
            return vendor, vendor.resource_keys[0]
    advice = (
        did_you_mean(wanted, [vendor.name.lower() for vendor in loaded])
        or "install or select the plugin of that vendor"
    )
    return Blocked(
        "VendorNotLoaded",
        f"spec.gpuVendor: no GPU vendor plugin {name!r} is loaded; loaded: {names}; {advice}",
    )


def missing_vendor(name: str, vendors: Iterable[GpuVendor]) -> Blocked | None:
    """Why the GPUs of a live child cannot be split again: the plugin of their vendor is not loaded.

    Without it the GPUs in an embedded template would not be recognised, and the child would lose what goes
    with them.
    """
    loaded = sorted(vendor.name for vendor in vendors)
    if not name or name in loaded:
        return None
    return Blocked(
        "VendorNotLoaded",
        f"GPU vendor {name}: its plugin is not loaded; loaded: {', '.join(loaded) or 'none'}. The running "
        "object was not changed; the change is applied once the plugin is selected again",
    )


def recalculated(workload: Workload) -> list[str]:
    """The warning about ``gpus`` that is not ``replicas`` times ``gpusPerReplica``, where these are given."""
    spec = workload.spec
    product = spec.replicas * (spec.gpus_per_replica or 0)
    if not spec.gpus or product in (0, spec.gpus):
        return []
    return [f"spec.gpus: {spec.gpus} becomes {product}: replicas times gpusPerReplica; leave gpus out"]


def template_gpus(template: Object | None, vendors: Iterable[GpuVendor]) -> tuple[str, str, int]:
    """The GPUs that an embedded pod template requests itself: vendor, resource key, count of one pod.

    Containers and sidecars add up, other init containers run before them. With several keys the largest count
    speaks. Anything that is no pod template requests nothing; its shape is checked where it is rendered.
    """
    amounts = pod_requests(lenient_map(lenient_map(template).get("spec")))
    best = ("", "", 0)
    for vendor in vendors:
        for key, amount in amounts.items():
            if is_gpu(key, vendor.resource_keys) and (amount.units, key) > (best[2], best[1]):
                best = (vendor.name, key, amount.units)
    return best


def _beside(template: Object | None, key: str, each: int) -> int:
    """The GPUs of a pod beside the workload's own, which its first container gets."""
    spec = lenient_map(lenient_map(template).get("spec"))
    first, *others = [*lenient_maps(spec.get("containers"))] or [{}]
    own = {**first, "resources": {"limits": {key: each}}}
    whole = pod_requests({**spec, "containers": [own, *others]})
    return max(0, whole[key].units - each)


def one_pod(
    inp: AllocationInput, template: Object | None = None, pods: int = 1, fewest: int | None = None
) -> Allocation | Blocked:
    """GPUs of a workload whose code runs in one pod: all of them in each of ``pods`` equal pods.

    Args:
        inp: the workload and the cluster.
        template: the embedded pod template, if the user wrote one.
        pods: pods that run at the same time, as of an embedded ``parallelism``.
        fewest: how many of them the nodes must have room for at the same time, all if None: a queue system
            may start fewer.
    """
    spec = inp.workload.spec
    wanted = spec.gpus_per_replica or spec.gpus
    request = _request(inp, template) if not wanted else _asked(inp)
    if isinstance(request, Blocked):
        return request
    if request is None:
        return Allocation(pods=pods)
    each = wanted or template_gpus(template, inp.vendors)[2]
    beside = _beside(template, request.key, each) if wanted else 0
    return _fixed(inp, request, replicas=1, each=each, pods=pods, beside=beside, fewest=fewest)


def even(inp: AllocationInput, template: Object | None = None) -> Allocation | Blocked:
    """GPUs of a workload with ``spec.replicas`` equal pods, as a Deployment has."""
    spec = inp.workload.spec
    replicas, wanted = spec.replicas, spec.gpus_per_replica or spec.gpus
    request = _request(inp, template) if not wanted else _asked(inp)
    if isinstance(request, Blocked):
        return request
    if request is None:
        return Allocation(replicas=replicas, pods=replicas)
    if not wanted:
        each = template_gpus(template, inp.vendors)[2]
    elif spec.gpus_per_replica:
        each = spec.gpus_per_replica
    elif replicas and spec.gpus % replicas:
        return _indivisible(spec.gpus, replicas)
    else:
        each = spec.gpus // (replicas or 1)
    beside = _beside(template, request.key, each) if wanted else 0
    return _fixed(inp, request, replicas=replicas, each=each, pods=replicas, beside=beside)


def spread(inp: AllocationInput, hosts: int = 1) -> Allocation | Blocked:
    """GPUs of a workload that may take as many pods as it needs, as Ray workers.

    Without ``gpusPerReplica`` and ``replicas`` the smallest number of pods is chosen whose equal share fits
    one node and that fit the nodes at the same time.

    Args:
        inp: the workload and the cluster.
        hosts: pods per replica, each with the replica's GPUs.
    """
    spec = inp.workload.spec
    if spec.gpus_per_replica or not spec.gpus or spec.replicas > 1:
        split = even(inp if hosts == 1 else replace(inp, check_capacity=False))
        if isinstance(split, Blocked) or hosts == 1:
            return split
        kept = _gpu_request(inp, split.vendor, split.resource_key)
        each, pods = split.gpus_per_replica, split.replicas * hosts
        return _fixed(inp, kept, replicas=split.replicas, each=each, pods=pods, hosts=hosts)
    request = _asked(inp)
    if isinstance(request, Blocked):
        return request
    room = capacity(inp.nodes, request.vendor, request.key, request.models)
    replicas = _smallest_split(spec.gpus, room, hosts)
    if replicas is None:
        if inp.check_capacity:
            fits = partial(_smallest_split, room=room, hosts=hosts)
            return _refusal(request, room, spec.gpus, {}, _nearest(spec.gpus, room, fits), sets=hosts)
        # A running workload is not judged by the nodes of the moment.
        fewest = -(-spec.gpus // room.largest) if room.largest else 1
        replicas = next(count for count in _divisors(spec.gpus) if count >= fewest)
    return _allocation(request, replicas, spec.gpus // replicas, replicas * hosts)


def written(inp: AllocationInput, sets: Iterable[tuple[Object | None, int]]) -> Allocation | Blocked:
    """GPUs that the embedded templates of several sets of pods request themselves, as Ray worker groups do.

    The set with the largest pods says how many GPUs a replica has. Sets without GPUs need no room.

    Args:
        inp: the workload and the cluster.
        sets: of each set its pod template, if the user wrote one, and the pods that a replica has of it.
    """
    replicas = inp.workload.spec.replicas
    found = [(template_gpus(template, inp.vendors), pods * replicas) for template, pods in sets]
    vendor, key, each = max((asked for asked, _ in found), key=lambda asked: asked[2], default=("", "", 0))
    if not each:
        return Allocation(replicas=replicas, pods=replicas)
    groups: dict[tuple[str, str], Counter[int]] = {}
    for asked, count in found:
        if asked[2]:
            groups.setdefault(asked[:2], Counter())[asked[2]] += count
    if inp.check_capacity and replicas:
        for (vendor_name, resource_key), pods in groups.items():
            asked_for = _gpu_request(inp, vendor_name, resource_key)
            room = capacity(inp.nodes, vendor_name, resource_key, asked_for.models)
            if not room.holds(pods):
                size, count = next(iter(pods.items()))
                nearest = _nearest_pods(room, size, count) if len(pods) == 1 else ""
                return _refusal(asked_for, room, _gpus(pods), pods, nearest)
    return _allocation(_gpu_request(inp, vendor, key), replicas, each, groups[vendor, key][each])


def _gpus(pods: Mapping[int, int]) -> int:
    return sum(gpus * count for gpus, count in pods.items())


def _smallest_split(gpus: int, room: Capacity, hosts: int) -> int | None:
    if not room.largest or gpus > room.total:
        return None
    fewest = -(-gpus // room.largest)
    for replicas in _divisors(gpus):
        if replicas >= fewest and room.pods(gpus // replicas) >= replicas * hosts:
            return replicas
    return None


def _divisors(number: int) -> list[int]:
    """The divisors of a positive number, ascending."""
    small = [count for count in range(1, math.isqrt(number) + 1) if number % count == 0]
    return sorted({*small, *(number // count for count in small)})


def _asked(inp: AllocationInput) -> GpuRequest | Blocked:
    spec = inp.workload.spec
    found = find_vendor(spec.vendor, inp.vendors, inp.default_resource_key)
    if isinstance(found, Blocked):
        return found
    vendor, usual = found
    _, key = requested_models(spec.gpu_models, vendor) if spec.gpu_models else ((), "")
    return _gpu_request(inp, vendor.name, key or usual)


def _request(inp: AllocationInput, template: Object | None) -> GpuRequest | None:
    vendor, key, count = template_gpus(template, inp.vendors)
    return _gpu_request(inp, vendor, key) if count else None


def _gpu_request(inp: AllocationInput, name: str, key: str) -> GpuRequest:
    vendor = next((known for known in inp.vendors if known.name == name), None)
    entries = inp.workload.spec.gpu_models
    models, _ = requested_models(entries, vendor) if entries else ((), "")
    first = vendor is not None and vendor.resource_keys[:1] == (key,)
    named = f"{name} GPUs" if first else f"{name} GPUs ({key})"
    return GpuRequest(name, key, models, named)


def _allocation(request: GpuRequest, replicas: int, each: int, pods: int) -> Allocation:
    return Allocation(
        vendor=request.vendor,
        resource_key=request.key,
        replicas=replicas,
        gpus_per_replica=each,
        pods=pods,
        models=request.models,
    )


def _fixed(
    inp: AllocationInput,
    request: GpuRequest,
    *,
    replicas: int,
    each: int,
    pods: int,
    hosts: int = 1,
    beside: int = 0,
    fewest: int | None = None,
) -> Allocation | Blocked:
    needed = pods if fewest is None else min(pods, fewest)
    if inp.check_capacity and needed:
        room, size = capacity(inp.nodes, request.vendor, request.key, request.models), each + beside
        if room.pods(size) < needed:
            nearest = "" if beside else _nearest_pods(room, each, needed, hosts)
            return _refusal(request, room, size * needed, {size: needed}, nearest)
    return _allocation(request, replicas, each, pods)


def _indivisible(gpus: int, replicas: int) -> Blocked:
    below, above = gpus // replicas * replicas, -(-gpus // replicas) * replicas
    nearest = f"{below} or {above}" if below else str(above)
    return Blocked(
        "IndivisibleGPUs",
        f"spec.gpus: {gpus} GPUs cannot be split evenly over {replicas} replicas; "
        f"the nearest that can: {nearest}; or set gpusPerReplica",
    )


def _refusal(
    request: GpuRequest, room: Capacity, asked: int, pods: Mapping[int, int], nearest: str, *, sets: int = 1
) -> Blocked:
    """Why GPUs cannot be had now.

    Args:
        request: whose GPUs.
        room: what the nodes have of them.
        asked: GPUs of all pods.
        pods: GPUs of a pod, to the number of such pods; empty where the split is free.
        nearest: what fits instead, empty where that is not known.
        sets: how often they are needed, where the split is free: by several groups of workers.
    """
    models = f" of model {' or '.join(request.models)}" if request.models else ""
    what = f"{request.named}{models}"
    if not room.nodes:
        others = ", ".join((*sorted(room.other_models), *sorted(room.other_keys)))
        field = "spec.gpuModels: " if request.models else ""
        seen = f"; {field}usable nodes have {others}" if others else ""
        return Blocked(
            "NoGPUs",
            f"asked for {asked} {what}, and no usable node has any ({request.key}){seen}; "
            "starts by itself when such a node joins",
        )
    have = f"the largest node has {room.largest}, {_nodes(room.nodes)} {room.total} in total"
    advice = f"; nearest that fits: {nearest}" if nearest else ""
    largest = max(pods, default=0)
    if largest > room.largest:
        count = pods[largest]
        in_pods = "in one pod" if count == 1 else f"in each of {count} pods"
        return Blocked("GPUsExceedNode", f"asked for {largest} {what} {in_pods}; {have}{advice}")
    shape = " and ".join(_of_pods(count, size) for size, count in sorted(pods.items(), reverse=True))
    split = f" as {shape}" if sum(pods.values()) > 1 else ""
    if sets > 1:
        split = f" for each of {sets} sets of workers, which makes {asked * sets}"
    return Blocked("InsufficientGPUs", f"asked for {asked} {what}{split}; {have}{advice}")


def _nodes(count: int) -> str:
    return "1 node has" if count == 1 else f"{count} nodes have"


def _of_pods(count: int, gpus: int) -> str:
    return f"{count} {'pod' if count == 1 else 'pods'} of {gpus}"


def _nearest_pods(room: Capacity, each: int, pods: int, hosts: int = 1) -> str:
    """Fewer pods of that size, and as many smaller ones, that fit; the count alone for a single pod."""
    low, high = 0, min(each - 1, room.largest)
    while low < high:  # the largest size of which as many fit; fewer fit of a larger one
        middle = (low + high + 1) // 2
        low, high = (middle, high) if room.pods(middle) >= pods else (low, middle - 1)
    if pods == 1:
        return str(low) if low else ""
    fewer = min(room.pods(each), pods) // hosts * hosts
    found = [_of_pods(count, size) for count, size in ((fewer, each), (pods, low)) if count and size]
    return " or ".join(found)


def _nearest(asked: int, room: Capacity, fits: Callable[[int], object]) -> str:
    """The nearest counts of GPUs that can be split."""
    start = min(asked - 1, room.total)
    below = next((count for count in range(start, max(0, start - _SEARCH), -1) if fits(count)), None)
    above = next(
        (count for count in range(asked + 1, min(room.total, asked + _SEARCH) + 1) if fits(count)), None
    )
    return " or ".join(str(count) for count in (below, above) if count is not None)
