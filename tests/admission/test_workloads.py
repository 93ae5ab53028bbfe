"""Validation of KaiwoJobs and KaiwoServices when they are written."""

from __future__ import annotations

import copy
import dataclasses
import time
from typing import TYPE_CHECKING, Any

import pytest

import kaiwo_batch_job.plugin
import kaiwo_gpu_amd.plugin
from kaiwo.admission.names import VALIDATE_WORKLOADS
from kaiwo.admission.review import review
from kaiwo.api.validate import Validator
from kaiwo.host.plugin_timeout import TimeLimit
from kaiwo.plugin.absent_plugins import AbsentPlugin
from kaiwo.plugin.backend_base import BackendBase
from kaiwo.testing import job, plugins, service
from kaiwo.testing.admission import admission_review, answered

if TYPE_CHECKING:
    from conftest import Webhooks
    from kaiwo.engine.resource import Object

JOB = job(image="image:1", entrypoint="python train.py", gpus=4)
DOWNLOAD = {
    "storageEnabled": True,
    "data": {"download": {"git": [{"repository": "https://a/b", "targetPath": "x"}]}},
}


def changed(obj: Object, **spec: Any) -> Object:
    """The object with other fields of the spec; None removes one."""
    other = copy.deepcopy(obj)
    other["spec"] = {key: value for key, value in {**other["spec"], **spec}.items() if value is not None}
    return other


def running(obj: Object, status: str = "RUNNING", **more: Any) -> Object:
    """The object with the status of a workload whose child exists."""
    recorded = {"status": status, "childUID": "c", "allocation": {"backend": "batch_job"}} | more
    return {**obj, "status": recorded}


def refusal(webhooks: Webhooks, obj: Object, old: Object | None = None) -> str:
    """Why an object is refused; empty when it is not."""
    response = webhooks.ask(VALIDATE_WORKLOADS, obj, old)
    assert response["allowed"] is ("status" not in response)
    return str(response.get("status", {}).get("message", ""))


def warnings(webhooks: Webhooks, obj: Object, old: Object | None = None) -> list[str]:
    """The warnings about an object that is allowed."""
    response = webhooks.ask(VALIDATE_WORKLOADS, obj, old)
    assert response["allowed"], response
    found: list[str] = response.get("warnings", [])
    return found


def test_an_ordinary_job_passes_without_a_word(webhooks: Webhooks) -> None:
    """What can run is neither refused nor commented."""
    assert warnings(webhooks, JOB) == []


def test_a_name_that_is_generated_is_judged_with_what_is_added(webhooks: Webhooks) -> None:
    """The API server adds five characters, and cuts what is in front of them."""

    def named(base: str, **spec: Any) -> Object:
        return job(image="i", **spec) | {"metadata": {"generateName": base, "namespace": "team"}}

    assert warnings(webhooks, named("train-")) == []
    assert "may have at most 47 characters" in refusal(webhooks, named("x" * 43, ray=True, entrypoint="a.py"))


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (job(gpus="two"), 'spec.gpus: expected a whole number, got the string "two"'),
        (job(image="Image One"), "is not an image reference"),
        (job(preferredTopologyLabel="a", requiredTopologyLabel="b"), "spec.requiredTopologyLabel"),
        (job(storage=DOWNLOAD), "spec.storage.data.storageSize"),
        (job(resources={"limits": {"cpu": "much"}}), "spec.resources.limits.cpu"),
        (job("x" * 64), "may have at most 63 characters"),
        (job("x" * 48, ray=True), "may have at most 47 characters"),
        (job(job={"spec": {"template": []}}), "spec.job.spec.template"),
        (job(job={"spec": [[]] * 20_001}), "20000 values"),
        (service(gpus=5, replicas=2), "over 2 replicas; the nearest that can: 4 or 6"),
    ],
)  # fmt: skip
def test_what_no_operator_could_use_is_refused(webhooks: Webhooks, obj: Object, message: str) -> None:
    """The field, the value and the way out, at the moment of the write instead of later in the status."""
    assert message in refusal(webhooks, obj)


