"""What the checks of ``kaiwo doctor`` say about facts, without a cluster."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.client.doctor.addons import (
    AddonGroup,
    WebhookService,
    addon_groups,
    by_place,
    has_bundle,
    judge_addon,
    judge_webhooks,
    ready_endpoints,
    webhooks_of,
)
from kaiwo.client.doctor.api_server import judge_clock, judge_version
from kaiwo.client.doctor.cluster import judge_gpus, judge_namespace, judge_storage, namespace_labels
from kaiwo.client.doctor.installation import (
    judge_config,
    judge_crds,
    judge_deployment,
    judge_leader,
    judge_namespaces,
)
from kaiwo.client.doctor.metrics import judge_metrics, metrics_port
from kaiwo.client.doctor.result import not_allowed
from kaiwo.client.doctor.rights import judge_rights, needed_rights, useful_rights
from kaiwo.client.doctor.versions import judge_versions, shared_with_operator
from kaiwo.engine.errors import Forbidden
from kaiwo.engine.resource import Resource
from kaiwo.plugin.loader import load

NOW = datetime(2026, 1, 31, 9, tzinfo=UTC)


@pytest.fixture(scope="module")
def plugins() -> Any:
    """All installed plugins."""
    return load()


def test_an_old_api_server_is_a_warning() -> None:
    """Admission policies need 1.30; vendors write a plus sign behind the minor version."""
    assert judge_version(
        {"major": "1", "minor": "29+", "gitVersion": "v1.29.1-x"}, "https://a", 0.01
    ).state == ("warning")
    new = judge_version({"major": "1", "minor": "36", "gitVersion": "v1.36.3"}, "https://a", 0.01)
    assert (new.state, new.message) == ("ok", "Kubernetes v1.36.3 at https://a answered in 10 ms")


@pytest.mark.parametrize(
    ("ahead", "state"),
    [(0.0, "ok"), (-5.9, "ok"), (30.0, "warning"), (-30.0, "warning"), (-4000.0, "failed")],
)
def test_a_difference_of_clocks_counts_beyond_the_measuring_error(ahead: float, state: str) -> None:
    """Seconds make ages wrong, minutes make certificates and tokens invalid."""
    check = judge_clock(ahead, 1.0)
    assert check.state == state
    assert bool(check.fix) == (state != "ok")


def test_crds_are_missing_foreign_outdated_or_current(plugins: Any) -> None:
    """A definition of another program is not taken for an old one of Kaiwo's."""
    rendered = plugins.crds()
    assert [check.state for check in judge_crds(rendered, rendered)] == ["ok"]
    missing = judge_crds(rendered[1:], rendered)[0]
    assert missing.state == "failed"
    assert rendered[0]["metadata"]["name"] in missing.message
    foreign = {**rendered[0], "spec": {**rendered[0]["spec"], "names": {"kind": "X", "plural": "xs"}}}
    assert "another program" in judge_crds([foreign, *rendered[1:]], rendered)[0].message
    version = rendered[0]["spec"]["versions"][0]
    old = {**rendered[0], "spec": {**rendered[0]["spec"], "versions": [{**version, "schema": {}}]}}
    outdated = judge_crds([old, *rendered[1:]], rendered)[0]
    assert outdated.state == "warning"
    assert "kaiwo manifests crds" in outdated.fix


def test_crds_of_plugins_that_the_operator_does_not_load_are_not_asked_for(plugins: Any) -> None:
    """Whoever installs all plugins on a laptop is not told that the cluster lacks them."""

    def names(config: Any) -> set[str]:
        return {crd["metadata"]["name"] for crd in shared_with_operator(plugins, config).crds()}

    reported = [
        {"name": "batch_job", "state": "loaded"},
        {"name": "aim", "state": "not-selected"},
        {"name": "only-there", "state": "loaded"},
    ]
    aim = "aimnamespaceconfigs.config.kaiwo.silogen.ai"
    assert names(None) - names({"status": {"plugins": reported}}) >= {aim}
    assert "kaiwojobs.kaiwo.silogen.ai" in names({"status": {"plugins": reported}})
    assert aim in names({"status": {}})


def lease(age: float, **spec: Any) -> Any:
    """A Lease that was renewed so many seconds ago."""
    renewed = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "metadata": {"namespace": "kaiwo-system", "name": "kaiwo-operator"},
        "spec": {"holderIdentity": "pod-1", "leaseDurationSeconds": 10, "renewTime": renewed, **spec},
    }


