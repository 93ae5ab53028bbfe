from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

import kaiwo_deployment.plugin
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueSystem
from kaiwo.plugin.rendering import PodContribution
from kaiwo.testing import plugins, service
from kaiwo.workload.model import ApiRejection, Apply, Patch, Registry
from kaiwo_kueue.job_pods import with_admitted_parallelism

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import RenderInput


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"image": "other"}, "spec.image"),
        ({"gpus": 1}, "spec.gpus"),
        ({"env": [{"name": "A", "value": "1"}]}, "spec.env"),
        ({"job": {"spec": {"template": {"spec": {"nodeName": "a"}}}}}, "spec.job.spec.template"),
        ({"user": "other"}, "spec.user"),
        ({"entrypoint": None}, "spec.entrypoint"),
        ({"ray": True}, "spec.ray"),
        ({"rayJob": {"spec": {"a": 1}}}, "spec.rayJob"),
    ],
)
def test_what_cannot_change_is_refused_and_nothing_is_touched(
    world: World, spec: dict[str, Any], field: str
) -> None:
    """A changed field is named; the running Job and its status go on; putting it back heals."""
    world.settle()
    before = dict(world.obj["spec"])
    world.writes.clear()
    world.edit(**spec)
    world.settle()
    assert world.writes == []
    applied = world.condition("SpecApplied")
    assert (applied["status"], applied["reason"]) == ("False", "Immutable")
    assert applied["message"].startswith(f"{field} is immutable while the Job exists")
    assert world.status["status"] == "STARTING"
    assert world.status["observedGeneration"] == 2
    world.obj["spec"] = before
    world.settle()
    assert world.condition("SpecApplied")["status"] == "True"
    assert world.writes == []


def resources(cpu: Any, memory: str, disk: Any) -> dict[str, Any]:
    """The same amounts in a field of the workload and in a template."""
    container = {"name": "workload", "resources": {"requests": {"ephemeral-storage": disk}}}
    template = {"spec": {"containers": [container]}}
    return {
        "resources": {"limits": {"cpu": cpu, "memory": memory}},
        "job": {"spec": {"template": template}},
    }


def test_an_amount_that_is_written_otherwise_is_no_change(world: World) -> None:
    """1000m CPU are 1, 1024Mi are 1Gi: nothing is written. Of a real change, only that field is named."""
    world.edit(**resources(2, "1Gi", "2048Mi"))
    world.settle()
    world.writes.clear()
    for other in (resources("2000m", "1024Mi", "2Gi"), resources("2", "1073741824", 2 * 1024**3)):
        world.edit(**other)
        world.settle()
        assert world.condition("SpecApplied")["status"] == "True", other
        assert world.writes == []
    world.edit(**resources("3000m", "1024Mi", "2Gi"))
    world.settle()
    assert world.condition("SpecApplied")["message"].startswith("spec.resources.limits.cpu is immutable")


def test_a_record_without_meanings_names_no_field_that_is_unchanged(world: World) -> None:
    """Records of an earlier version have the hashes of amounts as they were written."""
    world.edit(**resources("2000m", "1024Mi", "2Gi"))
    world.settle()
    assert world.facts.live is not None
    metadata = world.facts.live["metadata"]
    record = json.loads(metadata["annotations"]["kaiwo.silogen.ai/resolved"])
    assert record.pop("meanings")
    annotations = {**metadata["annotations"], "kaiwo.silogen.ai/resolved": json.dumps(record)}
    world.live(metadata={**metadata, "annotations": annotations})
    world.edit(image="other")
    world.settle()
    assert world.condition("SpecApplied")["message"].startswith("spec.image is immutable")


def test_defaults_that_appear_change_nothing(world: World) -> None:
    """A field that is now written out with its default is no change."""
    world.settle()
    world.edit(gpus=0, replicas=1, gpuVendor="amd", ray=False, dangerous=False)
    world.settle()
    assert world.condition("SpecApplied")["status"] == "True"