def test_the_message_is_that_of_the_command_line(webhooks: Webhooks) -> None:
    """Both call the same functions: every problem, with its hint, in the same words."""
    obj = job(gpus=-1, image="a b", env=[{"name": "1x"}], storage={"storageEnabled": "yes"})
    validation = Validator(webhooks.plugins.fields(), webhooks.plugins.settings_models()).validate(obj)
    assert len(validation.problems) >= 3
    assert refusal(webhooks, obj) == "; ".join(map(str, validation.problems))


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (job(image="i", rayJob=None, storage={"data": {"storageSize": "1Gi"}}), "spec.storage.data"),
        (service(image="i", gpus=4, replicas=2, gpusPerReplica=1), "4 becomes 2: replicas times"),
        (job(image="i", env=[{"name": "A", "value": "1"}] * 2), '"A" is given 2 times'),
        (job(image="i", gpus=1, gpuVendor="acme"), "would not run: VendorNotLoaded"),
        (job(image="i", gpus=1, gpuModels=["h100"]), "spec.gpuModels: no node has the label"),
        (job(image="i", gpus=1, resources={"limits": {"amd.com/gpu": 2}}), "amd.com/gpu"),
        (job(image="i", ray=True, rayJob={"spec": {}}, job={"spec": {}}), "spec.job is ignored"),
        (job(image="i", job={"spec": {"backoffLimit": 3}}), "backoffLimit"),
    ],
)  # fmt: skip
def test_what_is_ignored_or_can_heal_is_a_warning(webhooks: Webhooks, obj: Object, message: str) -> None:
    """The write goes through, and its author learns what will surprise."""
    found = warnings(webhooks, obj)
    assert any(message in warning for warning in found), found


def test_each_warning_is_given_once(webhooks: Webhooks) -> None:
    """Validation and rendering find the same thing; it is said once."""
    found = warnings(webhooks, service(image="i", gpus=4, replicas=2, gpusPerReplica=1))
    assert len(found) == 1


def test_a_field_of_a_plugin_that_is_not_loaded_is_a_warning(webhooks: Webhooks) -> None:
    """It is in the CRD, so it was loaded once; the workload waits until it is again."""
    few = plugins(kaiwo_batch_job.plugin, kaiwo_gpu_amd.plugin)
    absent = AbsentPlugin("ray_job", "kaiwo-ray-job", "not-selected", "")
    few = dataclasses.replace(few, absent_fields={("KaiwoJob", "rayJob"): absent})
    found = warnings(webhooks.of(few), job(image="i", rayJob={"spec": {}}))
    assert found[0] == (
        "spec.rayJob: unknown field (plugin ray_job of kaiwo-ray-job serves it and is installed, but not "
        "selected; select ray_job)"
    )
    assert found[1].startswith("would not run: BackendNotLoaded: ")


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"name": "train", "namespace": "default", "labels": {"a": "b"}}},
        {"metadata": {"name": "train", "namespace": "default", "finalizers": []}},
        {"status": {"status": "ERROR"}},
    ],
)
def test_what_changes_no_spec_passes_whatever_the_spec(webhooks: Webhooks, change: dict[str, Any]) -> None:
    """An object that became invalid with an upgrade can still be labelled, observed and released."""
    invalid = job(gpus=-1, image="a b")
    assert warnings(webhooks, invalid | change, invalid) == []


