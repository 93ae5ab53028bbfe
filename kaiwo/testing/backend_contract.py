"""What the host relies on in a workload backend."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, get_args

from kaiwo.api.status_words import Status
from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Allocation, Blocked
from kaiwo.plugin.observation import Observation, Outcome
from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput, Resolved
from kaiwo.testing.assertions import require
from kaiwo.testing.builders import NOW, job, service
from kaiwo.workload.errors import SpecError
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.labels import NAME, RUN_ID, TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backend_base import BackendBase
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.vendors import GpuVendor

IMAGE = "registry.example/default:1"
_PROVEN_BY_PODS = {"RUNNING", "READY"}


def assert_backend_contract(
    backend: Backend,
    workloads: Sequence[Object],
    *,
    vendors: Sequence[GpuVendor] = (),
    nodes: Sequence[Object] = (),
) -> None:
    """Check a backend with workloads that it is to serve.

    Its class can be loaded and has all abstract methods. Methods are pure: they change nothing that they are
    given and return the same twice. The child is named like its workload, has no null and no status, and has
    the system labels on itself and on every pod template. A child without pods is never RUNNING or READY, and
    a status that makes no sense raises nothing. If the backend names the fields of the status that it reads,
    it reads no others. Of a backend that is only declared, the workloads need to have its block.

    Args:
        backend: the backend.
        workloads: at least one workload that it must serve.
        vendors: GPU vendors that the workloads need.
        nodes: Nodes of the cluster, enough for the workloads.

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
        allocation = _allocation(implementation, workload, vendors, nodes)
        child = _check_child(backend, implementation, workload, allocation)
        _check_observed(backend, implementation, workload, child)
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
    implementation: BackendBase, workload: Workload, vendors: Sequence[GpuVendor], nodes: Sequence[Object]
) -> Allocation:
    given = AllocationInput(
        workload=workload,
        vendors=tuple(vendors),
        nodes=tuple(node_fact(node, vendors) for node in nodes),
        default_resource_key=vendors[0].resource_keys[0] if vendors else "",
    )
    found = _called("allocate", implementation.allocate, given)
    require(
        found == _called("allocate", implementation.allocate, given),
        f"{workload.name}: allocate returned another result",
    )
    blocked = f"{found.reason}: {found.message}" if isinstance(found, Blocked) else ""
    require(not blocked, f"{workload.name}: cannot run: {blocked}")
    require(isinstance(found, Allocation), f"{workload.name}: allocate returned {type(found).__name__}")
    allocation: Allocation = found
    require(allocation.gpus == 0 or allocation.resource_key, f"{workload.name}: GPUs without a resource key")
    return allocation


def _check_child(
    backend: Backend, implementation: BackendBase, workload: Workload, allocation: Allocation
) -> Object:
    keys = (allocation.resource_key,) if allocation.resource_key else ()
    given = RenderInput(
        workload=workload,
        resolved=Resolved(allocation=allocation, default_image=IMAGE, vendor_keys=keys),
        settings=backend.settings() if backend.settings else None,
    )
    rendered = _called("render", implementation.render, given)
    require(isinstance(rendered, Rendered), f"{workload.name}: render returned {type(rendered).__name__}")
    again = _called("render", implementation.render, given)
    require(rendered == again, f"{workload.name}: render returned another result the second time")
    child: Object = rendered.child
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


def _check_observed(backend: Backend, implementation: BackendBase, workload: Workload, child: Object) -> None:
    fresh = _observed(implementation, workload, child)
    require(
        fresh.status not in _PROVEN_BY_PODS,
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
        _observed(implementation, workload, {**child, "status": status})
    if backend.reads:
        status = _ReadFields()
        _observed(implementation, workload, {**child, "status": status})
        unlisted = sorted(status.fields - {"conditions", *backend.reads})
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


def _observed(implementation: BackendBase, workload: Workload, child: Object) -> Outcome:
    before = copy.deepcopy(child)
    observation = Observation(workload=workload, child=child, pods=(), admission=None, queued=False, now=NOW)
    found = _called(f"observe, with the status {child.get('status')!r},", implementation.observe, observation)
    require(isinstance(found, Outcome), f"{workload.name}: observe returned {type(found).__name__}")
    require(child == before, f"{workload.name}: observe changed the child")
    observed: Outcome = found
    require(observed.status in get_args(Status), f"{workload.name}: {observed.status!r} is no status")
    require("\n" not in observed.message, f"{workload.name}: the message has more than one line")
    return observed


def _called(what: str, function: Any, given: object) -> Any:
    try:
        return function(given)
    except Exception as error:
        raise AssertionError(f"{what} raised {error!r}") from error


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
