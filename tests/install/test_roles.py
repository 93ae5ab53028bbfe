"""The operator's roles hold what the host and the loaded plugins need, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.resource import JOB
from kaiwo.install.operator import operator_plugins
from kaiwo.install.roles import declared, merged, operator_roles
from kaiwo.install.scheduler import configuration, gpu_keys, version_problem
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.commands import Command
from kaiwo.plugin.controllers import ExtraController
from kaiwo.plugin.rbac import PolicyRule
from kaiwo.plugin.registry import LoadedPlugin, Plugins
from kaiwo.plugin.vendors import GpuVendor

if TYPE_CHECKING:
    from kaiwo.install.rendered_manifest import RenderedManifest

WORDS = st.sampled_from(["a", "b", "c"])
RULES = st.builds(
    PolicyRule,
    st.lists(WORDS, min_size=1, max_size=2).map(tuple),
    st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    st.lists(st.sampled_from(["get", "list", "watch", "create", "approve"]), min_size=1).map(tuple),
    WORDS,
)
NEEDS = st.lists(st.tuples(RULES, st.sampled_from(["host", "p", "q"])), max_size=6)

PLAIN = Backend(
    name="acme",
    kind="KaiwoJob",
    child=JOB,
    fields=(),
    rules=(PolicyRule(("acme.com",), ("runs",), ("get",), "runs"),),
)
BUILT = replace(PLAIN, implementation=lambda _: pytest.fail("not called"))


def plugin(name: str, **declarations: object) -> LoadedPlugin:
    """A loaded plugin with some declarations."""
    return LoadedPlugin(name, f"kaiwo-{name}", "1", f"kaiwo_{name}.plugin", **declarations)  # type: ignore[arg-type]  # the test's own


def asked(rules: list[tuple[PolicyRule, str]]) -> set[tuple[str, str, str]]:
    """Group, resource and verb of all requested rights."""
    return {(g, r, v) for rule, _ in rules for g in rule.groups for r in rule.resources for v in rule.verbs}


@given(NEEDS)
def test_merging_adds_and_loses_no_right(needs: list[tuple[PolicyRule, str]]) -> None:
    """A role grants exactly what was requested: a verb for one resource never reaches another one."""
    rules, whys = merged(needs)
    granted = [
        (g, r, v)
        for rule in rules
        for g in rule["apiGroups"]
        for r in rule["resources"]
        for v in rule["verbs"]
    ]
    assert set(granted) == asked(needs)
    assert len(granted) == len(set(granted)), "each right is written once"
    assert len(whys) == len(rules)
    assert all(whys)


@given(NEEDS.filter(lambda needs: len(needs) < 5))
def test_the_order_of_plugins_does_not_change_a_role(needs: list[tuple[PolicyRule, str]]) -> None:
    """The same plugins give the same bytes, so an apply that changes nothing shows no difference."""
    results = [merged(order) for order in permutations(needs)]
    assert all(result == results[0] for result in results)


def test_every_asker_is_named_beside_a_shared_right() -> None:
    """An administrator sees which plugin a right is for, also where several need it."""
    rule = PolicyRule(("",), ("services",), ("get",), "reach it")
    rules, whys = merged([(rule, "one"), (replace(rule, verbs=("create",), why="make it"), "two")])
    assert rules == [{"apiGroups": [""], "resources": ["services"], "verbs": ["get", "create"]}]
    assert whys == (("one: reach it", "two: make it"),)


def test_a_back_end_that_is_only_declared_gets_no_rights() -> None:
    """It cannot run anything yet, so its rights would be for nobody."""
    assert list(declared(Plugins((plugin("acme", backends=(PLAIN,)),)), namespaced=True)) == []
    loaded = Plugins((plugin("acme", backends=(BUILT,)),))
    assert list(declared(loaded, namespaced=True)) == [(PLAIN.rules[0], "acme")]
    assert list(declared(loaded, namespaced=False)) == []


def test_for_chosen_namespaces_the_rights_to_namespaced_kinds_are_in_a_role_in_each() -> None:
    """Both roles together hold what the ClusterRole holds otherwise, each right once."""
    queues = PolicyRule(("acme.com",), ("localqueues",), ("get",), "queues", namespaced=True)
    extra = ExtraController(
        "queues", "acme:build", rules=(queues, replace(queues, resources=("flavors",), namespaced=False))
    )
    loaded = Plugins((plugin("acme", backends=(BUILT,), controllers=(extra,)),))
    everywhere = _rights(operator_roles(loaded, "ops"), "ClusterRole", "kaiwo-operator.ops")
    limited = operator_roles(loaded, "ops", ("team-a", "team-b"))
    cluster = _rights(limited, "ClusterRole", "kaiwo-operator.ops")
    of_teams = [m for m in limited if m.obj["metadata"]["name"] == "kaiwo-operator-workloads.ops"]
    assert [(m.obj["kind"], m.obj["metadata"]["namespace"]) for m in of_teams] == [
        ("Role", "team-a"), ("RoleBinding", "team-a"), ("Role", "team-b"), ("RoleBinding", "team-b"),
    ]  # fmt: skip
    team, same = (_rights(of_teams[at : at + 1], "Role", "kaiwo-operator-workloads.ops") for at in (0, 2))
    assert team == same
    assert cluster | team == everywhere
    assert not cluster & team
    assert {("acme.com", "runs", "get"), ("acme.com", "localqueues", "get")} <= team
    assert ("acme.com", "flavors", "get") in cluster


def _rights(manifests: list[RenderedManifest], kind: str, name: str) -> set[tuple[str, str, str]]:
    """Group, resource and verb of all that a role grants."""
    (role,) = [m.obj for m in manifests if m.obj["kind"] == kind and m.obj["metadata"]["name"] == name]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_without_plugins_only_the_host_has_rights() -> None:
    """A role that is rendered for no plugin names nobody but the host."""
    (role,) = [m for m in operator_roles(Plugins(), "ops") if m.obj["kind"] == "ClusterRole"]
    assert {why.split(":")[0] for whys in role.whys for why in whys} == {"host"}


def test_plugins_of_commands_only_are_not_for_the_operator() -> None:
    """An administrator's own tools need not be in the operator's image."""
    command = Command(name="tool", load="x:y", help="A tool.")
    loaded = Plugins((plugin("acme", backends=(BUILT,)), plugin("tool", commands=(command,))))
    assert operator_plugins(loaded) == ["acme"]


def test_a_plugin_of_a_distribution_of_another_name_is_listed_with_it() -> None:
    """The operator loads what was chosen here, whoever else claims the name in its image."""
    loaded = Plugins(
        (
            plugin("acme", backends=(BUILT,)),
            LoadedPlugin("batch_job", "a-fork", "1", "fork", backends=(BUILT,)),
        )
    )
    assert operator_plugins(loaded) == ["acme", "batch_job@a-fork"]


@pytest.mark.parametrize(
    ("image", "server", "fits"),
    [
        ("registry.k8s.io/kube-scheduler:v1.36.3", "v1.36.0", True),
        ("registry.k8s.io/kube-scheduler:v1.35.2@sha256:0a", "v1.36.3+k3s1", True),
        ("registry.example:5000/kube-scheduler:1.34.0", "v1.36.3", False),
        ("registry.k8s.io/kube-scheduler:v1.36.3", "v1.35.9-eks-1", False),
        ("registry.example:5000/scheduler", "v1.35.9", True),
        ("registry.example/scheduler:stable", "v1.35.9", True),
    ],
)
def test_a_scheduler_of_another_version_than_the_cluster_takes_is_reported(
    image: str, server: str, fits: bool
) -> None:
    """One minor version older works, newer does not; an image without a version is the administrator's."""
    problem = version_problem(image, server)
    assert bool(problem) is not fits
    assert fits or (image in problem and server in problem)


def test_the_scheduler_packs_the_keys_of_loaded_vendors_only() -> None:
    """Families of keys are left out, and without a vendor the profile still serves its name."""
    vendor = GpuVendor("acme", ("acme.com/gpu", "acme.com/part-*"), lambda _: ())
    assert gpu_keys((vendor,)) == ["acme.com/gpu"]
    (profile,) = configuration(["acme.com/gpu"], "ops")["profiles"]
    strategy = profile["pluginConfig"][0]["args"]["scoringStrategy"]
    assert strategy["type"] == "RequestedToCapacityRatio"
    assert strategy["resources"] == [{"name": "acme.com/gpu", "weight": 5}]
    assert strategy["requestedToCapacityRatio"]["shape"] == [
        {"utilization": 0, "score": 0},
        {"utilization": 100, "score": 10},
    ]
    assert configuration([], "ops")["profiles"] == [{"schedulerName": "kaiwo-scheduler"}]
