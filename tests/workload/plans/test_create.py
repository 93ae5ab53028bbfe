from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.resource import JOB, PERSISTENT_VOLUME_CLAIM, Resource
from kaiwo.plugin.absent_plugins import AbsentPlugin
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.queues import QueueAssignment, QueueSystem
from kaiwo.testing import config, job
from kaiwo.testing.overrides import override_methods
from kaiwo.workload.model import ApiRejection, Create
from kaiwo.workload.plans.blocked import REJECTED_RETRY_SECONDS

if TYPE_CHECKING:
    from conftest import World

UID = "11111111-2222-4333-8444-555555555555"


def refused(world: World, reason: str, status: str = "ERROR", condition: str = "Schedulable") -> str:
    """Plan a workload that cannot run: a status, its condition, one event, and no writes."""
    plan = world.settle()
    assert not world.writes
    assert (world.status["status"], world.status["reason"]) == (status, reason)
    found = world.condition(condition)
    assert (found["status"], found["reason"]) == ("False", reason)
    assert "childUID" not in world.status
    assert len(plan.events) == 1
    message: str = world.status["message"]
    assert found["message"] == message
    assert "\n" not in message
    return message


def test_a_simple_job_takes_one_write_and_one_status(world: World) -> None:
    """From creation to STARTING: the Job and one status, with one event, then nothing at rest."""
    plan = world.settle()
    assert [type(write) for write in world.writes] == [Create]
    assert len(plan.statuses) == len(plan.events) == 1
    assert world.status["status"] == "STARTING"
    assert world.status["childUID"] == "uid-of-train"
    assert world.status["observedGeneration"] == 1
    assert world.status["allocation"] == {
        "backend": "batch_job",
        "gpus": 0,
        "replicas": 1,
        "gpusPerReplica": 0,
    }
    assert plan.events[0].reason == "WorkloadStarting"
    assert "Job train was created" in plan.events[0].message


def test_the_job_belongs_to_its_workload(world: World) -> None:
    """Ownership, system labels, the user's labels; nothing by which others would take it for theirs."""
    world.obj["metadata"] |= {
        "labels": {
            "team": "x",
            "kueue.x-k8s.io/queue-name": "q",
            "argocd.argoproj.io/instance": "a",
            "app.kubernetes.io/instance": "a",
            "app.kubernetes.io/managed-by": "Helm",
            "app.kubernetes.io/name": "kept",
            "kaiwo.silogen.ai/managed": "true",
        },
        "annotations": {"note": "n", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    world.obj["spec"] |= {"user": "jane.doe+x@Amd.com", "version": "V 1.0"}
    world.settle()
    created = world.created(JOB)
    metadata, pod = created["metadata"], created["spec"]["template"]["metadata"]
    common = {
        "team": "x",
        "app.kubernetes.io/name": "kept",
        "kaiwo.silogen.ai/user": "jane.doe-x-amd.com",
        "kaiwo.silogen.ai/name": "train",
        "kaiwo.silogen.ai/type": "job",
        "kaiwo.silogen.ai/run-id": UID,
    }
    assert metadata["labels"] == {**common, "kaiwo.silogen.ai/version": "v-1.0"}
    assert pod["labels"] == common
    assert pod["annotations"] == {"note": "n"}
    assert metadata["annotations"].keys() == {"note", "kaiwo.silogen.ai/resolved"}
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": "KaiwoJob",
            "name": "train",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_what_was_never_sent_to_a_cluster_has_no_owner(world: World) -> None:
    """A file can be planned: no uid, no owner reference, no empty label."""
    del world.obj["metadata"]["uid"]
    plan = world.plan()
    created = plan.rendered[-1].child
    assert "ownerReferences" not in created["metadata"]
    assert "kaiwo.silogen.ai/run-id" not in created["metadata"]["labels"]


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"gpus": 16}, "GPUsExceedNode", ["nearest that fits: 8"]),
        ({"gpus": 1, "gpuVendor": "acme"}, "VendorNotLoaded", ["amd, nvidia"]),
        ({"gpus": 1, "gpuModels": ["none"]}, "NoGPUs", ["mi300x"]),
        ({"ray": True}, "BackendNotLoaded", ["spec.ray: true", "rayJob", "batch_job"]),
        ({"rayJob": {}}, "BackendNotLoaded", ["spec.rayJob"]),
        ({"job": []}, "InvalidSpec", ["spec.job: must be an object, not a list"]),
        ({"job": {"spec": {"parallelism": "2"}}}, "InvalidSpec", ["spec.job.spec.parallelism"]),
        ({"entrypoint": "x" * 131_072}, "InvalidSpec", ["131071", "entrypoint"]),
        ({"requiredTopologyLabel": "a", "preferredTopologyLabel": "b"}, "InvalidSpec", ["TopologyLabel"]),
        ({"preferredTopologyLabel": "rack 1"}, "InvalidSpec", ["preferredTopologyLabel", "label key"]),
        ({"gpus": -1}, "InvalidSpec", ["spec.gpus"]),
        ({"replicas": 2**31}, "InvalidSpec", ["spec.replicas"]),
        ({"env": "x"}, "InvalidSpec", ["spec.env"]),
        (
            {"storage": {"storageEnabled": True, "data": {"download": {"s3": [{}]}}}},
            "InvalidSpec",
            ["spec.storage.data.storageSize", "downloads"],
        ),
    ],
)
def test_a_workload_that_cannot_run_has_a_reason_and_creates_nothing(
    world: World, spec: dict[str, Any], reason: str, words: list[str]
) -> None:
    """Every refusal names the field or the need, and the way out."""
    world.obj["spec"] |= spec
    message = refused(world, reason)
    for word in words:
        assert word in message


