"""A plugin that is gone harms no workload that lives; it heals when the plugin is back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

import kaiwo_batch_job.plugin
import kaiwo_deployment.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.resource import CONFIG_MAP, JOB
from kaiwo.plugin.absent_plugins import AbsentPlugin
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueSystem
from kaiwo.plugin.rendering import PodContribution
from kaiwo.testing import job, plugins, service
from kaiwo.workload.model import Apply, DeletedChild, Registry

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import RenderInput

BACKENDS = (kaiwo_batch_job.plugin, kaiwo_deployment.plugin)
WITH_SOURCES = Registry.of(plugins(*BACKENDS, kaiwo_storage_s3_gcs_azure_git_hf.plugin))
WITHOUT = Registry.of(plugins(*BACKENDS))
GIT = {"repository": "https://git.example.com/r.git", "targetPath": "src"}
STORAGE = {"storageEnabled": True, "data": {"storageSize": "10Gi", "download": {"git": [GIT]}}}
BEGUN = "2026-01-02T03:04:10Z"
WAITS = Admission("pending", "Pending", "insufficient quota for cpu")
ADMITTED = Admission("admitted", "Admitted", "The workload is admitted")


def state(world: World) -> tuple[str, str, str]:
    """Status, reason and message."""
    return world.status["status"], world.status["reason"], world.status["message"]


def settles_without_writes(world: World) -> None:
    """Reconcile until nothing is left to do, and expect that no object was written."""
    writes = len(world.writes)
    world.settle()
    assert world.writes[writes:] == []


def complete(world: World, kind: str = "Complete") -> None:
    """Let the download Job end."""
    live = world.facts.auxiliaries[JOB, "train-download"]
    said = {"type": kind, "status": "True", "lastTransitionTime": BEGUN}
    ended = {**live, "status": {"conditions": [said]}}
    world.set(auxiliaries={**world.facts.auxiliaries, (JOB, "train-download"): ended})


# Download sources


@pytest.fixture
def fetching(world: World) -> World:
    """A job whose download Job was just created."""
    world.registry = WITH_SOURCES
    world.obj = job(image="image:1", storage=STORAGE)
    world.settle()
    assert state(world)[:2] == ("PENDING", "Downloading")
    return world


def test_a_download_goes_on_without_its_source_and_the_workload_starts_after_it(fetching: World) -> None:
    """The download program has its sources with it; the operator only observes its Job."""
    fetching.registry = WITHOUT
    before = state(fetching)
    settles_without_writes(fetching)
    assert state(fetching) == before
    complete(fetching)
    fetching.settle()
    assert state(fetching)[0] == "STARTING"
    assert fetching.condition("DownloadJobSucceeded")["status"] == "True"


def test_a_failed_download_ends_its_workload_without_its_source_too(fetching: World) -> None:
    """Nothing is kept waiting for a plugin that could not help."""
    fetching.registry = WITHOUT
    complete(fetching, "Failed")
    settles_without_writes(fetching)
    assert state(fetching)[:2] == ("FAILED", "DownloadFailed")


def test_a_download_that_cannot_be_observed_keeps_its_status(fetching: World) -> None:
    """Without any source download Jobs are not read: only the condition says so, and it heals."""
    fetching.registry = WITHOUT
    before, objects = state(fetching), fetching.facts.auxiliaries
    fetching.set(auxiliaries={key: obj for key, obj in objects.items() if key[0] not in (JOB, CONFIG_MAP)})
    settles_without_writes(fetching)
    assert state(fetching) == before
    ready = fetching.condition("StorageReady")
    assert (ready["status"], ready["reason"]) == ("False", "DownloadNotAvailable")
    assert "spec.storage.data.download.git" in ready["message"]
    assert fetching.condition("DownloadJobSucceeded")["reason"] == "JobPending"

    fetching.registry = WITH_SOURCES
    fetching.set(auxiliaries=objects)
    settles_without_writes(fetching)
    assert fetching.condition("StorageReady").get("reason") != "DownloadNotAvailable"
    complete(fetching)
    fetching.settle()
    assert state(fetching)[0] == "STARTING"


def test_a_workload_that_runs_does_not_need_the_source_of_its_download(fetching: World) -> None:
    """No status is written, and a child that was deleted is created again from what is downloaded."""
    complete(fetching)
    fetching.settle()
    before = fetching.status
    fetching.registry = WITHOUT
    settles_without_writes(fetching)
    assert fetching.status == before
    fetching.set(live=None, missing_child=DeletedChild(fetching.facts.live, deletion_seen=True))
    writes = len(fetching.writes)
    fetching.settle()
    assert [write.obj["metadata"]["name"] for write in fetching.writes[writes:]] == ["train"]


def test_a_new_download_without_its_source_names_the_distribution_to_select(world: World) -> None:
    """Nothing is created before it is there."""
    world.obj = job(image="image:1", storage=STORAGE)
    key = ("KaiwoJob", "storage.data.download.git")
    absent = AbsentPlugin("storage", "kaiwo-storage", "not-selected", "")
    world.registry = dataclasses.replace(WITHOUT, absent_fields={key: absent})
    settles_without_writes(world)
    assert state(world)[:2] == ("ERROR", "DownloadNotAvailable")
    assert "plugin storage of kaiwo-storage serves it and is installed, but not selected" in state(world)[2]


# The queue system


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


def lose_queue(world: World) -> None:
    """Restart without the queue system, which was in force before."""
    world.registry = dataclasses.replace(world.registry, queue=None)
    world.set(missing_queue="kueue")


def run(world: World) -> None:
    """Let the Job start."""
    running = {"name": "workload", "state": {"running": {"startedAt": BEGUN}}}
    assert world.facts.live is not None
    world.live(status={"startTime": BEGUN, "active": 1}, spec={**world.facts.live["spec"], "suspend": False})
    world.set(pods=(world.pod(phase="Running", containerStatuses=[running]),))


def test_a_waiting_job_keeps_its_place_and_its_status_without_the_queue_system(world: World) -> None:
    """Only the condition Admitted says that nobody reads admission. With the plugin all is as before."""
    queue(world, WAITS)
    world.settle()
    before, allocation, live = state(world), world.status["allocation"], world.facts.live
    assert before == ("PENDING", "Pending", "insufficient quota for cpu")
    lose_queue(world)
    settles_without_writes(world)
    assert (state(world), world.status["allocation"], world.facts.live) == (before, allocation, live)
    admitted = world.condition("Admitted")
    assert (admitted["status"], admitted["reason"]) == ("Unknown", "QueueSystemNotLoaded")
    assert "queue plugin kueue is not loaded" in admitted["message"]

    queue(world, WAITS)
    settles_without_writes(world)
    assert (state(world), world.condition("Admitted")["status"]) == (before, "False")


def test_a_job_that_its_queue_admits_without_the_plugin_is_followed(world: World) -> None:
    """The queue system itself goes on; what the pods do is reported."""
    queue(world, WAITS)
    world.settle()
    lose_queue(world)
    world.settle()
    run(world)
    settles_without_writes(world)
    assert state(world)[0] == "RUNNING"
    assert world.condition("Admitted")["reason"] == "QueueSystemNotLoaded"


def test_a_running_job_stays_in_its_queue_without_the_queue_system(world: World) -> None:
    """Its labels stay, and a change that only the queue system can make is announced."""
    world.obj["spec"]["clusterQueue"] = "team"
    queue(world, ADMITTED)
    world.settle()
    run(world)
    world.settle()
    before = state(world)
    lose_queue(world)
    world.edit(clusterQueue="other")
    settles_without_writes(world)
    assert state(world) == before
    assert world.facts.live is not None
    assert world.facts.live["metadata"]["labels"]["queue"] == "team"
    applied = world.condition("SpecApplied")
    assert (applied["status"], applied["reason"]) == ("False", "QueueSystemNotLoaded")
    assert applied["message"].startswith("spec.clusterQueue: ")


def test_a_queued_service_is_updated_within_its_queue_without_the_queue_system(world: World) -> None:
    """What needs no queue is applied, with the labels of the queue."""
    world.registry = WITHOUT
    world.obj = service("web", image="image:1")
    queue(world, ADMITTED)
    world.settle()
    lose_queue(world)
    world.edit(image="image:2")
    plan = world.plan()
    (write,) = plan.writes
    assert isinstance(write, Apply)
    assert write.obj["spec"]["template"]["spec"]["containers"][0]["image"] == "image:2"
    assert write.obj["metadata"]["labels"]["queue"] == "main"


def test_a_deleted_job_is_not_created_outside_its_queue(world: World) -> None:
    """Also not where it named none and the default queue was its queue; it waits for the plugin."""
    queue(world, WAITS)
    world.settle()
    lose_queue(world)
    world.set(live=None, missing_child=DeletedChild(world.facts.live, deletion_seen=True))
    settles_without_writes(world)
    assert state(world)[:2] == ("ERROR", "QueueSystemNotLoaded")
    world.set(missing_child=None, missing_queue="")  # the operator is restarted, and KaiwoConfig made anew
    settles_without_writes(world)
    assert state(world)[:2] == ("ERROR", "QueueSystemNotLoaded")
    queue(world, WAITS)
    world.settle()
    assert state(world)[0] == "PENDING"
    assert world.facts.live is not None
    assert world.facts.live["metadata"]["labels"]["queue"] == "main"


def test_a_new_job_that_names_a_queue_does_not_run_outside_it(world: World) -> None:
    """The message names the plugin and the way out; without the field the job runs."""
    world.obj["spec"]["clusterQueue"] = "team"
    lose_queue(world)
    settles_without_writes(world)
    assert state(world)[:2] == ("ERROR", "QueueSystemNotLoaded")
    for words in ("queue plugin kueue", "outside queue team", "remove the field"):
        assert words in state(world)[2]
    assert "is ignored" not in state(world)[2]
    world.edit(clusterQueue=None)
    world.settle()
    assert state(world)[0] == "STARTING"


def test_where_no_queue_system_was_ever_in_force_a_named_queue_is_ignored_with_a_warning(
    world: World,
) -> None:
    """A cluster without queues runs everything at once."""
    world.obj["spec"]["clusterQueue"] = "team"
    world.settle()
    assert state(world)[0] == "STARTING"
    assert "spec.clusterQueue is ignored" in world.condition("SpecApplied")["message"]


# GPU vendors

AMD = plugins(*BACKENDS, kaiwo_gpu_amd.plugin)


def gpu_template(image: str) -> Object:
    """An embedded Deployment that requests GPUs itself."""
    limits = {"amd.com/gpu": 2}
    container = {"name": "main", "image": image, "resources": {"limits": limits}}
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


def test_a_job_with_gpus_runs_on_without_its_vendor(world: World) -> None:
    """Neither the Job nor the status changes."""
    world.registry = Registry.of(AMD)
    world.obj["spec"]["gpus"] = 8
    world.settle()
    before = world.status
    world.registry = WITHOUT
    world.set(nodes=())
    settles_without_writes(world)
    assert world.status == before


def test_a_service_keeps_its_gpus_while_their_vendor_is_missing(world: World) -> None:
    """A change of its template waits: without the vendor it would be rendered as one without GPUs."""
    world.registry = Registry.of(AMD)
    world.obj = service("web", deployment=gpu_template("image:1"))
    world.settle()
    allocation = world.status["allocation"]
    assert (allocation["vendor"], allocation["gpus"]) == ("amd", 2)
    world.registry = WITHOUT
    world.edit(deployment=gpu_template("image:2"))
    settles_without_writes(world)
    assert world.status["allocation"] == allocation
    applied = world.condition("SpecApplied")
    assert (applied["status"], applied["reason"]) == ("False", "VendorNotLoaded")
    world.registry = Registry.of(AMD)
    (write,) = world.plan().writes
    assert isinstance(write, Apply)
    assert write.obj["spec"]["template"]["spec"]["containers"][0]["image"] == "image:2"


@pytest.mark.parametrize("spec", [{"gpus": 1}, {"gpus": 1, "gpuVendor": "default"}])
def test_a_new_job_with_gpus_of_a_missing_vendor_waits_for_it(world: World, spec: dict[str, Any]) -> None:
    """It names the vendors that are loaded, and starts by itself."""
    world.registry = WITHOUT
    world.obj["spec"] |= spec
    settles_without_writes(world)
    assert state(world)[:2] == ("ERROR", "VendorNotLoaded")
    world.registry = Registry.of(AMD)
    world.settle()
    assert state(world)[0] == "STARTING"


@pytest.mark.parametrize(
    ("key", "plugin"),
    [
        ("amd.com/gpu", "gpu_amd"),
        ("nvidia.com/mig-1g.5gb", "gpu_nvidia"),
        ("aws.amazon.com/neuron", "gpu_neuron"),
    ],
)
def test_the_installed_plugin_of_the_default_vendor_is_named(world: World, key: str, plugin: str) -> None:
    """By the resource key in KaiwoConfig, whose domain or name is that of the plugin."""
    absent = AbsentPlugin(plugin, "some-distribution", "not-selected", "")
    world.registry = dataclasses.replace(WITHOUT, absent={plugin: absent})
    world.set(config=ResolvedConfig.from_object({"spec": {"nodes": {"defaultGpuResourceKey": key}}}))
    world.obj["spec"] |= {"gpus": 1, "gpuVendor": "Default"}
    settles_without_writes(world)
    assert state(world)[1] == "VendorNotLoaded"
    named = f"plugin {plugin} of some-distribution is installed, but not selected; select {plugin}"
    assert named in state(world)[2]


def test_the_installed_plugin_of_a_vendor_is_named(world: World) -> None:
    """The message says which plugin to select, for new workloads and for changes of live ones."""
    absent = AbsentPlugin("gpu_amd", "kaiwo-gpu-amd", "not-selected", "")
    installed = dataclasses.replace(WITHOUT, absent={"gpu_amd": absent})
    named = "plugin gpu_amd of kaiwo-gpu-amd is installed, but not selected; select gpu_amd"
    world.registry = installed
    world.obj["spec"]["gpus"] = 1
    settles_without_writes(world)
    assert state(world)[1] == "VendorNotLoaded"
    assert named in state(world)[2]
    world.registry = Registry.of(AMD)
    world.obj = service("web", deployment=gpu_template("image:1"))
    world.settle()
    world.registry = installed
    world.edit(deployment=gpu_template("image:2"))
    settles_without_writes(world)
    assert named in world.condition("SpecApplied")["message"]


# Contributions to pods


def add_sidecar(given: RenderInput, template: Object) -> Object:
    """A sidecar in the pods of services."""
    if given.workload.kind != "KaiwoService":
        return template
    spec = template["spec"]
    return {**template, "spec": {**spec, "containers": [*spec["containers"], {"name": "proxy"}]}}


WITH_SIDECAR = dataclasses.replace(WITHOUT, contributions=(PodContribution("proxy", add_sidecar),))


def test_a_service_keeps_what_a_missing_plugin_added_to_its_pods(world: World) -> None:
    """Its Deployment is not rolled out without the sidecar; a change waits for the plugin."""
    world.registry = WITH_SIDECAR
    world.obj = service("web", image="image:1")
    world.settle()
    world.registry = WITHOUT
    settles_without_writes(world)
    assert world.condition("SpecApplied")["status"] == "True"
    world.edit(image="image:2")
    settles_without_writes(world)
    applied = world.condition("SpecApplied")
    assert (applied["status"], applied["reason"]) == ("False", "ContributionNotLoaded")
    assert "contribution to pods proxy: its plugin is not loaded" in applied["message"]
    world.registry = WITH_SIDECAR
    (write,) = world.plan().writes
    assert isinstance(write, Apply)
    pod = write.obj["spec"]["template"]["spec"]
    assert [container["name"] for container in pod["containers"]] == ["workload", "proxy"]
    assert pod["containers"][0]["image"] == "image:2"


def test_a_new_service_starts_without_a_missing_contribution(world: World) -> None:
    """Nothing says that there was one; what is created is changed in every way that its spec is."""
    world.registry = WITHOUT
    world.obj = service("web", image="image:1")
    world.settle()
    world.edit(image="image:2")
    assert len(world.plan().writes) == 1


def test_a_contribution_that_adds_nothing_to_a_workload_is_not_missed(world: World) -> None:
    """The record on a child names only those that added something."""
    adds_nothing = PodContribution("idle", lambda _, template: template)
    world.registry = dataclasses.replace(WITHOUT, contributions=(adds_nothing,))
    world.obj = service("web", image="image:1")
    world.settle()
    world.registry = WITHOUT
    world.edit(image="image:2")
    assert len(world.plan().writes) == 1