def test_what_is_being_deleted_passes(webhooks: Webhooks) -> None:
    """A finalizer can always be taken off, also together with a change of the spec."""
    invalid = job(gpus=-1)
    deleted = invalid | {"metadata": invalid["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert warnings(webhooks, changed(deleted, gpus=-2), invalid) == []
    assert webhooks.ask(VALIDATE_WORKLOADS, None, invalid)["allowed"]


def test_a_subresource_passes(webhooks: Webhooks) -> None:
    """The operator's status and an autoscaler's scale are no specs."""
    assert webhooks.ask(VALIDATE_WORKLOADS, job(gpus=-1), subresource="status")["allowed"]


def test_true_is_another_value_than_one(webhooks: Webhooks) -> None:
    """A value of another type is a change, although Python finds it equal."""
    assert "spec.gpus" in refusal(webhooks, changed(JOB, gpus=True), changed(JOB, gpus=1))


def test_what_was_wrong_before_an_update_is_only_a_warning(webhooks: Webhooks) -> None:
    """Who mends one field is not held up by another one that nobody changed."""
    old = changed(JOB, image="a b", gpus=-1)
    found = warnings(webhooks, changed(old, gpus=1), old)
    assert len(found) == 1
    assert "is not an image reference" in found[0]
    assert refusal(webhooks, changed(old, entrypoint="#!/bin/cobol x"), old).startswith("spec.entrypoint: ")


IMMUTABLE = "immutable while the Job exists; the running Job was not changed. Restore the old value"


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"image": "image:2"}, "spec.image is "),
        ({"gpus": 2}, "spec.gpus is "),
        ({"gpus": 2, "image": "image:2"}, "spec.gpus, spec.image are "),
        ({"ray": True}, "spec.ray is "),
        ({"rayJob": {"spec": {}}}, "spec.rayJob is "),
    ],
)
def test_an_immutable_field_of_a_running_job_is_refused(
    webhooks: Webhooks, spec: dict[str, Any], fields: str
) -> None:
    """In the words of the condition SpecApplied, before anything is written."""
    assert refusal(webhooks, changed(JOB, **spec), running(JOB)).startswith(fields + IMMUTABLE)


def test_what_the_operator_applies_to_a_running_job_passes(webhooks: Webhooks) -> None:
    """The duration, what means the same, and the queue until the admission."""
    old = running(JOB)
    for spec in ({"duration": "1h"}, {"gpuVendor": "AMD"}, {"replicas": 1}, {"clusterQueue": "other"}):
        assert warnings(webhooks, changed(JOB, **spec), old) == [], spec
    amounts = [{"limits": {"ephemeral-storage": amount}} for amount in ("1Gi", "1024Mi")]
    small, same = (changed(JOB, resources=amount) for amount in amounts)
    assert warnings(webhooks, same, running(small)) == []
    admitted = running(JOB, conditions=[{"type": "Admitted", "status": "True"}])
    assert refusal(webhooks, changed(JOB, clusterQueue="other"), admitted).startswith("spec.clusterQueue is ")


def test_a_volume_may_grow_and_not_shrink(webhooks: Webhooks) -> None:
    """The operator expands the claim where the class allows it, and never shrinks one."""

    def sized(size: str) -> Object:
        return changed(JOB, storage={"storageEnabled": True, "data": {"storageSize": size}})

    old = running(sized("10Gi"))
    assert warnings(webhooks, sized("20Gi"), old) == []
    assert refusal(webhooks, sized("5Gi"), old).startswith("spec.storage.data.storageSize is immutable")


def test_a_value_that_was_not_applied_may_be_restored(webhooks: Webhooks) -> None:
    """With SpecApplied False the child has an earlier spec; only the operator knows which."""
    conditions = [{"type": "SpecApplied", "status": "False", "reason": "Immutable"}]
    assert warnings(webhooks, JOB, running(changed(JOB, image="image:2"), conditions=conditions)) == []


def test_before_the_child_exists_everything_may_change(webhooks: Webhooks) -> None:
    """A workload that waits for a download is corrected in place."""
    waiting = JOB | {"status": {"status": "PENDING", "reason": "Downloading"}}
    assert warnings(webhooks, changed(JOB, image="image:2", gpus=1), waiting) == []


