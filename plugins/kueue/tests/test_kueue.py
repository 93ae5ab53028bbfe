from __future__ import annotations

import pytest
from pydantic import ValidationError

from kaiwo import testing
from kaiwo.api.crds import render_crd
from kaiwo_kueue import plugin


def test_namespaces_are_labelled_unless_the_administrator_says_otherwise() -> None:
    """Kueue ignores a namespace without the label, so labelling is what an installation needs."""
    model = testing.plugins(plugin).settings_models()["kueue"]
    assert model.model_validate({}).model_dump(by_alias=True)["labelNamespaces"] is True
    off = model.model_validate({"labelNamespaces": False})
    assert off.model_dump(by_alias=True)["labelNamespaces"] is False
    with pytest.raises(ValidationError, match="labelNamespaces"):
        model.model_validate({"labelNamespaces": "no"})


def test_it_asks_for_no_more_than_it_uses() -> None:
    """No wildcard, nothing about Secrets, and no finalizers: its objects have no owner references."""
    loaded = testing.plugins(plugin)
    assert loaded.queue_system is not None
    words = {word for rule in loaded.rules() for word in (*rule.groups, *rule.resources, *rule.verbs)}
    assert not words & {"*", "secrets"}
    assert "kaiwoqueueconfigs/finalizers" not in words


def test_the_documented_limits_are_wider_in_the_schema() -> None:
    """1000 queues, 256 flavors, 20 classes; a ClusterQueue's spec is Kueue's own and kept as it is."""
    (kind,) = testing.plugins(plugin).kinds()
    spec = render_crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    sizes = {name: field["maxItems"] for name, field in spec["properties"].items()}
    assert sizes == {
        "clusterQueues": 1000,
        "resourceFlavors": 256,
        "topologies": 10,
        "workloadPriorityClasses": 20,
    }
    queues = spec["properties"]["clusterQueues"]["items"]["properties"]
    assert queues["spec"]["x-kubernetes-preserve-unknown-fields"]
    assert queues["namespaces"]["maxItems"] == 4096
    flavors = spec["properties"]["resourceFlavors"]["items"]["properties"]
    assert flavors["nodeLabels"]["maxProperties"] == 10
    assert flavors["taints"]["maxItems"] == flavors["tolerations"]["maxItems"] == 5
