"""Resolves defaults: what is taken from configuration, nodes and the queue when a child is created."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.queues import QueueAssignment, QueueFacts
from kaiwo.plugin.rendering import AllocationInput, Resolved
from kaiwo.workload import missing_queue, plugin_calls
from kaiwo.workload.gpus.allocation import DEFAULT, missing_vendor
from kaiwo.workload.metadata import copied
from kaiwo.workload.namespace_defaults import unusable
from kaiwo.workload.plans.diff import ALLOCATION_FIELDS
from kaiwo.workload.storage.volumes import DATA, HF
from kaiwo.workload.template_priorities import missing_class

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.facts import Allocation
    from kaiwo.workload.model import Facts, PlanContext, Registry

_NO_WORD = re.compile(r"[^a-z0-9]+")


def queue_facts(registry: Registry, facts: Facts) -> QueueFacts:
    """What the queue system may read."""
    if facts.queue_facts is not None:
        return facts.queue_facts
    settings = facts.settings.get(registry.queue.plugin) if registry.queue else None
    return QueueFacts(objects={}, default_queue=facts.config.default_cluster_queue_name, settings=settings)


def queue_manages(registry: Registry, facts: Facts) -> Callable[[Resource], bool]:
    """Whether the queue system in force queues objects of a kind by itself."""
    return lambda kind: (
        registry.queue is not None
        and plugin_calls.manages(registry.queue, kind, queue_facts(registry, facts))
    )


def split(case: PlanContext, *, check_capacity: bool) -> Allocation | Blocked:
    """The split of GPUs, or why there is none."""
    inp = AllocationInput(
        workload=case.workload,
        vendors=case.registry.vendors,
        nodes=case.facts.nodes,
        default_resource_key=case.facts.config.default_gpu_resource_key,
        check_capacity=check_capacity,
        settings=case.facts.settings.get(case.backend.plugin),
        fewest_pods=partial(plugin_calls.fewest_pods, case.registry.queue),
    )
    answer = plugin_calls.allocation(case.backend, inp)
    if isinstance(answer, Blocked) and answer.reason == "VendorNotLoaded":
        vendor = case.workload.spec.vendor
        key = case.facts.config.default_gpu_resource_key
        # A key is of a domain, and names a vendor or its product: amd.com/gpu, aws.amazon.com/neuron.
        names = _NO_WORD.split(key.lower()) if vendor == DEFAULT else [vendor]
        return _with_installed_plugin(answer, names, case.registry)
    return answer


def _with_installed_plugin(blocked: Blocked, names: Iterable[str], registry: Registry) -> Blocked:
    """The same with the plugin that is called after the vendor, where it is installed.

    Args:
        blocked: why GPUs cannot be split.
        names: what the vendor may be called, the likeliest first.
        registry: loaded declarations, and which plugins are not loaded.
    """
    plugins = (f"gpu_{_NO_WORD.sub('_', name.lower())}" for name in names)
    absent = next((registry.absent[plugin] for plugin in plugins if plugin in registry.absent), None)
    return replace(blocked, message=f"{blocked.message}; {absent.advice()}") if absent else blocked


def resolve(case: PlanContext, *, check_capacity: bool) -> tuple[Resolved, QueueAssignment | None] | Blocked:
    """Everything that stays with a new child, or why the workload cannot run now."""
    allocation = split(case, check_capacity=check_capacity)
    if isinstance(allocation, Blocked):
        return allocation
    defaults = case.facts.namespace_defaults
    if defaults.problems and (waits := unusable(case.workload, case.registry, defaults)):
        return waits
    queue: QueueAssignment | None = None
    if case.registry.queue is not None:
        answer = plugin_calls.assignment(
            case.registry.queue, case.workload, queue_facts(case.registry, case.facts)
        )
        if isinstance(answer, Blocked):
            return answer
        queue = answer
    elif (case.facts.missing_queue or case.workload.status.allocation) and (
        blocked := missing_queue.blocked(case.workload, case.facts)
    ):
        return blocked
    priority = _priority(case.workload, case.facts, queue)
    if isinstance(priority, Blocked):
        return priority
    if not priority and (unknown := _template_priority(case)):
        return unknown
    config = case.facts.config
    resolved = Resolved(
        allocation=allocation,
        default_image=config.default_ray_image,
        scheduler_name=config.kube_scheduler_name,
        gpu_taint_key=config.default_gpu_taint_key if config.add_taints_to_gpu_nodes else "",
        mount_paths={DATA: config.default_data_mount_path, HF: config.default_hf_mount_path},
        storage_class=config.default_storage_class or "",
        priority_class=priority,
        vendor_keys=tuple(key for vendor in case.registry.vendors for key in vendor.resource_keys),
        labels=copied(case.workload.labels),
        annotations=copied(case.workload.annotations),
        taken={name: str(getattr(config, name)) for name in case.backend.takes},
        variables=defaults.variables,
        image_pull_secrets=defaults.image_pull_secrets,
    )
    return resolved, queue


def with_settings(case: PlanContext, resolved: Resolved) -> Resolved:
    """The resolved values with the settings of contributions that the child was created without."""
    missing = {
        contribution.plugin: settings.model_dump(mode="json", by_alias=True)
        for contribution in case.registry.contributions
        if contribution.settings is not None and contribution.plugin not in resolved.contributions
        if (settings := case.facts.settings.get(contribution.plugin)) is not None
    }
    return replace(resolved, contributions={**resolved.contributions, **missing}) if missing else resolved


def renew(case: PlanContext, before: Resolved, changed: Collection[str]) -> Resolved | Blocked:
    """The resolved values after an accepted change: only what depends on the changed fields is new."""
    resolved = replace(
        before, labels=copied(case.workload.labels), annotations=copied(case.workload.annotations)
    )
    blocks = {field.path[0] for field in case.backend.fields}
    asked = any(name in ALLOCATION_FIELDS for name in changed)
    if asked or any(name.split(".", 1)[0] in blocks for name in changed):
        kept = "" if "gpuVendor" in changed else before.allocation.vendor
        if blocked := missing_vendor(kept, case.registry.vendors):
            return _with_installed_plugin(blocked, [kept], case.registry)
        allocation = split(case, check_capacity=False)
        if isinstance(allocation, Blocked):
            return allocation
        if asked or not _same_demand(allocation, before.allocation):
            resolved = replace(resolved, allocation=allocation)
    return resolved


def _same_demand(one: Allocation, other: Allocation) -> bool:
    """Whether two splits are of the same GPUs, however the nodes of the moment divide them."""
    return (
        (one.vendor, one.resource_key, one.models, one.gpus)
        == (other.vendor, other.resource_key, other.models, other.gpus)
    ) and one.pods * other.replicas == other.pods * one.replicas


_SYSTEM = "system-"
"""Prefix of Kubernetes' own priority classes; no workload may be more urgent than the cluster."""


def _priority(workload: Workload, facts: Facts, queue: QueueAssignment | None) -> str | Blocked:
    name = workload.spec.priority_class
    if not name:
        return ""
    queued = queue is not None and queue.knows_priority
    if facts.priority_classes is None:
        return "" if queued else name
    if name in facts.priority_classes:
        return name
    if queued:
        return ""
    usable = set(queue.priorities) if queue is not None else set()
    return _not_found("spec.priorityClass", name, {*facts.priority_classes, *usable})


def _template_priority(case: PlanContext) -> Blocked | None:
    """A class that an embedded template names and that is missing: the queue would ignore the object."""
    known, blocks = case.facts.priority_classes, case.workload.blocks
    missing = missing_class(blocks, case.backend, known) if known is not None and blocks else None
    return _not_found(*missing, known or ()) if missing else None


def _not_found(path: str, name: str, known: Collection[str]) -> Blocked:
    usable = sorted(other for other in known if not other.startswith(_SYSTEM))
    return Blocked(
        "PriorityClassNotFound",
        f'{path}: priority class "{name}" not found; existing: {", ".join(usable) or "none"}; create it or '
        "use one of these, the workload starts by itself then",
    )