@pytest.mark.parametrize(
    ("leases", "state"),
    [
        ([], "failed"),
        ([lease(2)], "ok"),
        ([lease(60)], "failed"),
        ([lease(2, holderIdentity="")], "failed"),
        ([lease(-60)], "warning"),
        ([lease(60), lease(1)], "ok"),
    ],
)
def test_a_lease_shows_whether_an_operator_leads(leases: list[Any], state: str) -> None:
    """A holder that stopped renewing is no leader; one of several installations is enough."""
    assert judge_leader(leases, NOW).state == state


@pytest.mark.parametrize(("ready", "state"), [(0, "failed"), (1, "warning"), (2, "ok")])
def test_a_deployment_without_ready_pods_fails(ready: int, state: str) -> None:
    """One of two pods is enough to work."""
    obj = {
        "metadata": {"namespace": "kaiwo-system", "name": "kaiwo-operator"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": "op:1"}]}}},
        "status": {"readyReplicas": ready},
    }
    check = judge_deployment(obj, "kaiwo-operator")
    assert check.state == state
    assert check.message == f"kaiwo-system/kaiwo-operator: {ready} of 2 pods ready, op:1"


def operator_of(installation: str, watched: str) -> Any:
    """The Deployment of an operator."""
    env = [{"name": "KAIWO_WATCH_NAMESPACE", "value": watched}, {"name": "X", "valueFrom": {}}]
    return {
        "metadata": {"namespace": installation, "name": "kaiwo-operator"},
        "spec": {"template": {"spec": {"containers": [{"image": "op:1", "env": env if watched else None}]}}},
    }


@pytest.mark.parametrize(
    ("operators", "whole", "expected"),
    [
        ({"kaiwo-a": ""}, True, ""),
        ({"kaiwo-a": "team,x", "kaiwo-b": "y"}, True, ""),
        ({"kaiwo-a": "x", "kaiwo-b": "y, z"}, True, "none runs the workloads of namespace team"),
        ({"kaiwo-a": "x"}, False, ""),
        ({"kaiwo-a": "x,team", "kaiwo-b": ""}, True, "several run the workloads of namespace team"),
        ({"kaiwo-a": "team", "kaiwo-b": "team"}, False, "those in kaiwo-a, kaiwo-b"),
    ],
)
def test_one_operator_runs_the_workloads_of_a_namespace(
    operators: dict[str, str], whole: bool, expected: str
) -> None:
    """None leaves them waiting, two both write to them; who may not list all operators is not alarmed."""
    deployments = [operator_of(name, watched) for name, watched in operators.items()]
    found = judge_namespaces(deployments, "team", whole=whole)
    assert [check.state for check in found] == (["failed"] if expected else [])
    assert all(expected in check.message and "--watch-namespace" in check.fix for check in found)


def test_conditions_and_plugins_of_the_configuration_are_reported() -> None:
    """Ready=False fails, any other False warns, a broken plugin fails with its message."""
    config = {
        "kind": "KaiwoConfig",
        "metadata": {"name": "kaiwo"},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "False", "reason": "Invalid", "message": "bad"},
                {"type": "CRDsCurrent", "status": "False", "reason": "Drift", "message": "old"},
                {"type": "Other", "status": "Unknown"},
            ],
            "plugins": [{"name": "acme", "state": "broken", "message": "no module"}],
        },
    }
    found = judge_config(config)
    assert [(check.name, check.state) for check in found] == [
        ("config", "failed"),
        ("config", "warning"),
        ("plugins", "failed"),
    ]
    assert "acme: no module" in found[2].message
    config["status"] = {"plugins": [{"name": "acme", "state": "not-allowed", "message": "not in the list"}]}
    assert judge_config(config)[-1].message == "not allowed in the operator: acme: not in the list"
    assert judge_config(None)[0].state == "failed"
    assert judge_config({"kind": "KaiwoConfig", "metadata": {"name": "kaiwo"}})[0].state == "warning"