def test_another_spelling_of_the_same_changes_nothing(world: World) -> None:
    """Capitals of a vendor, zeros, empty texts and blank blocks say what their absence says."""
    world.settle()
    blank = {"metadata": {"creationTimestamp": None}, "spec": {"template": {"spec": {"containers": None}}}}
    world.edit(gpuVendor="AMD", gpusPerReplica=0, clusterQueue="", resources={"limits": {}}, job=blank)
    world.settle()
    assert world.condition("SpecApplied")["status"] == "True"
    assert len(world.writes) == 1


def test_what_may_change_reaches_the_job_as_named_keys(world: World) -> None:
    """Parallelism, deadline and time to live are patched on exactly this Job, and nothing else is."""
    world.settle()
    world.writes.clear()
    spec = {"parallelism": 2, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 10}
    world.edit(job={"spec": spec}, duration="1h")
    world.settle()
    (patch,) = world.writes
    assert isinstance(patch, Patch)
    assert patch.body["spec"] == spec
    assert patch.body["metadata"].keys() == {"annotations"}
    assert world.condition("SpecApplied")["status"] == "True"
    world.writes.clear()
    world.edit(job={"spec": {"parallelism": 2}})
    world.settle()
    assert world.writes[0].body["spec"] == {"activeDeadlineSeconds": None, "ttlSecondsAfterFinished": 3600}


def test_metadata_reach_the_job_itself_only(world: World) -> None:
    """Labels of a live workload move to its Job, removed ones leave it; pods are not touched."""
    world.obj["metadata"]["labels"] = {"a": "1", "b": "1"}
    world.settle()
    world.writes.clear()
    world.obj["metadata"]["labels"] = {"a": "2", "kueue.x-k8s.io/queue-name": "q"}
    world.obj["metadata"]["annotations"] = {"note": "n"}
    world.settle()
    (patch,) = world.writes
    assert patch.body.keys() == {"metadata"}
    assert patch.body["metadata"]["labels"] == {"a": "2", "b": None}
    assert patch.body["metadata"]["annotations"]["note"] == "n"


def test_an_edited_child_is_restored_but_for_the_fields_of_others(world: World) -> None:
    """Our labels and our spec fields come back; foreign labels and suspend stay."""
    world.obj["spec"]["job"] = {"spec": {"parallelism": 2}}
    world.settle()
    world.writes.clear()
    live = world.facts.live
    assert live is not None
    labels = {**live["metadata"]["labels"], "kaiwo.silogen.ai/name": "forged", "theirs": "x"}
    world.live(
        metadata={**live["metadata"], "labels": labels},
        spec={**live["spec"], "parallelism": 5, "suspend": True},
    )
    world.settle()
    (patch,) = world.writes
    assert patch.body == {
        "metadata": {"labels": {"kaiwo.silogen.ai/name": "train"}},
        "spec": {"parallelism": 2},
    }


def test_a_field_that_another_manager_owns_is_left(world: World) -> None:
    """Who owns a field by server-side apply keeps it."""
    world.obj["spec"]["job"] = {"spec": {"parallelism": 2}}
    world.settle()
    world.writes.clear()
    assert world.facts.live is not None
    world.live(spec={**world.facts.live["spec"], "parallelism": 5})
    world.set(owners={("spec", "parallelism"): "autoscaler"})
    world.settle()
    assert world.writes == []


def test_a_child_found_after_a_crash_is_adopted(world: World) -> None:
    """A Job that was created and never reported is ours: nothing is created twice."""
    world.settle()
    del world.obj["status"]
    world.writes.clear()
    world.settle()
    assert world.writes == []
    assert world.status["childUID"] == "uid-of-train"


def test_a_missing_record_is_written_again(world: World) -> None:
    """Somebody who removes our annotation does not stop the workload."""
    world.settle()
    world.writes.clear()
    assert world.facts.live is not None
    metadata = {**world.facts.live["metadata"], "annotations": {"kaiwo.silogen.ai/resolved": "{broken"}}
    world.live(metadata=metadata)
    world.settle()
    assert len(world.writes) == 1
    world.edit(image="other")
    world.settle()
    assert world.condition("SpecApplied")["reason"] == "Immutable"


