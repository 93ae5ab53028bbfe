"""Jobs at admission: which are labelled, queued and suspended, and which changes are refused."""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaiwo_batch_job.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_gpu_nvidia.plugin
import kaiwo_kueue.plugin
from kaiwo.admission.answer import FORBIDDEN
from kaiwo.admission.jobs import JobRules, job_reviewers
from kaiwo.admission.names import MUTATE_JOBS, VALIDATE_JOBS
from kaiwo.admission.request import Request
from kaiwo.admission.review import review
from kaiwo.testing import plugins
from kaiwo.testing.admission import admission_review, answered
from kaiwo.workload.labels import MANAGED, REQUESTED_BY
from kaiwo.workload.model import Registry
from kaiwo_kueue.settings import KueueSettings

QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"
OPERATOR = "system:serviceaccount:kaiwo-system:kaiwo-operator"
QUEUED = Registry.of(
    plugins(kaiwo_batch_job.plugin, kaiwo_gpu_amd.plugin, kaiwo_gpu_nvidia.plugin, kaiwo_kueue.plugin)
)
RULES = JobRules(
    registry=QUEUED,
    enforcing=True,
    default_queue=lambda: "kaiwo",
    excluded=("kube-system", "kaiwo-system"),
    operator=OPERATOR,
)
LENIENT = replace(RULES, enforcing=False)
WITHOUT_QUEUES = replace(RULES, registry=replace(QUEUED, queue=None))
GPU = {"limits": {"amd.com/gpu": "1"}}


def job(
    resources: Any = None, *, init: Any = None, labels: Any = None, annotations: Any = None, **metadata: Any
) -> Any:
    """A Job; ``resources`` are those of its container, ``init`` those of an init container."""
    pod: Any = {
        "containers": [{"name": "main", "image": "i", **({"resources": resources} if resources else {})}]
    }
    if init is not None:
        pod["initContainers"] = [{"name": "first", "image": "i", "resources": init}]
    head = {"namespace": "team", **({} if "generateName" in metadata else {"name": "train"}), **metadata}
    head |= {"labels": labels} if labels is not None else {}
    head |= {"annotations": annotations} if annotations is not None else {}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": head, "spec": {"template": {"spec": pod}}}


def patched(obj: Any, patch: Any) -> Any:
    """An object after RFC 6902 operations."""
    result = copy.deepcopy(obj)
    for operation in patch:
        *path, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        place = result
        for part in path:
            place = place[part]
        if operation["op"] == "remove":
            del place[last]
        else:
            place[last] = operation["value"]
    return result


def asked(path: str, obj: Any, rules: JobRules, **request: Any) -> Any:
    """The answer to a review."""
    return answered(review(admission_review(obj, **request), job_reviewers(rules), path))


def created(obj: Any, rules: JobRules = RULES, **request: Any) -> Any:
    """The Job as the API server creates it."""
    before = copy.deepcopy(obj)
    response = asked(MUTATE_JOBS, obj, rules, **{"user": "jane", **request})
    assert response["allowed"]
    assert obj == before
    return patched(obj, response.get("patch", []))


def labels(obj: Any) -> Any:
    """Labels of an object."""
    return obj["metadata"].get("labels") or {}


@pytest.mark.parametrize(
    "obj",
    [
        job(GPU),
        job({"requests": {"amd.com/gpu": 1}}),
        job({"limits": {"nvidia.com/gpu": "2"}}),
        job({"limits": {"nvidia.com/mig-1g.5gb": "1"}}),
        job(init=GPU),
        job(GPU, labels={"team": "a"}, annotations={"note": "b"}),
        job(GPU, generateName="train-"),
    ],
)
def test_in_enforcing_mode_every_gpu_job_is_labelled_queued_and_suspended(obj: Any) -> None:
    """Any vendor's key, in requests or limits, in containers or init containers."""
    found = created(obj)
    assert labels(found)[MANAGED] == "true"
    assert labels(found)[QUEUE] == "kaiwo"
    assert found["spec"]["suspend"] is True
    assert found["metadata"]["annotations"][REQUESTED_BY] == "jane"
    assert labels(obj).items() <= labels(found).items()


OWNED = [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "n", "uid": "u", "controller": True}]


@pytest.mark.parametrize(
    ("obj", "request_", "rules"),
    [
        pytest.param(job(), {}, RULES, id="no GPUs"),
        pytest.param(job({"limits": {"cpu": "1"}}), {}, RULES, id="CPU"),
        pytest.param(job({"limits": {"amd.com/gpu": "0"}}), {}, RULES, id="zero GPUs"),
        pytest.param(job({"limits": {"example.com/gpu": "1"}}), {}, RULES, id="no loaded vendor's"),
        pytest.param(job(GPU), {}, LENIENT, id="not enforcing"),
        pytest.param(job(GPU, labels={MANAGED: "false"}), {}, LENIENT, id="another value"),
        pytest.param(job(GPU, ownerReferences=OWNED), {}, RULES, id="a CronJob's"),
        pytest.param(
            job(GPU, labels={MANAGED: "true"}, ownerReferences=OWNED), {}, RULES, id="labelled, a CronJob's"
        ),
        pytest.param(job(GPU), {"user": OPERATOR}, RULES, id="the operator's"),
        pytest.param(job(GPU, namespace="kube-system"), {}, RULES, id="kube-system"),
        pytest.param(job(GPU, namespace="kaiwo-system"), {}, RULES, id="the operator's namespace"),
        pytest.param(job(GPU) | {"kind": "Pod", "apiVersion": "v1"}, {}, RULES, id="another kind"),
    ],
)
def test_these_jobs_stay_as_they_are(obj: Any, request_: Any, rules: JobRules) -> None:
    """No operation at all."""
    response = asked(MUTATE_JOBS, obj, rules, **request_)
    assert response["allowed"]
    assert not response.get("patch")