@pytest.mark.parametrize("name", ["a" * 64, "Train", "train.1", "-a"])
def test_an_illegal_name_is_reported_with_a_legal_one(world: World, name: str) -> None:
    """A name that no Job can have."""
    world.obj["metadata"]["name"] = name
    assert "for example" in refused(world, "InvalidName")


def test_the_index_counts_in_the_name_of_an_indexed_job(world: World) -> None:
    """The longest pod name of an indexed Job must fit as well."""
    world.obj["metadata"]["name"] = "a" * 61
    world.obj["spec"]["job"] = {"spec": {"completionMode": "Indexed", "completions": 10}}
    assert world.plan().writes
    world.obj["spec"]["job"]["spec"]["completions"] = 11
    message = refused(world, "InvalidName")
    assert "may have at most 60 characters" in message
    assert f'for example "{"a" * 60}"' in message


def test_a_broken_plugin_is_named_with_what_broke_it(world: World) -> None:
    """Who needs a backend whose plugin cannot be loaded reads which one it is and why."""
    absent = AbsentPlugin("batch_job", "kaiwo-batch-job", "broken", "ImportError: No module named 'x'")
    why = "plugin batch_job of kaiwo-batch-job serves it and is broken: ImportError: No module named 'x'"
    fields = {("KaiwoJob", "job"): absent}
    world.registry = dataclasses.replace(world.registry, backends=(), absent_fields=fields)
    assert why in refused(world, "BackendNotLoaded")


def test_an_installed_but_unselected_plugin_is_named(world: World) -> None:
    """Who uses a field of a plugin that was not selected learns which one to select; then it heals."""
    loaded = world.registry
    absent = AbsentPlugin("batch_job", "kaiwo-batch-job", "not-selected", "")
    fields = {("KaiwoJob", "job"): absent}
    world.registry = dataclasses.replace(loaded, backends=(), absent_fields=fields)
    assert "plugin batch_job of kaiwo-batch-job serves it and is installed, but not selected" in refused(
        world, "BackendNotLoaded"
    )
    world.registry = loaded
    world.settle()
    assert world.status["status"] == "STARTING"


def test_a_declared_back_end_does_not_run_anything(world: World) -> None:
    """Fields alone make no Job."""
    declared = dataclasses.replace(world.registry.backends[0], implementation=None)
    world.registry = dataclasses.replace(world.registry, backends=(declared,))
    world.obj["spec"]["job"] = {}
    assert "not built yet" in refused(world, "BackendNotLoaded")


def test_a_missing_api_is_named(world: World) -> None:
    """A backend whose kind the cluster does not serve waits for it."""
    world.set(served=lambda resource: resource != JOB)
    assert "jobs.batch" in refused(world, "BackendUnavailable")


