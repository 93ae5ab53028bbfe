"""What a workload waits for before it starts, and what is told meanwhile."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaiwo_batch_job.plugin
import kaiwo_deployment.plugin
import kaiwo_ray_job.plugin
import kaiwo_ray_service.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.resource import CONFIG_MAP, JOB, PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.observation import Finding
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueFacts, QueueSystem
from kaiwo.testing import config, job, plugins, service
from kaiwo.testing.builders import NOW
from kaiwo.workload.download.progress import Progress
from kaiwo.workload.model import Delete, DeletedChild, Patch, Registry
from kaiwo.workload.plans.blocked import REJECTED_RETRY_SECONDS

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object

REGISTRY = Registry.of(plugins(kaiwo_batch_job.plugin, kaiwo_storage_s3_gcs_azure_git_hf.plugin))
GIT = {"repository": "https://git.example.com/r.git", "targetPath": "src"}
BEGUN = "2026-01-02T03:04:06Z"
NAME = "train-download"


def storage(*items: Object, **more: Any) -> Object:
    """A data volume into which git repositories are cloned."""
    data = {"storageSize": "10Gi", "download": {"git": list(items or (GIT,))}}
    return {"storageEnabled": True, "data": data, **more}


@pytest.fixture
def fetching(world: World) -> World:
    """A job that waits for its download, which was just created."""
    world.registry = REGISTRY
    world.obj = job(image="image:1", storage=storage())
    world.settle()
    return world


def claim(world: World, **parts: Any) -> None:
    """Change the live claim."""
    key = (PERSISTENT_VOLUME_CLAIM, "train-data")
    live = {**world.facts.auxiliaries[key], **parts}
    world.set(auxiliaries={**world.facts.auxiliaries, key: live})


def download(world: World) -> Object:
    """The live download Job."""
    found: Object = world.facts.auxiliaries[JOB, NAME]
    return found


def change(world: World, **parts: Any) -> None:
    """Change the live download Job."""
    live = {**download(world), **parts}
    world.set(auxiliaries={**world.facts.auxiliaries, (JOB, NAME): live})


def pod(name: str = "train-download-x", **status: Any) -> Object:
    """A pod of the download Job."""
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "creationTimestamp": BEGUN,
            "ownerReferences": [{"kind": "Job", "controller": True, "uid": f"uid-of-{NAME}"}],
        },
        "spec": {},
        "status": {"phase": "Running", **status},
    }


def container(**state: Any) -> Object:
    """The status of the download pod's container."""
    return {"containerStatuses": [{"name": "download", "image": "d:1", "state": state}]}


def running(world: World, progress: Progress | None = None) -> None:
    """Let the download pod run."""
    world.set(download_pods=(pod(**container(running={"startedAt": BEGUN})),), progress=progress)


def ended(world: World, kind: str, **parts: Any) -> None:
    """Let the download Job end."""
    said = {"type": kind, "status": "True", "lastTransitionTime": "2026-01-02T03:05:00Z", **parts}
    change(world, status={"conditions": [said]})


def reported(world: World) -> tuple[str, str]:
    """Status and reason."""
    return world.status["status"], world.status["reason"]


def failed_pod(code: int, message: str = "", name: str = "train-download-x") -> Object:
    """A pod whose program ended with a code and left a message."""
    return pod(name, phase="Failed", **container(terminated={"exitCode": code, "message": message}))


def test_volume_config_and_job_come_first_and_the_jobs_own_object_last(world: World) -> None:
    """No GPU waits for a download: the Job that trains is created once the one that downloads succeeded."""
    world.registry = REGISTRY
    world.obj = job(image="image:1", storage=storage())
    plan = world.settle()
    assert [write.resource for write in world.writes] == [PERSISTENT_VOLUME_CLAIM, CONFIG_MAP, JOB]
    assert [write.resource for write in plan.later] == [JOB]
    assert world.facts.live is None
    assert reported(world) == ("PENDING", "Downloading")
    assert world.condition("DownloadJobSucceeded")["reason"] == "JobPending"
    assert world.condition("Schedulable")["status"] == "True"
    assert world.condition("StorageReady")["status"] == "True"
    assert "childUID" not in world.status

    running(world)
    world.settle()
    assert world.condition("DownloadJobSucceeded")["reason"] == "JobInProgress"

    ended(world, "Complete")
    world.settle()
    assert world.writes[-1].obj["metadata"]["name"] == "train"
    assert reported(world) == ("STARTING", "Starting")
    done = world.condition("DownloadJobSucceeded")
    assert (done["status"], done["reason"]) == ("True", "JobCompleted")
    assert len(world.writes) == 4