def test_missing_rights_are_named_with_their_commands_and_the_binding(plugins: Any) -> None:
    """A scientist forwards the fix to an administrator; a name from outside is quoted."""
    needed = dict.fromkeys(needed_rights(), True)
    useful = dict.fromkeys(useful_rights(plugins), True)
    assert [check.state for check in judge_rights(needed, useful, "team", "ann")] == ["ok"]
    for right in needed:
        if right.subresource == "exec":
            needed[right] = False
    check = judge_rights(needed, useful, "team", "ann; rm -rf x")[0]
    assert check.state == "failed"
    assert "may not create pods/exec in namespace team (for exec)" in check.message
    assert check.fix.endswith("--clusterrole=edit --user='ann; rm -rf x'")
    hidden = judge_rights(dict.fromkeys(needed, True), dict.fromkeys(useful, False), "team", "")
    assert [check.state for check in hidden] == ["ok", "warning"]


def test_a_refusal_is_reported_as_the_missing_right() -> None:
    """The API server's own sentence is three times as long; an unknown one is kept."""
    text = 'pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "team"'
    assert not_allowed(Forbidden(403, message=text)) == "not allowed to list pods in namespace team"
    assert not_allowed(Forbidden(403, message="denied by policy")) == "denied by policy"


def test_groups_of_other_projects_come_from_the_declarations_of_plugins(plugins: Any) -> None:
    """The core names none; built-in groups and Kaiwo's own are no addons."""
    groups = {one.group: one for one in addon_groups(plugins)}
    assert set(groups) == {"kueue.x-k8s.io", "ray.io", "workload.codeflare.dev"}
    assert groups["kueue.x-k8s.io"].queue == "kueue"
    assert addon_groups(load_none()) == []


def load_none() -> Any:
    """No plugin at all."""
    from kaiwo.plugin.registry import Plugins

    return Plugins()


def test_an_addon_fails_when_queues_need_it_and_warns_when_backends_do() -> None:
    """A cluster without Ray runs batch jobs; one without the queue system runs nothing that is queued."""
    kind = Resource("acme.io", "v1", "Acme", "acmes")
    queue = AddonGroup("acme.io", {kind}, set(), "acme")
    backend = AddonGroup("acme.io", {kind}, {"acme_job"}, "")
    assert judge_addon(queue, [], frozenset()).state == "failed"
    assert judge_addon(backend, [], frozenset()).state == "warning"
    assert judge_addon(backend, ["v0"], frozenset()).state == "failed"
    assert judge_addon(backend, ["v1"], frozenset({kind})).message == "serves v1"


def test_webhooks_need_a_certificate_and_an_endpoint() -> None:
    """A webhook that cannot answer blocks every write of its kinds."""
    bundle = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
    service = {"service": {"namespace": "k", "name": "hook"}, "caBundle": bundle}
    configuration = {
        "webhooks": [
            {"name": "a", "clientConfig": service, "rules": [{"apiGroups": ["acme.io"]}]},
            {"name": "b", "clientConfig": {**service, "caBundle": "!"}, "rules": [{"apiGroups": ["batch"]}]},
        ]
    }
    found = webhooks_of([configuration, {"webhooks": [{"rules": [{"apiGroups": ["other"]}]}]}], {"acme.io"})
    assert [has_bundle(webhook) for webhook in found] == [True, False]
    assert {where: len(some) for where, some in by_place(found).items()} == {"k/hook": 2}
    states = {
        "bundle": judge_webhooks([WebhookService("k/hook", 2, ("b",), 1)]),
        "endpoint": judge_webhooks([WebhookService("k/hook", 2, (), 0)]),
        "rights": judge_webhooks([WebhookService("k/hook", 2, (), None, "not allowed")]),
        "fine": judge_webhooks([WebhookService("k/hook", 2, (), 1, "", "kueue:v0.18.1")]),
        "none": judge_webhooks([]),
    }
    assert {case: found[0].state for case, found in states.items()} == {
        "bundle": "failed",
        "endpoint": "failed",
        "rights": "unknown",
        "fine": "ok",
        "none": "ok",
    }
    assert states["fine"][0].message == "k/hook: 2 registered, kueue:v0.18.1, 1 ready endpoints"
    assert ready_endpoints([{"endpoints": [{"addresses": ["1"], "conditions": {"ready": False}}]}]) == 0
    ready = {"endpoints": [{"addresses": ["1"], "conditions": {}}]}
    assert ready_endpoints([ready, {"endpoints": None}]) == 1