def test_a_change_of_what_has_ended_has_no_effect(webhooks: Webhooks) -> None:
    """It is stored, and nothing runs again."""
    found = warnings(webhooks, changed(JOB, image="image:2"), running(JOB, "COMPLETE"))
    assert found == ["status is COMPLETE; it does not run again, submit it under another name"]


def test_a_service_on_a_deployment_changes_in_place(webhooks: Webhooks) -> None:
    """Only what is true of the backend in charge is refused."""
    old = running(service(image="image:1"), "READY", allocation={"backend": "deployment"})
    assert warnings(webhooks, service(image="image:2"), old) == []


def test_what_was_adopted_is_not_compared_with_a_render(webhooks: Webhooks) -> None:
    """Its Job is the user's; only the fields of the KaiwoJob itself are checked."""
    label = {"kaiwo.silogen.ai/adopted-uid": "c"}
    adopted = job(labels=label, job={"spec": {"backoffLimit": 6}})
    assert warnings(webhooks, changed(adopted, image="i"), running(adopted)) == []
    assert "spec.gpus" in refusal(webhooks, job(labels=label, gpus=-1))


def test_what_cannot_be_decoded_is_refused_with_its_place(webhooks: Webhooks) -> None:
    """The operator passes such an object over; its author learns why."""
    message = refusal(webhooks, changed(JOB, job={"spec": {"values": [0] * 200_000}}))
    assert message == "spec.job holds more than 100000 values; make it smaller"


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": 7},
        {"apiVersion": "example.com/v1", "kind": "KaiwoJob", "metadata": {}, "spec": {"gpus": -1}},
    ],
)
def test_a_kind_that_is_not_ours_passes(webhooks: Webhooks, obj: Object) -> None:
    """A configuration edited by hand stops nobody's Deployments."""
    assert warnings(webhooks, obj) == []


def test_a_plugin_that_fails_is_a_warning(webhooks: Webhooks) -> None:
    """The object passes; the operator checks it again and reports the plugin."""

    class Broken:
        block = "job"

        def __getattr__(self, name: str) -> Any:
            raise ZeroDivisionError(name)

    registry = webhooks.registry
    backends = [
        dataclasses.replace(backend, implementation=lambda _: Broken()) for backend in registry.backends
    ]
    broken = webhooks.of(webhooks.plugins, dataclasses.replace(registry, backends=tuple(backends)))
    (warning,) = warnings(broken, JOB)
    assert "PluginError" in warning
    assert "spec.gpus" in refusal(broken, job(gpus=-1))


def test_a_plugin_that_hangs_is_a_warning_within_the_time_limit(webhooks: Webhooks) -> None:
    """Neither its function nor its model holds up the API server; the operator's own limit ends them."""

    class Hanging(BackendBase):
        allocate = render = observe = None  # type: ignore[assignment]  # never called

        def validate(self, workload: object) -> None:
            while workload:
                pass

    registry = webhooks.registry
    backends = [dataclasses.replace(backend, implementation=Hanging) for backend in registry.backends]
    hanging = webhooks.of(webhooks.plugins, dataclasses.replace(registry, backends=tuple(backends)))
    began = time.monotonic()
    with TimeLimit(0.1) as limit:
        limited = limit.wrap("webhooks", "review", review)
        body = admission_review(job(image="i", job={"spec": {}}))
        response = answered(limited(body, hanging.reviewers, VALIDATE_WORKLOADS))
    assert time.monotonic() - began < 5
    assert response["allowed"]
    (warning,) = response["warnings"]
    assert warning.startswith("plugin batch_job failed to check this workload: PluginHung")
    assert warning.endswith("the operator tries it again")


def test_a_failure_outside_of_plugins_lets_the_object_pass(webhooks: Webhooks) -> None:
    """A defect of the webhook stops nobody: what it cannot judge, the operator does."""

    def no_facts() -> Any:
        raise RuntimeError("no cache")

    broken = webhooks.of(webhooks.plugins, facts=no_facts)
    assert warnings(broken, JOB) == ["not validated: RuntimeError: no cache; the operator checks it again"]