def test_a_label_by_hand_is_enough_and_a_queue_of_the_users_stays() -> None:
    """Without enforcing mode too; the Job need not request GPUs."""
    found = created(job(labels={MANAGED: "true"}), LENIENT)
    assert (labels(found)[QUEUE], found["spec"]["suspend"]) == ("kaiwo", True)
    chosen = created(job(labels={MANAGED: "true", QUEUE: "research"}), LENIENT)
    assert (labels(chosen)[QUEUE], chosen["spec"]["suspend"]) == ("research", True)


def test_without_a_queue_system_nothing_is_queued_or_suspended() -> None:
    """The Job is labelled and starts at once."""
    found = created(job(GPU), WITHOUT_QUEUES)
    assert labels(found) == {MANAGED: "true"}
    assert "suspend" not in found["spec"]


def test_without_the_vendor_or_the_backend_a_gpu_job_is_none() -> None:
    """What no loaded plugin declares is not known."""
    without_vendor = replace(RULES, registry=replace(QUEUED, vendors=()))
    without_backend = replace(RULES, registry=replace(QUEUED, backends=()))
    for rules in (without_vendor, without_backend):
        assert created(job(GPU), rules) == job(GPU)


def test_the_requesting_user_cannot_be_forged() -> None:
    """Overwritten at creation, also on an unlabelled Job; kept and restored on updates."""
    forged = job(labels={MANAGED: "true"}, annotations={REQUESTED_BY: "boss"})
    assert created(forged)["metadata"]["annotations"] == {REQUESTED_BY: "jane"}
    unlabelled = job(annotations={REQUESTED_BY: "boss"})
    assert created(unlabelled)["metadata"]["annotations"] == {REQUESTED_BY: "jane"}
    old = job(labels={MANAGED: "true"}, annotations={REQUESTED_BY: "jane"})
    for changed in (job(annotations={REQUESTED_BY: "boss"}), job(annotations={}), job()):
        assert created(changed, old=old, user="joe")["metadata"]["annotations"] == {REQUESTED_BY: "jane"}
    added = created(job(annotations={REQUESTED_BY: "boss"}), old=job(), user="joe")
    assert REQUESTED_BY not in added["metadata"]["annotations"]


def test_who_labels_a_job_later_has_requested_it() -> None:
    """The Job runs already, so that it is neither queued nor suspended."""
    found = created(job(GPU, labels={MANAGED: "true"}), old=job(GPU), user="joe")
    assert found["metadata"]["annotations"] == {REQUESTED_BY: "joe"}
    assert QUEUE not in labels(found)
    assert "suspend" not in found["spec"]


def test_a_dry_run_gets_the_same_answer() -> None:
    """The rehearsal shows what would happen."""
    assert created(job(GPU), dry_run=True) == created(job(GPU))


def test_a_second_review_of_the_result_changes_nothing() -> None:
    """The API server may call a webhook again after another one changed the object."""
    found = created(job(GPU))
    assert created(found) == found


def test_a_job_whose_gpus_cannot_be_read_is_refused_in_enforcing_mode_only() -> None:
    """Nesting something deeply is no way past the label."""
    obj = job(GPU)
    obj["spec"]["template"]["spec"]["x"] = msgspec.Raw(b'{"a":' * 200 + b"{}" + b"}" * 200)
    assert not asked(MUTATE_JOBS, obj, RULES)["allowed"]
    assert asked(MUTATE_JOBS, obj, LENIENT)["allowed"]


def test_a_job_of_nearly_3_mb_is_answered_quickly() -> None:
    """One CPU second would be a hundred times too long."""
    obj = job(GPU)
    pod = obj["spec"]["template"]["spec"]
    pod["containers"][0]["env"] = [{"name": f"V{n}", "value": "x" * 2_000} for n in range(1_400)]
    body = admission_review(obj)
    assert 2_800_000 < len(body) < 3 << 20
    reviewers = job_reviewers(RULES)
    started = time.process_time()
    response = answered(review(body, reviewers, MUTATE_JOBS))
    assert time.process_time() - started < 0.5
    assert labels(patched(obj, response["patch"]))[MANAGED] == "true"


