"""What is done about a labelled object of a user's and the workload of its name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaiwo_batch_job.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_gpu_nvidia.plugin
from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Allocation
from kaiwo.testing import plugins
from kaiwo.workload.adoption import (
    MAX_REFERENCE_BYTES,
    Adopter,
    AdoptionCandidate,
    NotAdopted,
    allocation_of,
    decide,
    is_proven,
    owner_patch,
    reference,
    workloads_for,
)
from kaiwo.workload.labels import ADOPTED, MANAGED, POD_LABEL, REQUESTED_BY

PLUGINS = plugins(kaiwo_batch_job.plugin, kaiwo_gpu_amd.plugin, kaiwo_gpu_nvidia.plugin)
[BACKEND] = PLUGINS.backends
QUEUE = "kueue.x-k8s.io/queue-name"
JOB = AdoptionCandidate("job-uid", "train")
MADE = Adopter("kaiwo-uid", adopted="job-uid")
USERS = Adopter("kaiwo-uid")


def job(**metadata: Any) -> Any:
    """A live Job of a user's."""
    template = {
        "metadata": {
            "labels": {"app": "train", "controller-uid": "u", "batch.kubernetes.io/job-name": "train"}
        },
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"amd.com/gpu": "2"}}}]},
    }
    head = {"name": "train", "namespace": "team", "uid": "job-uid", "labels": {MANAGED: "true"}, **metadata}
    spec = {"selector": {"matchLabels": {}}, "suspend": True, "parallelism": 3, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": head, "spec": spec}


@pytest.mark.parametrize(
    ("candidate", "workload", "step"),
    [
        pytest.param(JOB, None, "create", id="new"),
        pytest.param(JOB, MADE, "own", id="its workload was created and is not its owner yet"),
        pytest.param(
            AdoptionCandidate("job-uid", "train", controller="kaiwo-uid"), MADE, "nothing", id="adopted"
        ),
        pytest.param(
            AdoptionCandidate("job-uid", "train", managed=False, controller="kaiwo-uid"),
            MADE,
            "nothing",
            id="label removed",
        ),
        pytest.param(AdoptionCandidate("job-uid", "train", managed=False), None, "nothing", id="no label"),
        pytest.param(
            AdoptionCandidate("job-uid", "train", managed=False),
            MADE,
            "delete",
            id="label removed in between",
        ),
        pytest.param(
            AdoptionCandidate("job-uid", "train", deleting=True), None, "nothing", id="being deleted"
        ),
        pytest.param(
            AdoptionCandidate("job-uid", "train", deleting=True), MADE, "nothing", id="deleted in between"
        ),
        pytest.param(
            AdoptionCandidate("job-uid", "train", controller="cron"), None, "nothing", id="of a CronJob"
        ),
        pytest.param(
            AdoptionCandidate("job-uid", "train", controller="cron"),
            USERS,
            "nothing",
            id="of a CronJob, taken",
        ),
        pytest.param(
            AdoptionCandidate("job-uid", "train", controller="cron"), MADE, "delete", id="got a controller"
        ),
        pytest.param(None, MADE, "delete", id="the Job is gone"),
        pytest.param(AdoptionCandidate("new-uid", "train"), MADE, "delete", id="another Job of that name"),
        pytest.param(None, None, "nothing", id="both gone"),
        pytest.param(None, USERS, "nothing", id="a user's KaiwoJob"),
        pytest.param(None, Adopter("kaiwo-uid", "job-uid", deleting=True), "nothing", id="deleted already"),
        pytest.param(None, Adopter("kaiwo-uid", "job-uid", ended=True), "nothing", id="ended by Kaiwo"),
        pytest.param(
            JOB, Adopter("kaiwo-uid", "job-uid", deleting=True), "nothing", id="the workload goes first"
        ),
    ],
)
def test_each_pair_of_job_and_workload_has_one_next_step(
    candidate: AdoptionCandidate | None, workload: Adopter | None, step: str
) -> None:
    """One row for each situation, whatever led to it."""
    assert decide(candidate, workload, BACKEND) == step


def test_what_is_left_alone_says_why_and_what_to_do() -> None:
    """Names that are taken, and names that no KaiwoJob can have."""
    taken = decide(JOB, USERS, BACKEND)
    assert isinstance(taken, NotAdopted)
    assert taken.reason == "NameConflict"
    dotted = decide(AdoptionCandidate("job-uid", "train.v1"), None, BACKEND)
    assert isinstance(dotted, NotAdopted)
    assert dotted.reason == "InvalidName"
    assert 'for example "train-v1"' in dotted.message


candidates = st.none() | st.builds(
    AdoptionCandidate,
    uid=st.sampled_from(["a", "b"]),
    name=st.just("train"),
    managed=st.booleans(),
    deleting=st.booleans(),
    controller=st.sampled_from(["", "kaiwo-uid", "cron"]),
)
adopters = st.none() | st.builds(
    Adopter, uid=st.just("kaiwo-uid"), adopted=st.sampled_from(["", "a", "b"]), deleting=st.booleans()
)


@given(candidate=candidates, workload=adopters)
def test_nothing_of_others_is_ever_touched(
    candidate: AdoptionCandidate | None, workload: Adopter | None
) -> None:
    """Deleted is only a workload made for an object; owned only what asks for it and has no owner."""
    step = decide(candidate, workload, BACKEND)
    if step == "delete":
        assert workload is not None
        assert workload.adopted
        assert not workload.deleting
        assert candidate is None or candidate.uid != workload.adopted or candidate.controller != workload.uid
    if step in ("create", "own"):
        assert candidate is not None
        assert candidate.eligible
    if step == "create":
        assert workload is None


@pytest.mark.parametrize(
    ("labels", "status", "manager", "proven"),
    [
        ({ADOPTED: "job-uid"}, {}, "kaiwo-adoption", True),
        ({ADOPTED: "job-uid"}, {"childUID": "job-uid"}, "kubectl", True),
        ({ADOPTED: "job-uid"}, {}, "kubectl", False),
        ({ADOPTED: "job-uid"}, {}, "kaiwo", False),
        ({ADOPTED: "job-uid"}, {"childUID": "another"}, "kubectl", False),
        ({ADOPTED: "another"}, {"childUID": "job-uid"}, "kaiwo-adoption", False),
        ({}, {"childUID": "job-uid"}, "kaiwo-adoption", False),
    ],
)
def test_a_label_alone_proves_nothing(labels: Any, status: Any, manager: str, *, proven: bool) -> None:
    """Kaiwo wrote the label, or the status, which users cannot write."""
    fields = {"f:metadata": {"f:labels": {f"f:{ADOPTED}": {}}}}
    managed = [{"manager": manager, "fieldsV1": fields}]
    workload = {"metadata": {"labels": labels, "managedFields": managed}, "status": status}
    assert is_proven(workload, "job-uid") is proven


def test_the_workload_has_user_queue_and_a_copy_of_what_the_user_wrote() -> None:
    """What controllers filled in and what is Kaiwo's own is left out."""
    live = job(
        labels={MANAGED: "true", QUEUE: "research", "team": "a"},
        annotations={REQUESTED_BY: "jane", "note": "b"},
    )
    first, second, third = workloads_for(live, BACKEND, QUEUE)
    assert first["metadata"] == {
        "name": "train",
        "namespace": "team",
        "labels": {ADOPTED: "job-uid"},
        "annotations": {POD_LABEL: "batch.kubernetes.io/controller-uid"},
    }
    copy = first["spec"]["job"]
    assert (first["spec"]["user"], first["spec"]["clusterQueue"]) == ("jane", "research")
    assert copy["metadata"] == {"labels": {QUEUE: "research", "team": "a"}, "annotations": {"note": "b"}}
    assert copy["spec"]["template"]["metadata"]["labels"] == {"app": "train"}
    assert not {"selector", "suspend"} & copy["spec"].keys()
    assert second["spec"] == {"job": {}, "user": "jane", "clusterQueue": "research"}
    assert third["spec"] == {"job": {}, "clusterQueue": "research"}
    assert not Workload.from_object({**first, "kind": "KaiwoJob"}).error
    assert [workload["spec"] for workload in workloads_for(job(), BACKEND, "")][-1] == {"job": {}}


def test_what_is_too_large_is_not_copied() -> None:
    """Neither many bytes nor many values; an object that could not be read has no copy either."""
    large = job()
    container = large["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "V", "value": "x" * (MAX_REFERENCE_BYTES + 1)}]
    assert reference(large, BACKEND.adoption) is None
    container["env"] = [{"name": "V", "value": ""}] * 10_000
    assert reference(large, BACKEND.adoption) is None
    container["env"] = [{"name": "V", "value": "x" * 1000}] * 100
    copy = reference(large, BACKEND.adoption)
    assert copy is not None
    assert len(msgspec.json.encode(copy)) <= MAX_REFERENCE_BYTES
    assert all(
        not each["spec"]["job"] for each in workloads_for(job(), BACKEND, "", omitted="spec is too deep")
    )


def test_the_owner_is_added_to_those_there_are() -> None:
    """A merge patch replaces a list, so it has all of them."""
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c-uid"}
    workload = {"kind": "KaiwoJob", "metadata": {"name": "train", "uid": "kaiwo-uid"}}
    first, second = owner_patch(job(ownerReferences=[other]), workload)["metadata"]["ownerReferences"]
    assert first == other
    assert (second["uid"], second["controller"], second["blockOwnerDeletion"]) == ("kaiwo-uid", True, True)


def test_the_gpus_are_those_of_the_pod_template() -> None:
    """Vendor, key and number of one pod, and how many pods run at once."""
    assert BACKEND.adoption is not None
    expected = Allocation(vendor="amd", resource_key="amd.com/gpu", gpus_per_replica=2, pods=3)
    assert allocation_of(job(), BACKEND.adoption, PLUGINS.vendors) == expected
    assert allocation_of({}, BACKEND.adoption, PLUGINS.vendors) == Allocation()