def node(labels: dict[str, str], allocatable: dict[str, str]) -> Any:
    """A node with labels and resources."""
    return {"metadata": {"name": "n1", "labels": labels}, "status": {"allocatable": allocatable}}


@pytest.mark.parametrize(
    ("labels", "allocatable", "states"),
    [
        ({}, {}, ["warning"]),
        ({"beta.amd.com/gpu.family.AI": "8"}, {}, ["failed"]),
        ({"beta.amd.com/gpu.family.AI": "8"}, {"amd.com/gpu": "0"}, ["failed"]),
        ({}, {"amd.com/gpu": "8"}, ["warning", "ok"]),
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, {"amd.com/gpu": "8"}, ["ok"]),
        ({"nvidia.com/gpu.count": "4", "nvidia.com/gpu.product": "Tesla-K80"}, {"amd.com/gpu": "8"}, None),
    ],
)
def test_labels_and_device_plugins_must_agree(
    plugins: Any, labels: dict[str, str], allocatable: dict[str, str], states: list[str] | None
) -> None:
    """A node that only claims GPUs runs nothing; one without a model cannot be selected by it."""
    found = [check.state for check in judge_gpus([node(labels, allocatable)], plugins.vendors)]
    assert found == (states or ["failed", "warning", "ok"])


def storage_class(name: str, default: str = "") -> Any:
    """A StorageClass."""
    return {
        "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": default}}
    }


@pytest.mark.parametrize(
    ("classes", "configured", "state"),
    [
        ([], "", "warning"),
        ([storage_class("a")], "", "warning"),
        ([storage_class("a")], "a", "ok"),
        ([storage_class("a")], "b", "failed"),
        ([storage_class("a", "true")], "", "ok"),
        ([storage_class("a", "true"), storage_class("b", "true")], "", "warning"),
    ],
)
def test_a_volume_needs_a_storage_class(classes: list[Any], configured: str, state: str) -> None:
    """KaiwoConfig's class goes before the cluster's default."""
    assert judge_storage(classes, configured).state == state


def test_a_namespace_needs_the_queue_systems_label(plugins: Any) -> None:
    """The label comes from the plugin's rules; it fails only where nobody sets it."""
    labels = namespace_labels(plugins)
    assert labels == ("kueue-managed",)
    bare: Any = {"metadata": {"name": "team"}}
    assert judge_namespace(bare, labels, by_operator=True).state == "ok"
    check = judge_namespace(bare, labels, by_operator=False)
    assert (check.state, check.fix) == ("failed", "kubectl label namespace team kueue-managed=true")
    managed = {"metadata": {"name": "team", "labels": {"kueue-managed": "true"}}}
    assert judge_namespace(managed, labels, by_operator=False).state == "ok"


def test_an_endpoint_with_other_metrics_fails() -> None:
    """A page of something else behind the port is not taken for the operator's."""
    assert judge_metrics("# TYPE kaiwo_workloads gauge\nkaiwo_workloads 1\n", "k", "p").state == "ok"
    assert judge_metrics("<html>", "k", "p").state == "failed"
    assert judge_metrics("", "k", "p").state == "failed"
    assert metrics_port({}) == 8080


def test_the_kinds_that_are_rendered_are_those_of_the_api(plugins: Any) -> None:
    """One function renders the CRDs for the operator, the command line and the checks."""
    assert str(KAIWO_JOB) in {crd["metadata"]["name"] for crd in plugins.crds()}


def test_plugins_of_other_versions_than_the_operators_are_named() -> None:
    """Both versions, or the plugin that is missing here; what is loaded here alone is nobody's mistake."""
    plugins = [
        {"name": "batch_job", "version": "2.0", "state": "loaded"},
        {"name": "acme", "version": "1.0", "state": "loaded"},
        {"name": "gone", "version": "1.0", "state": "broken"},
    ]
    config = {"status": {"plugins": plugins}}
    other, missing = judge_versions(config, {"batch_job": "1.0", "local": "1.0"})
    assert (other.state, other.message) == (
        "warning",
        "the operator runs other versions: batch_job 2.0, here 1.0",
    )
    assert missing.message.startswith("the operator runs plugins that are not loaded here: acme 1.0")
    assert [check.state for check in judge_versions(config, {"batch_job": "2.0", "acme": "1.0"})] == ["ok"]
    assert judge_versions(None, {}) == judge_versions({}, {}) == []
