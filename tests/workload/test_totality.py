"""Whatever anybody writes into a workload, a node, a pod or a child: an answer, never a crash."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.plugin.facts import Allocation, Blocked
from kaiwo.plugin.observation import Outcome
from kaiwo.plugin.queues import QueueAssignment, QueueSystem
from kaiwo.plugin.rendering import Rendered
from kaiwo.testing import job
from kaiwo.testing.overrides import override_methods
from kaiwo.workload.plan import plan_object

if TYPE_CHECKING:
    from conftest import World

# fmt: off
SPEC_FIELDS = [
    "user", "version", "podTemplateSpecLabels", "gpus", "gpuVendor", "replicas", "gpusPerReplica",
    "gpuModels", "duration", "preferredTopologyLabel", "requiredTopologyLabel", "resources", "image",
    "imagePullSecrets", "env", "secretVolumes", "ray", "storage", "dangerous", "clusterQueue",
    "priorityClass", "entrypoint", "job", "rayJob", "nobody",
]
JOB_FIELDS = [
    "spec", "metadata", "template", "containers", "initContainers", "volumes", "env", "ports", "volumeMounts",
    "resources", "limits", "requests", "labels", "annotations", "affinity", "nodeAffinity", "tolerations",
    "parallelism", "completions", "completionMode", "backoffLimit", "name", "mountPath", "containerPort",
    "image", "imagePullSecrets", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
    "matchExpressions", "amd.com/gpu", "cpu", "status", "conditions", "type", "state", "waiting", "running",
    "startedAt", "reason", "phase", "uid", "containerStatuses", "ownerReferences", "deletionTimestamp",
    "creationTimestamp", "startTime",
]
# fmt: on
TEXTS = ["1Gi", "2", "True", "Complete", "Indexed", "2026-01-02T03:04:05Z", "2026-01-02", "ImagePullBackOff"]
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**33), 2**33)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(TEXTS)
)
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(JOB_FIELDS), inner, max_size=4)
    ),
    max_leaves=25,
)


@given(spec=st.dictionaries(st.sampled_from(SPEC_FIELDS), anything, max_size=5))
def test_any_spec_gets_a_status(world: World, spec: dict[str, Any]) -> None:
    """A workload with any spec is created, waits or is refused, and its status says which."""
    plan = plan_object(job(**spec), world.registry, world.facts)
    (status,) = plan.statuses
    assert status["status"] == ("PENDING" if plan.writes else "ERROR")
    assert status["reason"]
    assert status["message"]


@given(embedded=anything, gpus=st.integers(0, 8))
def test_any_embedded_job_gets_a_status(world: World, embedded: object, gpus: int) -> None:
    """Lists where maps belong, numbers where texts belong: the field is named."""
    block = {"spec": {"template": {"spec": embedded}}}
    for given_block in (embedded, {"spec": embedded}, {"spec": {"template": embedded}}, block):
        plan = plan_object(job(job=given_block, gpus=gpus), world.registry, world.facts)
        (status,) = plan.statuses
        if plan.writes:
            assert status["reason"] == "Creating"
        else:
            assert status["reason"] in ("InvalidSpec", "GPUsExceedNode", "InsufficientGPUs")


@given(status=anything, pod=anything, metadata=anything, before=anything)
def test_any_state_of_child_and_pods_gets_a_status(
    world: World, status: object, pod: object, metadata: object, before: object
) -> None:
    """A child that somebody else's controller wrote nonsense on is still reported."""
    created = plan_object(world.obj, world.registry, world.facts).writes[0].obj  # type: ignore[union-attr]
    live = {**created, "metadata": {**created["metadata"], "uid": "u"}, "status": status}
    pods = ({"metadata": metadata, "status": pod, "spec": pod}, {"metadata": {"name": "p"}, "status": status})
    facts = dataclasses.replace(world.facts, live=live, pods=pods)
    plan = plan_object({**world.obj, "status": before}, world.registry, facts)
    assert not plan.writes
    (document,) = plan.statuses
    assert document["status"]
    assert document["reason"]
    assert document["message"]