def test_a_field_for_ray_of_a_workload_without_ray_is_ignored_with_the_switch(world: World) -> None:
    """The user learns that ``ray: true`` is missing, not which backend runs the workload instead."""
    first, (field,) = world.registry.backends[0], world.registry.backends[0].fields
    fields = tuple(dataclasses.replace(field, path=(name,)) for name in ("rayJob", "rayOptions"))
    ray = dataclasses.replace(first, name="ray_job", fields=fields)
    ray = override_methods(ray, serves=lambda workload: workload.spec.ray)
    world.registry = dataclasses.replace(world.registry, backends=(*world.registry.backends, ray))
    world.obj["spec"] |= {"rayOptions": {}}
    assert world.plan().warnings == (
        "spec.rayOptions is ignored: the workload does not run on Ray; set ray: true to use it",
    )


def test_an_unused_block_is_ignored_with_a_warning(world: World) -> None:
    """Of two embedded blocks the one that is not used is reported."""
    ray = dataclasses.replace(
        world.registry.backends[0],
        name="ray_job",
        fields=(dataclasses.replace(world.registry.backends[0].fields[0], path=("rayJob",)),),
    )
    ray = override_methods(ray, serves=lambda workload: "rayJob" in workload.blocks)
    world.registry = dataclasses.replace(world.registry, backends=(*world.registry.backends, ray))
    world.obj["spec"] |= {"job": {}, "rayJob": {}}
    plan = world.plan()
    assert plan.backend == "ray_job"
    assert plan.warnings == ("spec.job is ignored: the workload runs as spec.rayJob",)
    world.settle()
    assert "spec.job is ignored" in world.condition("SpecApplied")["message"]


def test_a_job_of_somebody_else_is_never_touched(world: World) -> None:
    """A taken name stops the workload, names the holder, and heals when it is free."""
    world.set(live={"metadata": {"name": "train", "uid": "x"}, "spec": {}})
    assert "has no controller" in refused(world, "NameConflict")
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "y", "controller": True}
    world.set(live={"metadata": {"name": "train", "uid": "x", "ownerReferences": [owner]}})
    assert "CronJob nightly" in refused_again(world, "NameConflict")
    world.set(live=None)
    world.settle()
    assert world.status["status"] == "STARTING"


def refused_again(world: World, reason: str) -> str:
    """Plan a workload that was refused before for the same reason."""
    world.settle()
    assert not world.writes
    assert world.status["reason"] == reason
    message: str = world.status["message"]
    return message


def test_the_previous_run_of_the_name_is_waited_for(world: World) -> None:
    """A workload submitted again while its old Job still goes waits for that."""
    owner = {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "name": "train",
        "uid": "old",
        "controller": True,
    }
    world.set(live={"metadata": {"name": "train", "uid": "x", "ownerReferences": [owner]}})
    refused(world, "PreviousRunDeleting", status="PENDING")
    world.set(live=None)
    world.settle()
    assert world.status["status"] == "STARTING"


def test_a_claim_of_somebody_else_stops_the_job(world: World) -> None:
    """A volume is not taken over, and no Job runs on a foreign one."""
    world.obj["spec"]["storage"] = {"storageEnabled": True, "data": {"storageSize": "1Gi"}}
    foreign = {"metadata": {"name": "train-data", "uid": "x"}}
    world.set(auxiliaries={(PERSISTENT_VOLUME_CLAIM, "train-data"): foreign})
    assert "train-data" in refused(world, "NameConflict")
    assert world.plan().requeue_after == REJECTED_RETRY_SECONDS  # no watch says that it is gone


def test_a_priority_class_must_exist(world: World) -> None:
    """A missing class is answered with those that a workload may use, and heals."""
    world.obj["spec"]["priorityClass"] = "high"
    world.set(priority_classes=frozenset({"low", "system-node-critical"}))
    assert "existing: low; create" in refused(world, "PriorityClassNotFound")
    world.set(priority_classes=frozenset({"low", "high"}))
    world.settle()
    assert world.created(JOB)["spec"]["template"]["spec"]["priorityClassName"] == "high"


def test_a_priority_class_of_an_embedded_template_must_exist(world: World) -> None:
    """Kueue leaves such a Job alone without a word, so it is refused by its field, and heals."""
    world.obj["spec"]["job"] = {"spec": {"template": {"spec": {"priorityClassName": "high"}}}}
    world.set(priority_classes=frozenset({"low"}))
    message = refused(world, "PriorityClassNotFound")
    assert 'spec.job.spec.template.spec.priorityClassName: priority class "high" not found' in message
    world.set(priority_classes=frozenset({"low", "high"}))
    world.settle()
    assert world.created(JOB)["spec"]["template"]["spec"]["priorityClassName"] == "high"