FORMS = plugins(
    kaiwo_batch_job.plugin,
    kaiwo_deployment.plugin,
    kaiwo_ray_job.plugin,
    kaiwo_ray_service.plugin,
    kaiwo_storage_s3_gcs_azure_git_hf.plugin,
)


def test_a_running_download_is_not_rendered_anew(fetching: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each report of its progress costs no work on its items, of which there may be thousands."""
    monkeypatch.setattr("kaiwo.workload.download.job.prepare", None)
    running(fetching)
    fetching.settle()
    assert reported(fetching) == ("PENDING", "Downloading")
    key = (CONFIG_MAP, NAME)
    edited = {**fetching.facts.auxiliaries[key], "data": {}}
    fetching.set(auxiliaries={**fetching.facts.auxiliaries, key: edited})
    monkeypatch.undo()
    fetching.settle()
    assert fetching.facts.auxiliaries[key]["data"]


@pytest.mark.parametrize(
    ("made", "child"),
    [
        (job(image="image:1", storage=storage()), "Job"),
        (job(image="image:1", storage=storage(), ray=True), "RayJob"),
        (service(image="image:1", storage=storage()), "Deployment"),
        (service(image="image:1", storage=storage(), ray=True), "AppWrapper"),
    ],
    ids=["job", "ray-job", "service", "ray-service"],
)
def test_every_back_end_waits_for_downloads(world: World, made: Object, child: str) -> None:
    """What a queue would hold, or would give quota to, is not created before."""
    world.registry = Registry.of(FORMS)
    world.obj = made
    plan = world.settle()
    assert [write.resource.kind for write in world.writes] == ["PersistentVolumeClaim", "ConfigMap", "Job"]
    assert plan.later[0].resource.kind == child
    assert child in [rendered.child["kind"] for rendered in plan.rendered]


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["True", "Failed", "Complete", BEGUN, "Pending", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "status", "spec", "conditions", "type", "failed", "backoffLimit", "suspend", "state",
                    "terminated", "exitCode", "message", "containerStatuses", "phase", "waiting", "running",
                    "reason", "accessModes", "resources", "requests", "storage", "capacity", "startTime",
                    "storageClassName",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(of_job=ODD, spec=ODD, of_pod=ODD, of_claim=ODD)
def test_any_state_of_what_downloads_gets_a_status(
    world: World, of_job: object, spec: object, of_pod: object, of_claim: object
) -> None:
    """Whatever somebody wrote into the Job, its pod or the claim: an answer, never a crash."""
    world.registry = REGISTRY
    world.obj = job(image="image:1", storage=storage())
    facts = world.facts
    try:
        for write in world.plan().writes:
            world.execute(write)
        change(world, status=of_job)
        if isinstance(spec, dict):
            change(world, spec=spec)
        broken = {**pod(), "status": of_pod}
        world.set(download_pods=(broken,), storage_classes={})
        claim(world, status=of_claim, **({"spec": of_claim} if isinstance(of_claim, dict) else {}))
        plan = world.plan()
        assert plan.statuses[-1]["status"] in ("PENDING", "FAILED", "ERROR")
        assert plan.statuses[-1]["message"]
    finally:
        world.facts = facts


def test_how_far_it_is(fetching: World) -> None:
    """The share and the size, and nothing else changes with them."""
    running(fetching, Progress(26 * 1024**3, 64 * 1024**3))
    plan = fetching.settle()
    assert fetching.status["message"] == "Downloading 40 % of 64 GiB"
    assert plan.follow == "train-download-x"
    assert reported(fetching) == ("PENDING", "Downloading")
    assert not plan.events


def test_after_a_restart_the_last_number_stands_until_there_is_a_new_one(fetching: World) -> None:
    """A restarted operator does not write that it knows nothing."""
    running(fetching, Progress(1, 2))
    fetching.settle()
    fetching.set(progress=None)
    plan = fetching.plan()
    assert (plan.statuses, plan.follow) == ((), "train-download-x")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (2, "DownloadInvalid"),
        (3, "DownloadUnavailable"),
        (4, "DownloadMismatch"),
        (5, "DownloadDiskFull"),
        (6, "DownloadUnreachable"),
        (1, "DownloadFailed"),
    ],
)
def test_a_failed_download_ends_the_workload_with_the_programs_words(
    fetching: World, code: int, reason: str
) -> None:
    """FAILED, once, with a reason for each exit code and the line that the program left."""
    line = "git[0]: r.git does not exist; check repository"
    report = json.dumps({"event": "failed", "exitCode": code, "message": line})
    fetching.set(download_pods=(failed_pod(code, report),))
    ended(fetching, "Failed", reason="PodFailurePolicy", message="Pod failed")
    plan = fetching.settle()
    assert reported(fetching) == ("FAILED", reason)
    assert line in fetching.status["message"]
    assert f"exit code {code}" in fetching.status["message"]
    assert fetching.condition("DownloadJobSucceeded")["reason"] == "JobFailed"
    assert fetching.status["completionTime"] == "2026-01-02T03:05:00Z"
    assert [event.reason for event in plan.events] == ["WorkloadFailed"]
    assert fetching.facts.live is None


@pytest.mark.parametrize(
    ("limit", "message", "setting"),
    [
        (
            "max-bytes",
            "git[0]: the download is larger than 4.0 TiB; select fewer files (--max-bytes)",
            "maxSize",
        ),
        (
            "max-files",
            "git[0]: the download has more than 9 files; select fewer files (--max-files)",
            "maxFiles",
        ),
        (
            "timeout",
            "the download did not finish within 60 s; a new run resumes; raise the limit (--timeout)",
            "timeout",
        ),
    ],
)
def test_a_download_beyond_a_limit_names_the_limit_and_its_setting(
    fetching: World, limit: str, message: str, setting: str
) -> None:
    """Users do not see the program's arguments; an administrator changes KaiwoConfig."""
    report = json.dumps({"event": "failed", "exitCode": 2, "limit": limit, "message": message})
    fetching.set(download_pods=(failed_pod(2, report),))
    ended(fetching, "Failed", reason="PodFailurePolicy", message="Pod failed")
    fetching.settle()
    assert reported(fetching) == ("FAILED", "DownloadLimitExceeded")
    assert fetching.status["message"] == (
        f"the download failed: {message.partition(';')[0]}; download less, or raise KaiwoConfig "
        f"storage.downloadLimits.{setting}"
    )


def test_a_download_job_beyond_its_deadline_names_the_setting(fetching: World) -> None:
    """Where the program itself did not end in time."""
    deadline = download(fetching)["spec"]["activeDeadlineSeconds"]
    ended(fetching, "Failed", reason="DeadlineExceeded", message="Job was active longer than ...")
    fetching.settle()
    assert reported(fetching) == ("FAILED", "DownloadLimitExceeded")
    assert f"within {deadline} s" in fetching.status["message"]
    assert "KaiwoConfig storage.downloadLimits.timeout" in fetching.status["message"]


def test_a_download_pod_that_fills_its_node_names_the_setting(fetching: World) -> None:
    """The kubelet evicts it; what it exits with then explains nothing."""
    said = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
    terminated = {"exitCode": 137, "reason": "Error"}
    evicted = pod(phase="Failed", reason="Evicted", message=said, **container(terminated=terminated))
    fetching.set(download_pods=(evicted,))
    ended(fetching, "Failed", reason="BackoffLimitExceeded", message="x")
    fetching.settle()
    assert reported(fetching) == ("FAILED", "DownloadLimitExceeded")
    assert "exceeds the total limit of containers 1Gi; " in fetching.status["message"]
    assert "storage.downloadResources.limits.ephemeral-storage" in fetching.status["message"]


def test_a_limit_of_an_earlier_try_is_not_the_cause_of_the_last_one(fetching: World) -> None:
    """Only the newest pod says why the Job failed."""
    said = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
    first = pod("train-download-a", phase="Failed", reason="Evicted", message=said)
    last = failed_pod(6, '{"message": "s3.example.com does not answer"}', "train-download-b")
    last["metadata"]["creationTimestamp"] = "2026-01-02T03:04:30Z"
    fetching.set(download_pods=(first, last))
    ended(fetching, "Failed", reason="BackoffLimitExceeded", message="x")
    fetching.settle()
    assert reported(fetching) == ("FAILED", "DownloadUnreachable")


def test_words_that_are_no_json_are_reported_as_they_are(fetching: World) -> None:
    """A program that could not even start leaves the end of its log, lines of progress among it."""
    log = '{"event":"progress","bytesDone":1}\nTraceback\nImportError: no module named x\n'
    fetching.set(download_pods=(failed_pod(1, log),))
    ended(fetching, "Failed", message="x")
    fetching.settle()
    assert "ImportError: no module named x" in fetching.status["message"]


def test_words_that_are_nested_deeply_are_reported_as_they_are(fetching: World) -> None:
    """Whoever may change the image of a download pod chooses its last words."""
    fetching.set(download_pods=(failed_pod(1, "[" * 4000),))
    ended(fetching, "Failed", message="x")
    fetching.settle()
    assert reported(fetching) == ("FAILED", "DownloadFailed")


def test_a_killed_download_says_what_killed_it(fetching: World) -> None:
    """Memory is no exit code of the program's."""
    state = {"exitCode": 137, "reason": "OOMKilled"}
    fetching.set(download_pods=(pod(phase="Failed", **container(terminated=state)),))
    ended(fetching, "Failed", message="Job has reached the specified backoff limit")
    fetching.settle()
    assert reported(fetching) == ("FAILED", "OOMKilled")


def test_between_two_tries_the_first_ones_failure_is_reported(fetching: World) -> None:
    """Still PENDING: the next try continues where this one ended."""
    fetching.set(download_pods=(failed_pod(6, '{"event":"failed","message":"no answer"}'),))
    change(fetching, status={"failed": 1, "startTime": BEGUN})
    fetching.settle()
    assert reported(fetching) == ("PENDING", "Downloading")
    assert fetching.status["message"] == "try 1 of 4 failed, the next one continues from there: no answer"


def test_a_failed_try_stays_in_the_message_while_the_next_one_runs(fetching: World) -> None:
    """Whoever looks after the first failure is told of it, not only after the last one."""
    running = pod("train-download-b", phase="Running", **container(running={"startedAt": BEGUN}))
    first = failed_pod(6, '{"event":"failed","message":"no answer"}')
    fetching.set(download_pods=(first, running))
    change(fetching, status={"failed": 1, "startTime": BEGUN})
    fetching.settle()
    assert reported(fetching) == ("PENDING", "Downloading")
    assert fetching.status["message"] == "try 1 of 4 failed (no answer), it goes on: Downloading"
    killed = pod(phase="Failed", **container(terminated={"exitCode": 137}))
    fetching.set(download_pods=(killed, running))
    fetching.settle()
    assert fetching.status["message"] == "try 1 of 4 failed (exit code 137), it goes on: Downloading"


def test_a_missing_secret_is_reported_in_the_kubelets_words(fetching: World) -> None:
    """Of a volume that cannot be mounted only the pod's events tell; they are asked after three seconds."""
    waiting = pod(phase="Pending", conditions=[{"type": "PodScheduled", "lastTransitionTime": BEGUN}])
    fetching.set(download_pods=(waiting,))
    early = fetching.plan()
    assert (early.requeue_after, early.needs_events) == (3.0, None)
    fetching.at(NOW + timedelta(seconds=4))
    assert fetching.plan().needs_events == waiting
    text = 'MountVolume.SetUp failed for volume "secret-git" : secret "git" not found'
    fetching.set(warning_event=Finding("FailedMount", text), warning_event_uid="uid-of-train-download-x")
    fetching.settle()
    assert reported(fetching) == ("PENDING", "FailedMount")
    assert text in fetching.status["message"]
    later = Finding("FailedMount", "Unable to attach or mount volumes: timed out")
    fetching.set(warning_event=later)
    assert not fetching.plan().statuses


def held(world: World, admission: Admission | None) -> None:
    """Load a queue system that says this of every object, and let it suspend the download Job."""
    system = QueueSystem(
        "q",
        assign=lambda _, __: QueueAssignment("main", {"queue": "main"}),
        admission=lambda _, __: admission,
    )
    known = QueueFacts(objects={}, default_queue="main")
    world.registry = replace(world.registry, queue=system)
    world.set(queue_facts=known, download_queue_facts=known)
    change(world, spec={**download(world)["spec"], "suspend": True})


def test_a_download_job_that_the_queue_system_holds_says_so_in_its_words(fetching: World) -> None:
    """Kaiwo queues no downloads, but the cluster may: to set spec.suspend to false would be undone."""
    held(fetching, Admission("pending", "Inadmissible", "waits in queue default: no quota"))
    fetching.settle()
    assert reported(fetching) == ("PENDING", "Inadmissible")
    assert fetching.status["message"] == f"download Job {NAME}: waits in queue default: no quota"
    assert fetching.condition("DownloadJobSucceeded")["reason"] == "JobPending"


def test_a_download_job_that_has_to_name_a_queue_gets_the_workloads(fetching: World) -> None:
    """Nothing starts without a queue in such a cluster, and nobody should have to label each Job."""
    held(fetching, Admission("pending", "Suspended", "it names no queue", unqueued=True))
    labels = {"metadata": {"labels": {"queue": "main"}}}
    assert fetching.plan().writes == (
        Patch(JOB, fetching.obj["metadata"]["namespace"], NAME, f"uid-of-{NAME}", labels),
    )


def test_a_download_job_that_waits_in_a_queue_is_not_changed(fetching: World) -> None:
    """Somebody gave it one."""
    held(fetching, Admission("pending", "Inadmissible", "waits in queue default: no quota"))
    assert not fetching.plan().writes


def test_a_download_job_that_is_admitted_is_about_to_start(fetching: World) -> None:
    """The queue system resumes it in a moment: nobody has to do anything."""
    held(fetching, Admission("admitted", "Admitted", "admitted"))
    fetching.settle()
    assert reported(fetching) == ("PENDING", "Downloading")


def test_a_download_job_that_somebody_suspended_says_how_it_goes_on(fetching: World) -> None:
    """Also where the queue system knows nothing of it, unless it suspended the Job just now."""
    held(fetching, None)
    fetching.at(NOW)
    fetching.settle()
    assert reported(fetching) == ("PENDING", "Downloading")
    assert fetching.plan().requeue_after is not None
    fetching.at(NOW + timedelta(seconds=9))
    fetching.settle()
    assert reported(fetching) == ("PENDING", "Suspended")
    assert "set its spec.suspend to false" in fetching.status["message"]


def test_a_missing_key_of_the_environment_is_reported(fetching: World) -> None:
    """As the kubelet says it on the container."""
    state = {"reason": "CreateContainerConfigError", "message": 'secret "hf" not found'}
    fetching.set(download_pods=(pod(phase="Pending", **container(waiting=state)),))
    fetching.settle()
    assert reported(fetching) == ("PENDING", "CreateContainerConfigError")
    assert 'secret "hf" not found' in fetching.status["message"]


def test_a_download_job_without_pods_says_who_refuses_them(fetching: World) -> None:
    """A quota or a policy: the Job's own events."""
    change(fetching, status={"startTime": BEGUN})
    fetching.at(NOW + timedelta(seconds=5))
    assert fetching.plan().needs_events == download(fetching)
    fetching.set(
        warning_event=Finding("FailedCreate", "exceeded quota: team"), warning_event_uid=f"uid-of-{NAME}"
    )
    fetching.settle()
    assert reported(fetching) == ("PENDING", "FailedCreate")


def test_a_finished_download_is_remembered(fetching: World) -> None:
    """Its Job may be gone, and its child too: nothing is downloaded a second time."""
    ended(fetching, "Complete")
    fetching.settle()
    beside = {key: obj for key, obj in fetching.facts.auxiliaries.items() if key[0] != JOB}
    fetching.set(auxiliaries=beside)
    fetching.settle()
    writes = len(fetching.writes)
    fetching.set(live=None, missing_child=DeletedChild(fetching.facts.live, deletion_seen=True))
    fetching.settle()
    assert [write.obj["metadata"]["name"] for write in fetching.writes[writes:]] == ["train"]
    assert reported(fetching) == ("STARTING", "Starting")


def without_job(world: World) -> None:
    """Let the download Job be collected after its end."""
    beside = {key: obj for key, obj in world.facts.auxiliaries.items() if key[0] != JOB}
    world.set(auxiliaries=beside)


def without_claim(world: World) -> None:
    """Let somebody delete the claim."""
    beside = {key: obj for key, obj in world.facts.auxiliaries.items() if key[0] != PERSISTENT_VOLUME_CLAIM}
    world.set(auxiliaries=beside)


def going(obj: Object) -> Object:
    """An object that is being deleted."""
    return {**obj["metadata"], "deletionTimestamp": "2026-01-02T04:00:00Z"}


def test_a_volume_that_was_deleted_after_its_download_is_filled_again(fetching: World) -> None:
    """Its claim is made again, and is empty: the workload would start without its data."""
    ended(fetching, "Complete")
    without_claim(fetching)
    plan = fetching.plan()
    assert [type(write).__name__ for write in plan.writes] == ["Apply", "Delete"]
    fetching.settle()
    assert fetching.facts.live is None
    key = (PERSISTENT_VOLUME_CLAIM, "train-data")
    later = {**fetching.facts.auxiliaries[key]["metadata"], "creationTimestamp": "2026-01-02T03:05:01Z"}
    claim(fetching, metadata=later)
    fetching.settle()
    why = "because PersistentVolumeClaim train-data was deleted after a download"
    assert fetching.status["message"].endswith(why)


def test_a_volume_that_was_made_again_after_its_download_is_filled_again(fetching: World) -> None:
    """The claim alone shows it, whatever the operator has seen: it is younger than the last try."""
    ended(fetching, "Complete")
    key = (PERSISTENT_VOLUME_CLAIM, "train-data")
    later = {**fetching.facts.auxiliaries[key]["metadata"], "creationTimestamp": "2026-01-02T03:05:01Z"}
    claim(fetching, metadata=later)
    [write] = fetching.plan().writes
    assert isinstance(write, Delete)
    again = pod(phase="Succeeded")
    again["metadata"]["creationTimestamp"] = "2026-01-02T03:05:02Z"
    fetching.set(download_pods=(again,))
    assert [write.obj["metadata"]["name"] for write in fetching.plan().writes] == ["train"]


def test_a_volume_that_is_made_again_later_is_filled_again_also_without_the_job(fetching: World) -> None:
    """The Job may be gone: the condition says when the download had ended. The second download counts."""
    ended(fetching, "Complete")
    fetching.settle()
    without_job(fetching)
    key = (PERSISTENT_VOLUME_CLAIM, "train-data")
    later = {**fetching.facts.auxiliaries[key]["metadata"], "creationTimestamp": "2026-01-02T03:30:00Z"}
    claim(fetching, metadata=later)
    fetching.set(live=None, missing_child=DeletedChild(fetching.facts.live, deletion_seen=True))
    fetching.obj = {**fetching.obj, "status": fetching.plan().statuses[-1]}
    assert reported(fetching) == ("PENDING", "Downloading")
    assert fetching.condition("DownloadJobSucceeded")["status"] == "False"
    fetching.settle()
    assert fetching.facts.live is None
    created = {**download(fetching)["metadata"], "creationTimestamp": "2026-01-02T03:30:01Z"}
    fetching.at(NOW + timedelta(hours=1))
    change(fetching, metadata=created)
    ended(fetching, "Complete")
    fetching.settle()
    assert fetching.facts.live is not None


def test_nothing_starts_on_a_volume_that_is_being_deleted(fetching: World) -> None:
    """No pod can use it any more, and it is made again only while there is no child."""
    ended(fetching, "Complete")
    claim(fetching, metadata=going(fetching.facts.auxiliaries[PERSISTENT_VOLUME_CLAIM, "train-data"]))
    [write] = fetching.plan().writes
    assert isinstance(write, Delete)
    without_job(fetching)
    fetching.settle()
    assert reported(fetching) == ("PENDING", "VolumeMissing")
    assert "PersistentVolumeClaim train-data is being deleted" in fetching.status["message"]
    without_claim(fetching)
    fetching.settle()
    assert fetching.facts.auxiliaries.keys() >= {(JOB, NAME), (PERSISTENT_VOLUME_CLAIM, "train-data")}


def test_a_download_goes_on_while_its_volume_is_being_deleted(fetching: World) -> None:
    """Kubernetes keeps a volume that a pod uses; the condition says what becomes of it."""
    running(fetching)
    claim(fetching, metadata=going(fetching.facts.auxiliaries[PERSISTENT_VOLUME_CLAIM, "train-data"]))
    fetching.settle()
    assert reported(fetching) == ("PENDING", "Downloading")
    ready = fetching.condition("StorageReady")
    assert (ready["status"], ready["reason"]) == ("False", "VolumeMissing")


def test_a_volume_without_downloads_that_is_being_deleted_is_made_again_before_the_start(
    world: World,
) -> None:
    """A pod of a child that exists would wait for it for ever."""
    world.registry = REGISTRY
    world.obj = job(image="image:1", storage={"storageEnabled": True, "data": {"storageSize": "10Gi"}})
    (made, *_) = world.plan().writes
    world.execute(made)
    claim(world, metadata=going(world.facts.auxiliaries[PERSISTENT_VOLUME_CLAIM, "train-data"]))
    world.settle()
    assert reported(world) == ("PENDING", "VolumeMissing")
    without_claim(world)
    world.settle()
    assert world.facts.live is not None


def test_a_finished_download_is_recognised_by_its_hash_and_not_by_a_text(fetching: World) -> None:
    """Another version may have written the status, in other words: nothing is downloaded a second time."""
    ended(fetching, "Complete")
    fetching.settle()
    without_job(fetching)
    fetching.condition("DownloadJobSucceeded")["message"] = "all files are there"
    writes = len(fetching.writes)
    fetching.set(live=None, missing_child=DeletedChild(fetching.facts.live, deletion_seen=True))
    fetching.settle()
    assert [write.obj["metadata"]["name"] for write in fetching.writes[writes:]] == ["train"]


def test_another_download_is_not_taken_for_the_finished_one(fetching: World) -> None:
    """The status says first that it is not done: a crash after the new ConfigMap must not skip it."""
    ended(fetching, "Complete")
    fetching.settle()
    without_job(fetching)
    fetching.set(live=None, missing_child=DeletedChild(fetching.facts.live, deletion_seen=True))
    fetching.edit(storage=storage({**GIT, "targetPath": "other"}))
    plan = fetching.plan()
    assert (plan.writes, plan.requeue_after) == ((), 0.0)
    fetching.obj = {**fetching.obj, "status": plan.statuses[-1]}
    assert fetching.condition("DownloadJobSucceeded")["reason"] == "JobPending"
    assert [write.resource for write in fetching.plan().writes] == [CONFIG_MAP, JOB]


def test_a_download_job_deleted_before_it_ended_is_made_again(fetching: World) -> None:
    """To delete it is no way around it."""
    beside = {key: obj for key, obj in fetching.facts.auxiliaries.items() if key[0] != JOB}
    fetching.set(auxiliaries=beside)
    writes = len(fetching.writes)
    fetching.settle()
    assert [write.obj["metadata"]["name"] for write in fetching.writes[writes:]] == [NAME]


def test_a_changed_download_replaces_the_running_one(fetching: World) -> None:
    """Two downloads never write to one volume: the old pods are gone before the new Job is made."""
    running(fetching)
    fetching.settle()
    fetching.edit(storage=storage({**GIT, "targetPath": "other"}))
    writes = len(fetching.writes)
    fetching.settle()
    [gone] = fetching.writes[writes:]
    assert (gone.resource, gone.name, gone.propagation) == (JOB, NAME, "Foreground")
    beside = {key: obj for key, obj in fetching.facts.auxiliaries.items() if key[0] != JOB}
    fetching.set(auxiliaries=beside, download_pods=())
    fetching.settle()
    assert [write.resource for write in fetching.writes[writes + 1 :]] == [CONFIG_MAP, JOB]
    assert "other" in fetching.writes[-2].obj["data"]["config.yaml"]


def test_a_change_of_the_configuration_leaves_a_running_download_alone(fetching: World) -> None:
    """KaiwoConfig is for what is not created yet."""
    running(fetching)
    fetching.settle()
    settings = config(storage={"downloadImage": "other:1", "allowPrivateEndpoints": False})
    fetching.set(config=ResolvedConfig.from_object(settings))
    plan = fetching.plan()
    assert (plan.writes, plan.statuses) == ((), ())


def test_an_edited_config_map_is_restored(fetching: World) -> None:
    """What is downloaded is what the workload says."""
    live = fetching.facts.auxiliaries[CONFIG_MAP, NAME]
    edited = {**live, "data": {"config.yaml": "version: 1\nitems: {}\n"}}
    fetching.set(auxiliaries={**fetching.facts.auxiliaries, (CONFIG_MAP, NAME): edited})
    writes = len(fetching.writes)
    fetching.settle()
    [write] = fetching.writes[writes:]
    assert write.obj["data"] == live["data"]


@pytest.mark.parametrize(("kind", "word"), [(JOB, "Job"), (CONFIG_MAP, "ConfigMap")])
def test_objects_of_somebody_else_are_not_touched(world: World, kind: Any, word: str) -> None:
    """A ConfigMap or Job of the needed name that nobody of ours controls."""
    world.registry = REGISTRY
    world.obj = job(image="image:1", storage=storage())
    world.settle()
    foreign = {"metadata": {"name": NAME, "uid": "other"}, "data": {}, "spec": {}}
    world.set(auxiliaries={**world.facts.auxiliaries, (kind, NAME): foreign})
    writes = len(world.writes)
    world.settle()
    assert reported(world) == ("ERROR", "NameConflict")
    assert f"{word} {NAME}" in world.status["message"]
    assert world.plan().requeue_after == REJECTED_RETRY_SECONDS  # no watch says that it is gone
    assert len(world.writes) == writes


def test_what_no_plugin_serves_is_reported_with_the_field(world: World) -> None:
    """Until a plugin is selected that does; the workload starts by itself then."""
    world.obj = job(image="image:1", storage=storage())
    world.settle()
    assert reported(world) == ("ERROR", "DownloadNotAvailable")
    assert "spec.storage.data.download.git" in world.status["message"]
    world.registry = REGISTRY
    world.settle()
    assert reported(world) == ("PENDING", "Downloading")


def test_a_download_that_is_no_longer_wanted_is_no_longer_waited_for(fetching: World) -> None:
    """Before the child exists, everything may change."""
    plain = {"storageEnabled": True, "data": {"storageSize": "10Gi"}}
    fetching.edit(storage=plain)
    fetching.settle()
    assert reported(fetching)[0] == "STARTING"
    assert fetching.condition("DownloadJobSucceeded") == {}