MANAGED_JOB = job(GPU, labels={MANAGED: "true"})
KAIWO = [{"apiVersion": "kaiwo.silogen.ai/v1alpha1", "kind": "KaiwoJob", "name": "train", "controller": True}]
ADOPTED_JOB = job(GPU, labels={MANAGED: "true"}, ownerReferences=KAIWO)
TWO = {"limits": {"amd.com/gpu": "2"}}


def changed(old: Any, new: Any, rules: JobRules = RULES, user: str = "jane") -> Any:
    """The answer to an update."""
    return asked(VALIDATE_JOBS, new, rules, old=old, user=user)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (MANAGED_JOB, job(TWO, labels={MANAGED: "true"}), "containers[main]"),
        (MANAGED_JOB, job(labels={MANAGED: "true"}), "containers[main]"),
        (MANAGED_JOB, job({"limits": {"nvidia.com/gpu": "1"}}, labels={MANAGED: "true"}), "containers[main]"),
        (MANAGED_JOB, job(GPU, init=GPU, labels={MANAGED: "true"}), "initContainers[first]"),
        (MANAGED_JOB, job(TWO), "containers[main]"),
        (ADOPTED_JOB, job(TWO, ownerReferences=KAIWO), "containers[main]"),
    ],
)
def test_gpu_requests_of_a_managed_job_cannot_change(old: Any, new: Any, field: str) -> None:
    """The refusal names the field, why, and what to do; to take the label away as well is no way out."""
    response = changed(old, new)
    assert not response["allowed"]
    assert response["status"]["code"] == FORBIDDEN
    message = response["status"]["message"]
    assert message.startswith(
        f"spec.template.spec.{field}.resources: GPU requests of Job train cannot change"
    )
    assert message.endswith("Delete it and create it again")


@pytest.mark.parametrize(
    ("old", "new", "user"),
    [
        pytest.param(MANAGED_JOB, job(TWO, labels={MANAGED: "true"}), KUEUE, id="Kueue"),
        pytest.param(MANAGED_JOB, job(TWO, labels={MANAGED: "true"}), OPERATOR, id="the operator"),
        pytest.param(job(GPU), job(TWO), "jane", id="not managed"),
        pytest.param(
            MANAGED_JOB,
            job({"limits": {"amd.com/gpu": "1", "cpu": "4"}}, labels={MANAGED: "true"}),
            "jane",
            id="CPU",
        ),
        pytest.param(
            job(GPU, namespace="kube-system", labels={MANAGED: "true"}),
            job(TWO, namespace="kube-system", labels={MANAGED: "true"}),
            "jane",
            id="kube-system",
        ),
        pytest.param(
            job(GPU, labels={MANAGED: "true"}, ownerReferences=OWNED),
            job(TWO, labels={MANAGED: "true"}, ownerReferences=OWNED),
            "jane",
            id="a CronJob's",
        ),
    ],
)
def test_these_changes_are_allowed(old: Any, new: Any, user: str) -> None:
    """Kueue, the operator, other fields, and Jobs that nobody adopts."""
    assert changed(old, new, user=user) == {"uid": changed(old, new, user=user)["uid"], "allowed": True}


def test_the_account_of_kueue_is_a_setting() -> None:
    """Another name is allowed then, the usual one is not; without Kueue nobody may."""
    more = job(TWO, labels={MANAGED: "true"})
    elsewhere = replace(RULES, settings=lambda: {"kueue": KueueSettings(controller_account="admin")})
    assert changed(MANAGED_JOB, more, elsewhere, user="admin")["allowed"]
    assert not changed(MANAGED_JOB, more, elsewhere, user=KUEUE)["allowed"]
    assert not changed(MANAGED_JOB, more, WITHOUT_QUEUES, user=KUEUE)["allowed"]


def test_taking_the_label_away_is_refused_for_gpu_jobs_in_enforcing_mode() -> None:
    """Elsewhere it is allowed; of an adopted Job a warning says that it stays adopted."""
    refused = changed(MANAGED_JOB, job(GPU))
    assert not refused["allowed"]
    assert "cannot be removed from Job train" in refused["status"]["message"]
    assert changed(MANAGED_JOB, job(GPU), LENIENT)["allowed"]
    kept = changed(ADOPTED_JOB, job(GPU, ownerReferences=KAIWO), LENIENT)
    assert kept["allowed"]
    assert "Job train stays with its KaiwoJob" in kept["warnings"][0]


KEYS = (
    *("metadata", "spec", "labels", "annotations", "template", "containers", "resources", "limits"),
    *("ownerReferences", "controller", "suspend", MANAGED, REQUESTED_BY, "amd.com/gpu"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@given(new=st.dictionaries(st.sampled_from(KEYS), JSON), old=st.dictionaries(st.sampled_from(KEYS), JSON))
def test_any_object_gets_an_answer_whose_patch_fits(new: Any, old: Any) -> None:
    """No odd Job makes a reviewer fail, and each operation of a patch has its place."""
    for reviewer in job_reviewers(RULES).values():
        for operation, before in (("CREATE", None), ("UPDATE", old)):
            request = Request("uid", "batch", "v1", "Job", operation, object=new, old_object=before)
            answer = reviewer(request)
            if isinstance(new.get("metadata"), dict):
                patched(new, answer.patch)