@pytest.mark.parametrize("odd", [{}, {"kind": "KaiwoJob"}, {"kind": "Pod", "metadata": {"name": "x"}}])
def test_what_is_no_workload_is_refused_at_the_door(world: World, odd: dict[str, Any]) -> None:
    """An object without kind or name has no status to write to."""
    with pytest.raises(ValueError, match=r"kind|metadata"):
        plan_object(odd, world.registry, world.facts)


def raising(*_: object) -> Any:
    """A plugin with a defect."""
    raise ZeroDivisionError("plugin defect")


LIES = [
    *(
        (name, lie)
        for name in ("serves", "validate", "allocate", "render")
        for lie in (raising, lambda *_: 42)
    ),
]


@pytest.mark.parametrize(("function", "lie"), LIES)
def test_a_back_end_that_raises_or_lies_is_named(world: World, function: str, lie: Any) -> None:
    """A defect of a plugin is a status of the workload at hand, and it is tried again later."""
    backend = override_methods(world.registry.backends[0], **{function: lie})
    world.registry = dataclasses.replace(world.registry, backends=(backend,))
    plan = world.settle()
    assert not world.writes
    assert plan.requeue_after
    assert (world.status["status"], world.status["reason"]) == ("ERROR", "PluginError")
    assert "plugin batch_job" in world.status["message"]


def test_a_back_end_cannot_create_anything_but_its_own_child(world: World) -> None:
    """A child of another name or kind is a lie, not a write."""
    good = world.plan().rendered[-1]
    for change in (
        {"kind": "Pod"},
        {"metadata": {**good.child["metadata"], "name": "other"}},
        {"metadata": None},
    ):
        bad = Rendered({**good.child, **change})
        backend = override_methods(world.registry.backends[0], render=lambda _, bad=bad: bad)
        world.registry = dataclasses.replace(world.registry, backends=(backend,))
        world.settle()
        assert world.status["reason"] == "PluginError"


@pytest.mark.parametrize("lie", [raising, lambda _: None, lambda _: Outcome("DANCING", "x", "y")])
def test_a_back_end_that_cannot_read_its_child_keeps_the_status(world: World, lie: Any) -> None:
    """The last known state stays while the plugin fails."""
    world.settle()
    backend = override_methods(world.registry.backends[0], observe=lie)
    world.registry = dataclasses.replace(world.registry, backends=(backend,))
    plan = world.settle()
    assert plan.requeue_after
    assert (world.status["status"], world.status["reason"]) == ("STARTING", "PluginError")


@pytest.mark.parametrize("lie", [raising, lambda *_: 42])
def test_a_queue_system_that_fails_is_named(world: World, lie: Any) -> None:
    """A defect while queueing or while reading admission creates nothing and changes nothing."""
    system = QueueSystem("q", assign=lie, admission=lambda _, __: None)
    world.registry = dataclasses.replace(world.registry, queue=system)
    world.settle()
    assert not world.writes
    assert "plugin q" in world.status["message"]
    good = dataclasses.replace(system, assign=lambda _, __: QueueAssignment("q", {"queue": "q"}))
    world.registry = dataclasses.replace(world.registry, queue=good)
    world.settle()
    assert len(world.writes) == 1
    world.registry = dataclasses.replace(world.registry, queue=dataclasses.replace(good, admission=lie))
    world.settle()
    assert len(world.writes) == 1
    assert (world.status["status"], world.status["reason"]) == ("PENDING", "PluginError")


def test_allocations_and_refusals_of_a_back_end_are_believed(world: World) -> None:
    """What a backend decides is what is reported."""
    for answer, reason in ((Blocked("Because", "of me"), "Because"), (Allocation(replicas=3), "Starting")):
        backend = override_methods(world.registry.backends[0], allocate=lambda _, answer=answer: answer)
        world.registry = dataclasses.replace(world.registry, backends=(backend,))
        world.settle()
        assert world.status["reason"] == reason
    assert world.status["allocation"]["replicas"] == 3
