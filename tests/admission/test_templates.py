"""Embedded pod templates where no admission policy judges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.admission.names import VALIDATE_TEMPLATES
from kaiwo.testing import job, service

if TYPE_CHECKING:
    from conftest import Webhooks

POD = {"containers": [{"name": "a"}]}
PRIVILEGED = [
    {"hostNetwork": True},
    {"hostPID": True},
    {"hostIPC": True},
    {"nodeName": "node-1"},
    {"serviceAccountName": "admin"},
    {"serviceAccount": "admin"},
    {"priorityClassName": "system-node-critical"},
    {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]},
    {"containers": [{"name": "a", "securityContext": {"privileged": True}}]},
    {"initContainers": [{"name": "a", "securityContext": {"privileged": True}}]},
]


def embedded(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """A workload for each place of a pod template."""
    template = {"spec": POD | pod}
    ray = {"headGroupSpec": {"template": template}}
    workers = {"workerGroupSpecs": [{"template": template}]}
    return [
        job(job={"spec": {"template": template}}),
        job(rayJob={"spec": {"rayClusterSpec": ray}}),
        job(rayJob={"spec": {"rayClusterSpec": workers}}),
        job(rayJob={"spec": {"submitterPodTemplate": template}}),
        service(deployment={"spec": {"template": template}}),
        service(rayService={"spec": {"rayClusterConfig": ray}}),
    ]


@pytest.mark.parametrize("pod", PRIVILEGED, ids=lambda pod: next(iter(pod)))
def test_no_template_gains_a_privilege(webhooks: Webhooks, pod: dict[str, Any]) -> None:
    """The operator creates pods with its own rights, so it creates none that their author could not."""
    for obj in embedded(pod):
        response = webhooks.ask(VALIDATE_TEMPLATES, obj)
        assert not response["allowed"], obj
        assert response["status"]["reason"] == "Forbidden"
        assert "kaiwo.silogen.ai/allow-privileged=true" in response["status"]["message"]


def test_an_ordinary_template_and_one_that_did_not_change_pass(webhooks: Webhooks) -> None:
    """Who changes labels only is not judged by what an administrator wrote."""
    for obj in embedded({}):
        assert webhooks.ask(VALIDATE_TEMPLATES, obj)["allowed"]
    old = job(job={"spec": {"template": {"spec": {"hostPID": True}}}})
    assert webhooks.ask(VALIDATE_TEMPLATES, old | {"metadata": {"name": "train"}}, old)["allowed"]
    assert not webhooks.ask(VALIDATE_TEMPLATES, old, job())["allowed"]


def test_a_system_priority_class_of_the_workload_is_refused(webhooks: Webhooks) -> None:
    """It would go to every pod."""
    response = webhooks.ask(VALIDATE_TEMPLATES, job(priorityClass="system-cluster-critical"))
    assert response["status"]["message"].startswith("spec.priorityClass: must not start with 'system-'")


def test_one_is_not_false(webhooks: Webhooks) -> None:
    """A value that equals what was there, and is of another type, is judged."""
    before = job(job={"spec": {"template": {"spec": {"hostPID": 1}}}})
    after = job(job={"spec": {"template": {"spec": {"hostPID": True}}}})
    assert not webhooks.ask(VALIDATE_TEMPLATES, after, before)["allowed"]
