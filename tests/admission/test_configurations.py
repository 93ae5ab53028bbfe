"""Validation of KaiwoConfigs and of plugins' kinds when they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.admission.names import VALIDATE_CONFIGURATIONS

if TYPE_CHECKING:
    from conftest import Webhooks
    from kaiwo.engine.resource import Object


def config(name: str = "kaiwo", **spec: Any) -> Object:
    """A KaiwoConfig."""
    return {
        "apiVersion": "config.kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoConfig",
        "metadata": {"name": name},
        "spec": spec,
    }


def queue_config(name: str = "kaiwo", **spec: Any) -> Object:
    """A KaiwoQueueConfig."""
    return {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoQueueConfig",
        "metadata": {"name": name},
        "spec": spec,
    }


def queue(name: str, **quotas: Any) -> Object:
    """An entry of a KaiwoQueueConfig: a queue with one flavor."""
    resources = [{"name": key, "nominalQuota": value} for key, value in quotas.items()]
    group = {"coveredResources": [*quotas], "flavors": [{"name": "f", "resources": resources}]}
    return {"name": name, "spec": {"resourceGroups": [group]}}


@pytest.mark.parametrize(
    "obj",
    [
        config(),
        config(ray={"headPodMemory": "8Gi"}),
        queue_config(),
        queue_config(clusterQueues=[queue("q", cpu=4, memory="1.5e3", pods=1.5, gpus=None)]),
    ],
)
def test_what_the_controllers_can_use_passes(webhooks: Webhooks, obj: Object) -> None:
    """Without a word."""
    response = webhooks.ask(VALIDATE_CONFIGURATIONS, obj)
    assert (response["allowed"], response.get("warnings")) == (True, None)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (config(ray={"headPodMemory": "much"}), "spec.ray.headPodMemory"),
        (config(ray={"headPodMemory": "0"}), "spec.ray.headPodMemory: must be greater than 0"),
        (config(storage={"downloadLimits": {"timeout": "0s"}}), "spec.storage.downloadLimits.timeout"),
        (config(plugins={"kueue": {"labelNamespaces": "perhaps"}}), "spec.plugins.kueue.labelNamespaces"),
        (config(plugins={"ray_service": {"wrap": "sometimes"}}), "spec.plugins.ray_service.wrap"),
        (queue_config(clusterQueues=[{"name": "Not A Name"}]), "spec.clusterQueues[0].name"),
        (queue_config(workloadPriorityClasses=[{"value": "x"}]), "spec.workloadPriorityClasses[0].value"),
        (
            queue_config(clusterQueues=[{"name": "a"}, queue("q", cpu="4", memory="lots")]),
            "spec.clusterQueues[1].spec.resourceGroups[0].flavors[0].resources[1].nominalQuota: 'lots'",
        ),
        (queue_config() | {"spec": []}, "spec: expected a mapping, got a list"),
    ],
)
def test_what_they_could_not_use_is_refused_with_its_field(
    webhooks: Webhooks, obj: Object, message: str
) -> None:
    """Before the last good values would have to stay in force."""
    response = webhooks.ask(VALIDATE_CONFIGURATIONS, obj)
    assert not response["allowed"]
    assert message in response["status"]["message"]


@pytest.mark.parametrize("obj", [config("other"), queue_config("other")])
def test_another_name_is_a_warning(webhooks: Webhooks, obj: Object) -> None:
    """It is stored and ignored, as its condition says later."""
    response = webhooks.ask(VALIDATE_CONFIGURATIONS, obj)
    assert response["allowed"]
    assert response["warnings"] == [
        'metadata.name: "other" is ignored; only "kaiwo" counts (name it "kaiwo")'
    ]


def test_what_is_old_or_of_no_loaded_plugin_is_a_warning(webhooks: Webhooks) -> None:
    """Settings of a plugin are kept for when it is loaded."""
    response = webhooks.ask(VALIDATE_CONFIGURATIONS, config(data={}, plugins={"kueu": {}}))
    assert response["allowed"]
    assert response["warnings"] == [
        'spec.data: is the older name of this section (rename it to "storage")',
        'spec.plugins.kueu: belongs to no loaded plugin that has settings (did you mean "kueue"?)',
    ]


def test_what_changes_no_spec_passes_and_old_mistakes_are_warnings(webhooks: Webhooks) -> None:
    """An upgrade that judges more strictly does not lock a configuration."""
    for old in (config(ray={"headPodMemory": "0"}), queue_config(clusterQueues=[{"name": "A B"}])):
        relabelled = old | {"metadata": {"name": "kaiwo", "labels": {"a": "b"}}}
        assert "warnings" not in webhooks.ask(VALIDATE_CONFIGURATIONS, relabelled, old)
        other = old | {"spec": {**old["spec"], "defaultClusterQueueName": "team", "resourceFlavors": []}}
        response = webhooks.ask(VALIDATE_CONFIGURATIONS, other, old)
        assert response["allowed"]
        assert len(response["warnings"]) >= 1
    old = queue_config(clusterQueues=[queue("q", cpu="lots")])
    response = webhooks.ask(VALIDATE_CONFIGURATIONS, old | {"spec": {**old["spec"], "topologies": []}}, old)
    assert (response["allowed"], len(response["warnings"])) == (True, 1)


def test_another_kind_passes(webhooks: Webhooks) -> None:
    """What nobody here reads is not judged here."""
    other = {"apiVersion": "example.com/v1", "kind": "KaiwoConfig", "metadata": {}, "spec": {"ray": 1}}
    assert webhooks.ask(VALIDATE_CONFIGURATIONS, other)["allowed"]