def test_a_rejected_change_is_reported_and_not_repeated(world: World) -> None:
    """The condition has the API server's message while the Job continues."""
    world.settle()
    world.writes.clear()
    world.edit(job={"spec": {"activeDeadlineSeconds": -1}})
    world.set(rejection=ApiRejection(world.registry.backends[0].child, 422, "Invalid", "must be positive"))
    world.settle()
    assert world.writes == []
    assert "must be positive" in world.condition("SpecApplied")["message"]
    assert world.status["status"] == "STARTING"


def test_a_change_that_cannot_be_read_leaves_the_job(world: World) -> None:
    """A spec that became invalid is reported; the running object is not changed."""
    world.settle()
    world.writes.clear()
    world.edit(gpus="many")
    plan = world.plan()
    assert plan.writes == ()
    (status,) = plan.statuses
    assert status["status"] == "STARTING"
    world.obj = {**world.obj, "status": status}
    assert world.condition("SpecApplied")["reason"] == "InvalidSpec"
    assert world.plan().statuses == ()


def test_a_volume_grows_and_never_shrinks(world: World) -> None:
    """A larger size is applied to the claim, a smaller one refused."""
    world.obj["spec"]["storage"] = {"storageEnabled": True, "data": {"storageSize": "10Gi"}}
    world.settle()
    world.writes.clear()
    world.edit(storage={"storageEnabled": True, "data": {"storageSize": "20Gi"}})
    world.settle()
    grown, patch = world.writes
    assert isinstance(grown, Apply)
    assert grown.obj["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert "spec" not in patch.body
    world.writes.clear()
    world.edit(storage={"storageEnabled": True, "data": {"storageSize": "5Gi"}})
    world.settle()
    assert world.writes == []
    assert "spec.storage.data.storageSize" in world.condition("SpecApplied")["message"]


def queue(world: World, admission: Admission | None) -> None:
    """Load a queue system that says this of every child."""
    system = QueueSystem(
        "q",
        assign=lambda workload, _: QueueAssignment(
            workload.spec.cluster_queue or "main", {"queue": workload.spec.cluster_queue or "main"}
        ),
        admission=lambda _, __: admission,
    )
    world.registry = dataclasses.replace(world.registry, queue=system)


def test_a_queue_can_be_changed_until_it_admits(world: World) -> None:
    """Before admission the label moves; after it the change is refused."""
    queue(world, Admission("pending", "Pending", "waits"))
    world.obj["spec"]["clusterQueue"] = "one"
    world.settle()
    world.writes.clear()
    world.edit(clusterQueue="two")
    world.settle()
    assert world.writes[0].body["metadata"]["labels"] == {"queue": "two"}
    world.writes.clear()
    queue(world, Admission("admitted", "Admitted", "in"))
    world.edit(clusterQueue="three")
    world.settle()
    assert world.writes == []
    assert "spec.clusterQueue" in world.condition("SpecApplied")["message"]


def test_a_change_waits_while_the_queue_system_changes_the_child(world: World) -> None:
    """What is written then may stop the queue system half-way; the status says what the change waits for."""
    queue(world, None)
    world.obj["spec"]["job"] = {"spec": {"parallelism": 1}}
    world.settle()
    world.writes.clear()
    assert world.registry.queue is not None
    changing = dataclasses.replace(world.registry.queue, is_changing=lambda _: True)
    world.registry = dataclasses.replace(world.registry, queue=changing)
    world.edit(job={"spec": {"parallelism": 2}})
    world.settle()
    assert world.writes == []
    applied = world.condition("SpecApplied")
    assert (applied["status"], applied["reason"]) == ("False", "QueueIsChanging")
    assert "q is changing Job" in applied["message"]
    queue(world, None)
    world.settle()
    assert world.writes[0].body["spec"] == {"parallelism": 2}
    assert world.condition("SpecApplied")["status"] == "True"


def test_a_patch_beside_a_queue_system_is_true_of_one_version_only(world: World) -> None:
    """A write of the queue system that is not seen yet makes it a conflict, and it is decided again."""
    queue(world, None)
    world.obj["spec"]["job"] = {"spec": {"parallelism": 1}}
    world.settle()
    assert world.facts.live is not None
    world.facts.live["metadata"]["resourceVersion"] = "7"
    world.edit(job={"spec": {"parallelism": 2}})
    (patch,) = world.plan().writes
    assert isinstance(patch, Patch)
    assert patch.body["metadata"]["resourceVersion"] == "7"


class Proxy(BaseModel):
    """Settings of a plugin that contributes to pods."""

    url: str = "http://default"


def add_proxy(inp: RenderInput, template: Object) -> Object:
    """Set a variable to the plugin's setting."""
    assert isinstance(inp.settings, Proxy)
    (container,) = template["spec"]["containers"]
    env = [*container.get("env", []), {"name": "PROXY", "value": inp.settings.url}]
    return {**template, "spec": {**template["spec"], "containers": [{**container, "env": env}]}}


def proxies(obj: Object) -> list[str]:
    """What the contribution set in a Deployment."""
    (container,) = obj["spec"]["template"]["spec"]["containers"]
    return [item["value"] for item in container["env"] if item["name"] == "PROXY"]


def test_settings_of_a_contribution_stay_with_what_was_created_with_them(world: World) -> None:
    """A new child has those of KaiwoConfig; an edit there rolls out no running service."""
    contribution = PodContribution("proxy", add_proxy, settings=Proxy, plugin="acme")
    world.registry = dataclasses.replace(
        Registry.of(plugins(kaiwo_deployment.plugin)), contributions=(contribution,)
    )
    world.obj = service("web", image="image:1")
    world.set(settings={"acme": Proxy(url="http://one")})
    world.settle()
    assert world.facts.live is not None
    assert proxies(world.facts.live) == ["http://one"]
    world.set(settings={"acme": Proxy(url="http://two")})
    writes = len(world.writes)
    world.settle()
    assert world.writes[writes:] == []
    world.edit(image="image:2")
    (write,) = world.plan().writes
    assert isinstance(write, Apply)
    assert proxies(write.obj) == ["http://one"]
    world.set(live=None)
    world.settle()
    assert proxies(world.facts.live) == ["http://two"]


def partly_admitted(world: World) -> None:
    """Let Kueue start a Job of four pods with two."""
    partial = {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "2"}}
    world.obj["spec"]["job"] = {"metadata": partial, "spec": {"parallelism": 4}}
    queue(world, Admission("admitted", "Admitted", "in"))
    assert world.registry.queue is not None
    kueue = dataclasses.replace(world.registry.queue, merge_live=with_admitted_parallelism)
    world.registry = dataclasses.replace(world.registry, queue=kueue)
    world.settle()
    world.writes.clear()
    assert world.facts.live is not None
    metadata = world.facts.live["metadata"]
    labels = {**metadata["labels"], "kueue.x-k8s.io/queue-name": "main"}
    spec = {**world.facts.live["spec"], "parallelism": 2, "suspend": False}
    world.live(metadata={**metadata, "labels": labels}, spec=spec)


def test_a_job_that_is_partly_admitted_keeps_its_pods(world: World) -> None:
    """Kueue's webhook would refuse the parallelism that was asked for; other changes are applied."""
    partly_admitted(world)
    world.settle()
    assert world.writes == []
    assert world.condition("SpecApplied")["status"] == "True"
    world.edit(duration="1h")
    world.settle()
    (patch,) = world.writes
    assert "spec" not in patch.body
    world.writes.clear()
    assert world.facts.live is not None
    world.live(spec={**world.facts.live["spec"], "suspend": True})
    world.settle()
    assert [write.body["spec"] for write in world.writes] == [{"parallelism": 4}]


def test_a_changed_parallelism_of_a_partly_admitted_job_is_sent(world: World) -> None:
    """Kueue decides whether it is possible, and the user reads its words."""
    partly_admitted(world)
    job_spec = {**world.obj["spec"]["job"], "spec": {"parallelism": 6}}
    world.edit(job=job_spec)
    world.settle()
    assert world.writes[0].body["spec"] == {"parallelism": 6}