def test_a_class_of_the_spec_goes_before_that_of_a_template(world: World) -> None:
    """The template's is not used then, and need not exist."""
    world.obj["spec"]["job"] = {"spec": {"template": {"spec": {"priorityClassName": "high"}}}}
    world.obj["spec"]["priorityClass"] = "low"
    world.set(priority_classes=frozenset({"low"}))
    world.settle()
    assert world.created(JOB)["spec"]["template"]["spec"]["priorityClassName"] == "low"


def test_downloads_need_a_plugin(world: World) -> None:
    """A download that nothing can do is refused by its field."""
    world.obj["spec"]["storage"] = {
        "storageEnabled": True,
        "data": {"storageSize": "1Gi", "download": {"s3": [{"endpointUrl": "https://x.example"}]}},
    }
    message = refused(world, "DownloadNotAvailable", condition="StorageReady")
    assert message.startswith("spec.storage.data.download.s3: no loaded plugin")


def test_ignored_storage_and_queue_are_warned_about(world: World) -> None:
    """A field without effect is reported."""
    world.obj["spec"] |= {"storage": {"data": {"storageSize": "1Gi"}}, "clusterQueue": "q"}
    plan = world.plan()
    assert len(plan.writes) == 1
    assert [warning.split(" ")[0] for warning in plan.warnings] == [
        "spec.storage.data:",
        "spec.clusterQueue",
    ]


def test_gpu_models_that_no_node_shows_are_warned_about(world: World) -> None:
    """The pods would wait for a label that no plugin writes; a plugin or an administrator can set it."""
    world.obj["spec"] |= {"gpus": 1, "gpuModels": ["mi300x"]}
    (warning,) = world.plan().warnings
    assert warning.startswith("spec.gpuModels: no node has the label kaiwo/gpu-model")
    assert "add node_pools" in warning
    world.settle()
    assert world.condition("SpecApplied")["message"] == warning

    first, *others = world.facts.nodes
    world.set(nodes=(dataclasses.replace(first, model_label="mi300x"), *others))
    assert world.plan().warnings == ()
    world.set(nodes=(first, *others))
    world.registry = dataclasses.replace(world.registry, labels_nodes=True)
    assert world.plan().warnings == ()


def test_the_api_servers_refusal_is_shown_with_its_text(world: World) -> None:
    """A child that the API server rejects is reported with its message, and not sent repeatedly."""
    rejection = ApiRejection(
        JOB, 422, "Invalid", 'Job.batch "train" is invalid: spec.completions: must be positive'
    )
    world.set(rejection=rejection)
    plan = world.plan()
    assert plan.requeue_after
    assert "spec.completions: must be positive" in refused(world, "InvalidSpec")
    world.set(rejection=None)
    assert world.plan().writes


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "Forbidden"), (404, "BackendUnavailable"), (409, "Odd")]
)
def test_other_refusals_keep_their_kind(world: World, status: int, reason: str) -> None:
    """A quota or a missing API is not the spec's fault."""
    world.set(rejection=ApiRejection(JOB, status, "Odd", "no"))
    refused(world, reason)


def test_configuration_reaches_the_job(world: World) -> None:
    """Image, scheduler and toleration come from KaiwoConfig."""
    world.obj = job(gpus=1)
    spec = config(
        ray={"defaultRayImage": "configured:1"},
        scheduling={"kubeSchedulerName": "mine"},
        nodes={"addTaintsToGpuNodes": True, "defaultGpuTaintKey": "gpu"},
    )
    world.set(config=ResolvedConfig.from_object(spec))
    world.settle()
    pod = world.created(JOB)["spec"]["template"]["spec"]
    assert (pod["containers"][0]["image"], pod["schedulerName"]) == ("configured:1", "mine")
    assert pod["tolerations"][0]["key"] == "gpu"


def queue(answer: QueueAssignment | Blocked) -> QueueSystem:
    """A queue system with one answer."""
    return QueueSystem(
        "q",
        assign=lambda _, __: answer,
        admission=lambda _, __: None,
        reads=(Resource("q", "v1", "Q", "qs"),),
    )


def test_a_job_that_a_queue_may_start_with_fewer_pods_needs_nodes_for_these(world: World) -> None:
    """It was InsufficientGPUs until there were nodes for all of its pods."""
    world.obj["spec"] |= {"gpus": 1, "job": {"spec": {"parallelism": 1000}}}
    system = queue(QueueAssignment("main", {"queue": "main"}, suspend=True))
    world.registry = dataclasses.replace(world.registry, queue=system)
    world.settle()
    assert world.status["reason"] == "InsufficientGPUs"
    system = dataclasses.replace(system, fewest_pods=lambda _: 1)
    world.registry = dataclasses.replace(world.registry, queue=system)
    world.settle()
    assert world.created(JOB)["spec"]["parallelism"] == 1000


