"""What is rendered for the webhooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.cli.output.serialization import to_yaml
from kaiwo.install.inventory import installed_objects
from kaiwo.install.render import PARTS, InstallOptions, render
from kaiwo.install.webhooks import EVERY_WEBHOOK, WebhookOptions, webhook_objects
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.testing.golden import assert_golden

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

GOLDEN = Path(__file__).parent / "golden"
NAMES = ("batch_job", "gpu_amd", "gpu_nvidia", "kueue")


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    """A usual plugin set, with families of GPU keys and a kind of a plugin."""
    return load(PluginSelection(names=NAMES, required=frozenset(NAMES)))


def rendered(plugins: Plugins, webhooks: WebhookOptions | None, **options: Any) -> list[Object]:
    """All objects."""
    return [m.obj for m in render(PARTS, plugins, InstallOptions(webhooks=webhooks, **options))]


def hooks_of(plugins: Plugins, options: WebhookOptions, *watched: str) -> dict[str, Object]:
    """The webhooks of both configurations by the start of their names."""
    return {
        hook["name"].removesuffix(".kaiwo.silogen.ai"): hook
        for manifest in webhook_objects(plugins, "kaiwo-system", watched, options)
        for hook in manifest.obj.get("webhooks", ())
    }


def shown(obj: Object) -> Object:
    """The object; of the Deployment what webhooks may change."""
    if obj["kind"] != "Deployment":
        return obj
    pod = obj["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    parts = {key: container.get(key, []) for key in ("env", "ports", "volumeMounts")}
    return {"kind": obj["kind"], "name": obj["metadata"]["name"], **parts, "volumes": pod.get("volumes", [])}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plain", WebhookOptions()),
        ("enforcing", EVERY_WEBHOOK),
        ("given-certificates", WebhookOptions(identity="check", certificates="webhook-tls")),
    ],
)
def test_what_webhooks_add_to_an_installation(plugins: Plugins, name: str, options: WebhookOptions) -> None:
    """Every object and field that is there with webhooks and not without; read it like code."""
    without = {str(shown(obj)) for obj in rendered(plugins, None)}
    added = [found for obj in rendered(plugins, options) if str(found := shown(obj)) not in without]
    text = to_yaml(added, documents=True)
    assert_golden(text, GOLDEN / f"webhooks-{name}.yaml")


def test_only_what_is_used_is_registered(plugins: Plugins) -> None:
    """Labelled Jobs are managed anywhere; users and unlabelled Jobs only where that is asked for."""
    always = {"workloads", "templates", "configurations", "jobs", "managed-jobs"}
    assert set(hooks_of(plugins, WebhookOptions())) == always
    assert set(hooks_of(plugins, WebhookOptions(identity="check"))) == {*always, "identity"}
    assert set(hooks_of(plugins, WebhookOptions(enforce_gpu_workloads=True))) == {*always, "gpu-jobs"}


def test_only_labelled_jobs_are_managed_without_enforcing_mode(plugins: Plugins) -> None:
    """No other Job waits for the operator, whether it answers or not."""
    found = hooks_of(plugins, WebhookOptions())
    for name in ("jobs", "managed-jobs"):
        assert found[name]["failurePolicy"] == "Ignore"
        (_, condition) = found[name]["matchConditions"]
        assert "kaiwo.silogen.ai/managed" in condition["expression"]
        assert "amd.com/gpu" not in condition["expression"]


def test_a_failure_stops_new_gpu_jobs_in_enforcing_mode_and_nothing_else(plugins: Plugins) -> None:
    """Everything else is written while the operator is away."""
    found = hooks_of(plugins, EVERY_WEBHOOK)
    failing = {name for name, hook in found.items() if hook["failurePolicy"] == "Fail"}
    assert failing == {"gpu-jobs"}
    condition = found["gpu-jobs"]["matchConditions"][1]["expression"]
    for key in ("'amd.com/gpu'", "'nvidia.com/gpu'", "initContainers", "startsWith('nvidia.com/mig-')"):
        assert key in condition


def test_the_namespaces_of_the_cluster_and_of_the_operator_are_left_out(plugins: Plugins) -> None:
    """In every webhook, also when somebody watches them by name; and the operator's own requests."""
    for watched in ((), ("team", "research"), ("kube-system", "kaiwo-system", "team")):
        for hook in hooks_of(plugins, EVERY_WEBHOOK, *watched).values():
            (selector,) = [
                item
                for item in hook["namespaceSelector"]["matchExpressions"]
                if item["key"] == "kubernetes.io/metadata.name"
            ]
            if watched:
                assert selector["operator"] == "In"
                assert set(selector["values"]) == set(watched) - {"kube-system", "kaiwo-system"}
            else:
                assert (selector["operator"], selector["values"]) == (
                    "NotIn",
                    ["kube-system", "kaiwo-system"],
                )
            assert "system:serviceaccount:kaiwo-system:kaiwo-operator" in str(hook["matchConditions"][0])
            assert (hook["sideEffects"], hook["timeoutSeconds"]) == ("None", 5)


def test_rights_are_named_objects_only(plugins: Plugins) -> None:
    """One Secret in one namespace, and two configurations; none of a Secret with given certificates."""
    secrets = [
        rule
        for obj in rendered(plugins, WebhookOptions())
        for rule in obj.get("rules", ())
        if "secrets" in rule.get("resources", ())
    ]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in secrets] == [
        (["kaiwo-webhook-certificate"], ["get", "create", "patch"])
    ]
    given = rendered(plugins, WebhookOptions(certificates="mine"))
    assert not any("secrets" in str(obj.get("rules", "")) for obj in given)
    assert not any(obj["kind"] == "Secret" for obj in given)


def test_an_uninstallation_deletes_every_object_of_the_webhooks(plugins: Plugins) -> None:
    """The configurations first: a request must not wait for an operator that is gone."""
    names = [(item.resource.kind, item.name) for item in installed_objects(plugins, "kaiwo-system")]
    assert [kind for kind, _ in names[:3]] == [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "Deployment",
    ]
    for obj in rendered(plugins, EVERY_WEBHOOK):
        if obj["kind"] != "Namespace":
            assert (obj["kind"], obj["metadata"]["name"]) in names
