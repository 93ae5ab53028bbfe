"""What the policies for the operator's writes judge follows from the rules of all loaded plugins."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from kaiwo.install.object_policy import LABEL_POLICY, OBJECT_POLICY, object_policies
from kaiwo.install.roles import operator_roles
from kaiwo.plugin.loader import load
from kaiwo.plugin.rbac import PolicyRule
from kaiwo.plugin.selection import PluginSelection

JOBS = ("batch", "jobs")
OWN = PolicyRule(("batch",), ("jobs",), ("get", "create", "patch", "delete"), "runs", own_objects=True)
ANY = PolicyRule(("batch",), ("jobs",), ("get", "delete"), "idle ones are ended")
LABELS = PolicyRule(("",), ("namespaces",), ("patch",), "are labelled", labels=("managed",))


def judged(*rules: PolicyRule, policy: str = OBJECT_POLICY) -> dict[tuple[str, str], list[str]]:
    """The operations that a policy judges, by group and resource; nothing where it is not rendered."""
    return {
        (group, resource): rule["operations"]
        for manifest in object_policies(rules, "ops")
        if manifest.obj["kind"] == "ValidatingAdmissionPolicy"
        and manifest.obj["metadata"]["name"] == f"{policy}.ops"
        for rule in manifest.obj["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_a_right_to_objects_of_workloads_is_limited_to_these() -> None:
    """Nothing else of the kind is created, changed or deleted."""
    assert judged(OWN) == {JOBS: ["CREATE", "UPDATE", "DELETE"]}


def test_a_right_to_all_objects_of_a_kind_is_not_limited_by_another_plugin() -> None:
    """What one plugin may delete does not depend on which others are loaded, nor on their order."""
    for rules in permutations((OWN, ANY)):
        assert judged(*rules) == {JOBS: ["CREATE", "UPDATE"]}
    assert judged(OWN, replace(ANY, verbs=("create", "update", "delete"))) == {}


def test_a_right_to_more_than_labels_is_not_limited_to_labels() -> None:
    """The plugin that changes more of the kind has said so, and its administrator has read it."""
    assert judged(LABELS, policy=LABEL_POLICY) == {("", "namespaces"): ["UPDATE"]}
    assert judged(LABELS, replace(LABELS, labels=()), policy=LABEL_POLICY) == {}


@pytest.mark.parametrize("kind", [JOBS, ("apps", "deployments"), ("ray.io", "rayjobs")])
def test_idle_workloads_of_users_can_be_deleted_beside_every_backend(kind: tuple[str, str]) -> None:
    """The role of gpu_preemption permits it; the policy for the objects of backends refused it."""
    names = ("batch_job", "deployment", "ray_job", "gpu_preemption")
    rendered = operator_roles(load(PluginSelection(names=names)), "ops")
    (policy,) = [
        manifest.obj
        for manifest in rendered
        if manifest.obj["kind"] == "ValidatingAdmissionPolicy"
        and manifest.obj["metadata"]["name"] == f"{OBJECT_POLICY}.ops"
    ]
    (rule,) = [
        rule
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        if (*rule["apiGroups"], *rule["resources"]) == kind
    ]
    assert rule["operations"] == ["CREATE", "UPDATE"]