def test_a_queue_suspends_and_labels_the_job(world: World) -> None:
    """With a queue system the Job waits for it, and it may know the priority class."""
    world.obj["spec"]["priorityClass"] = "mine"
    world.set(priority_classes=frozenset())
    assignment = QueueAssignment("gpus", {"queue": "gpus"}, {"a": "b"}, knows_priority=True)
    world.registry = dataclasses.replace(world.registry, queue=queue(assignment))
    world.settle()
    created = world.created(JOB)
    assert created["spec"]["suspend"] is True
    assert created["metadata"]["labels"]["queue"] == "gpus"
    assert created["spec"]["template"]["metadata"]["annotations"]["a"] == "b"
    assert "priorityClassName" not in created["spec"]["template"]["spec"]
    assert (world.status["status"], world.status["reason"]) == ("PENDING", "Queued")


def test_a_queue_may_refuse(world: World) -> None:
    """What the queue system says is shown."""
    answer = Blocked("ClusterQueueNotFound", "no such queue")
    world.registry = dataclasses.replace(world.registry, queue=queue(answer))
    refused(world, "ClusterQueueNotFound")


def test_a_workload_being_deleted_is_left_alone(world: World) -> None:
    """Nothing is created any more, and nothing written."""
    world.obj["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    plan = world.plan()
    assert (plan.writes, plan.statuses, plan.events) == ((), (), ())
    world.obj["spec"]["gpus"] = "many"
    assert world.plan() == plan


@pytest.mark.parametrize("status", ["COMPLETE", "FAILED", "TERMINATED"])
def test_an_ended_workload_never_runs_again(world: World, status: str) -> None:
    """Also when its Job was collected and its spec edited: only the seen generation is noted, once."""
    world.obj["status"] = {"status": status, "observedGeneration": 1, "childUID": "gone"}
    world.edit(image="other")
    plan = world.settle()
    assert not world.writes
    assert plan.statuses == ({**world.obj["status"], "observedGeneration": 2},)
    world.obj["spec"]["gpus"] = "many"
    assert world.plan().statuses == ()


def test_every_value_has_an_origin(world: World) -> None:
    """The origin of each value is known: the user, the configuration, the nodes, or a default."""
    env = [{"name": "A", "value": "1"}]
    world.obj = job(gpus=2, image="image:1", entrypoint="echo", env=env, version="2", labels={"team": "x"})
    origins = world.plan().rendered[-1].origins
    pod = "spec.template.spec.containers[0]"
    assert origins[f"{pod}.image"] == ("user", "spec.image")
    assert origins[f"{pod}.command"] == ("user", "spec.entrypoint")
    assert origins[f"{pod}.env[0]"] == ("user", "spec.env")
    assert origins[f"{pod}.resources.limits.amd.com/gpu"][0] == "nodes"
    assert origins[f"{pod}.resources.limits.cpu"][0] == "default"
    assert origins["spec.template.spec.schedulerName"][0] == "config"
    assert origins["spec.backoffLimit"][0] == "default"
    assert origins["metadata.labels.team"] == ("user", "metadata.labels")
    assert origins["metadata.labels.kaiwo.silogen.ai/version"] == ("user", "spec.version")
    assert origins["spec.template.metadata.labels.kaiwo.silogen.ai/name"][0] == "system"


@pytest.mark.parametrize("done", range(4))
def test_a_crash_between_two_writes_leaves_no_trace(world: World, done: int) -> None:
    """Killed after any of the writes and started again: the same objects, each once, the same status."""
    world.obj["spec"] |= {
        "gpus": 8,
        "storage": {
            "storageEnabled": True,
            "data": {"storageSize": "1Gi"},
            "huggingFace": {"storageSize": "1Gi"},
        },
    }
    untouched = dataclasses.replace(world, writes=[], events=[])
    untouched.settle()
    for write in world.plan().writes[:done]:
        world.execute(write)
    world.settle()
    assert world.writes == untouched.writes
    assert len(world.writes) == 3
    assert world.status == untouched.status
    assert world.facts.live == untouched.facts.live
