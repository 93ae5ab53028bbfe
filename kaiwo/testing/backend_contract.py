"""What the host relies on in a workload backend."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from kaiwo.api.status_words import Status
from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Allocation, Blocked
from kaiwo.plugin.observation import Observation, Outcome
from kaiwo.plugin.queues import Admission, QueueAssignment
from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput, Resolved
from kaiwo.testing.assertions import require
from kaiwo.testing.builders import NOW, job, service
from kaiwo.testing.crd_schema import assert_matches_crd, crd_of
from kaiwo.testing.observed import pod
from kaiwo.testing.pure import pure_result
from kaiwo.workload.errors import SpecError
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.labels import NAME, RUN_ID, TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import BaseModel

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backend_base import BackendBase
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.vendors import GpuVendor

IMAGE = "registry.example/default:1"
PROVEN_BY_PODS = {"RUNNING", "READY"}
SUSPEND = ("spec", "suspend")
QUEUE = QueueAssignment("research", {"example.com/queue": "research"})
"""The assignment of a queue system that no backend knows."""


def assert_backend_contract(
    backend: Backend,
    workloads: Sequence[Object],
    *,
    vendors: Sequence[GpuVendor] = (),
    nodes: Sequence[Object] = (),
    settings: Sequence[BaseModel] = (),
    crds: Sequence[Object] = (),
) -> None:
    """Check a backend, and its variants, with workloads that it is to serve.

    Its class can be loaded and has all abstract methods. Methods are pure: they do no I/O, change nothing
    that they are given and return the same twice. The child is named like its workload, has no null and no
    status, matches its CRD, and has the system labels on itself and on every pod template. With a queue, it
    has the queue's labels, and waits if the backend declares ``spec.suspend``. A child without pods, or whose
    pods wait, is never RUNNING or READY. Pods may have been made by any controller. A status that makes no
    sense raises nothing. If the backend names the fields of the status that it reads, it reads
    no others. Of a backend that is only declared, the workloads need to have its block.

    Args:
        backend: the backend.
        workloads: at least one workload that it must serve.
        vendors: GPU vendors that the workloads need.
        nodes: Nodes of the cluster, enough for the workloads.
        settings: settings of the plugin, beside the defaults.
        crds: CustomResourceDefinitions of the child's kind and of ``secondary``. Those of the sandbox's
            addons are known where ``kaiwo-sandbox`` is installed; a kind without one is not checked.

    Raises:
        AssertionError: what does not hold, with the workload's name.
    """
    require(workloads, "give at least one workload")
    implementation = _loaded(backend)
    for build in (job, service):
        workload = Workload.from_object(build())
        if implementation is not None:
            served = implementation.serves(workload)
            require(
                type(served) is bool, f"{backend.name}: serves returned {served!r}, expected True or False"
            )
    for given in workloads:
        workload = Workload.from_object(given)
        require(workload.kind == backend.kind, f"{workload.name}: {backend.name} serves {backend.kind}")
        if implementation is None:
            require(backend.block in workload.blocks, f"{workload.name}: has no block {backend.block}")
            continue
        require(implementation.serves(workload), f"{workload.name}: {backend.name} does not serve it")
        _check_valid(backend, implementation, workload)
        before = copy.deepcopy(given)
        allocation = _allocation(backend, implementation, workload, vendors, nodes)
        for form in (backend, *(variant for variant in backend.variants if variant.built)):
            code = _loaded(form)
            assert code is not None  # noqa: S101  for the type checker; the form is built
            for chosen in (form.settings() if form.settings else None, *settings):
                rendered = _rendering(form, workload, allocation, chosen)
                child = _check_child(form, code, rendered, crds)
                _check_queued(form, code, replace(rendered, queue=QUEUE), crds)
            _check_observed(form, code, workload, child)
            _check_pods(form, code, workload, child)
        require(given == before, f"{workload.name}: {backend.name} changed the workload")


def _loaded(backend: Backend) -> BackendBase | None:
    if not backend.built:
        return None
    try:
        return backend.load()
    except Exception as error:
        raise AssertionError(f"{backend.name}: its class cannot be loaded: {error!r}") from error


def _check_valid(backend: Backend, implementation: BackendBase, workload: Workload) -> None:
    try:
        implementation.validate(workload)
    except SpecError as error:
        raise AssertionError(f"{workload.name}: {backend.name} rejects it: {error}") from error


def _allocation(
    backend: Backend,
    implementation: BackendBase,
    workload: Workload,
    vendors: Sequence[GpuVendor],
    nodes: Sequence[Object],
) -> Allocation:
    given = AllocationInput(
        workload=workload,
        vendors=tuple(vendors),
        nodes=tuple(node_fact(node, vendors) for node in nodes),
        default_resource_key=vendors[0].resource_keys[0] if vendors else "",
        settings=backend.settings() if backend.settings else None,
    )
    found = pure_result("allocate", implementation.allocate, given)
    blocked = f"{found.reason}: {found.message}" if isinstance(found, Blocked) else ""
    require(not blocked, f"{workload.name}: cannot run: {blocked}")
    require(isinstance(found, Allocation), f"{workload.name}: allocate returned {type(found).__name__}")
    allocation: Allocation = found
    require(allocation.gpus == 0 or allocation.resource_key, f"{workload.name}: GPUs without a resource key")
    return allocation


def _rendering(
    backend: Backend, workload: Workload, allocation: Allocation, settings: BaseModel | None
) -> RenderInput:
    keys = (allocation.resource_key,) if allocation.resource_key else ()
    resolved = Resolved(allocation=allocation, default_image=IMAGE, vendor_keys=keys)
    return RenderInput(workload, resolved, settings=settings if backend.settings else None)


def _check_child(
    backend: Backend, implementation: BackendBase, given: RenderInput, crds: Sequence[Object]
) -> Object:
    workload = given.workload
    rendered = pure_result("render", implementation.render, given)
    require(isinstance(rendered, Rendered), f"{workload.name}: render returned {type(rendered).__name__}")
    child: Object = rendered.child
    for resource, obj in ((backend.child, child), *rendered.secondary.items()):
        if crd := crd_of(crds, resource.plural, resource.group):
            assert_matches_crd(obj, crd)
    require(child.get("apiVersion") == backend.child.api_version, f"{workload.name}: apiVersion of the child")
    require(child.get("kind") == backend.child.kind, f"{workload.name}: kind of the child")
    require(
        child.get("metadata", {}).get("name") == workload.name, f"{workload.name}: the child is named like it"
    )
    require("status" not in child, f"{workload.name}: the child has a status")
    require(json.loads(json.dumps(child)) == child, f"{workload.name}: the child is not plain JSON")
    require(not list(_nulls(child)), f"{workload.name}: null at {', '.join(_nulls(child))}")
    for path, metadata in [("the child", child["metadata"]), *_pod_templates(child)]:
        labels = metadata.get("labels", {})
        for label in (NAME, TYPE, RUN_ID):
            require(label in labels, f"{workload.name}: {path} lacks the label {label}")
    return child


def _check_queued(
    backend: Backend, implementation: BackendBase, given: RenderInput, crds: Sequence[Object]
) -> None:
    """With a queue: its labels are on the child or on its pods, and the child waits."""
    child = _check_child(backend, implementation, given, crds)
    name = f"{given.workload.name}: {backend.name}"
    holders = [child["metadata"], *(metadata for _, metadata in _pod_templates(child))]
    labelled = [holder for holder in holders if QUEUE.labels.items() <= holder.get("labels", {}).items()]
    require(labelled, f"{name}: neither the child nor a pod template has the queue's labels")
    if SUSPEND in backend.owned_paths:
        require(child["spec"].get("suspend") is True, f"{name}: the queued child is not suspended")
    waits = Admission("pending", "Queued", "waits for quota")
    found = _observed(backend, implementation, given.workload, child, queued=True, admission=waits)
    require(
        found.status not in PROVEN_BY_PODS, f"{name}: {found.status} is claimed of a child that is queued"
    )


def _check_observed(backend: Backend, implementation: BackendBase, workload: Workload, child: Object) -> None:
    fresh = _observed(backend, implementation, workload, child)
    require(
        fresh.status not in PROVEN_BY_PODS,
        f"{workload.name}: {fresh.status} is claimed of a new child without any pod",
    )
    nonsense: list[Any] = [
        {},
        None,
        [],
        {"conditions": None},
        {"conditions": "many"},
        {"conditions": [None, {}]},
    ]
    for status in nonsense:
        _observed(backend, implementation, workload, {**child, "status": status})
    if backend.reads:
        status = _ReadFields()
        _observed(backend, implementation, workload, {**child, "status": status})
        unlisted = sorted(status.fields - {"conditions", *backend.reads, *backend.reads_without_pods})
        require(not unlisted, f"{workload.name}: observe reads {unlisted}, which `reads` does not name")


class _ReadFields(dict[str, Any]):
    """An empty status that records which of its fields were read."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """Record the field and return the default."""
        self.fields.add(name)
        return default

    def __deepcopy__(self, _: object) -> dict[str, Any]:
        """What it is compared with afterwards."""
        return {}


def _check_pods(backend: Backend, implementation: BackendBase, workload: Workload, child: Object) -> None:
    """With pods of any controller: those that wait prove nothing, and what runs has a start."""
    name = f"{workload.name}: {backend.name}"
    owners = [
        {"apiVersion": kind.api_version, "kind": kind.kind, "name": "between", "uid": "uid-between"}
        for kind in (backend.child, *backend.pod_owners, *backend.secondary)
    ]
    foreign = {"apiVersion": "other.example/v1", "kind": "Other", "name": "other", "uid": "uid-of-another"}
    for owner in (*owners, foreign):
        waiting = pod(waiting="ContainerCreating", owner=owner)
        found = _observed(backend, implementation, workload, child, pods=(waiting,))
        require(found.status not in PROVEN_BY_PODS, f"{name}: {found.status} is claimed of pods that wait")
        for other in (pod(owner=owner), pod(exit_code=1, owner=owner), pod(exit_code=0, owner=owner)):
            for pods, gone in (((other,), ()), ((other, waiting), ()), ((), (other,))):
                found = _observed(backend, implementation, workload, child, pods=pods, gone=gone)
                require(
                    found.status not in PROVEN_BY_PODS or found.started,
                    f"{name}: {found.status} without `started`, the time of the first container",
                )


def _observed(
    backend: Backend, implementation: BackendBase, workload: Workload, child: Object, **more: Any
) -> Outcome:
    settings = backend.settings() if backend.settings else None
    given = {"pods": (), "admission": None, "queued": False, "settings": settings, **more}
    observation = Observation(workload=workload, child=child, now=NOW, **given)
    found = pure_result(
        f"observe, with the status {child.get('status')!r},", implementation.observe, observation
    )
    require(isinstance(found, Outcome), f"{workload.name}: observe returned {type(found).__name__}")
    observed: Outcome = found
    require(observed.status in get_args(Status), f"{workload.name}: {observed.status!r} is no status")
    require("\n" not in observed.message, f"{workload.name}: the message has more than one line")
    return observed


def _pod_templates(value: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Metadata of everything below that has a pod's spec."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _pod_templates(item, f"{path}[{position}]")
    if isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            yield path, value.get("metadata", {})
        for key, item in value.items():
            yield from _pod_templates(item, f"{path}.{key}".lstrip("."))


def _nulls(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _nulls(item, f"{path}[{position}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nulls(item, f"{path}.{key}".lstrip("."))
