from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from kaiwo import testing
from kaiwo.api.crds import dump, render_crd
from kaiwo_kueue import plugin

GOLDEN = Path(__file__).parent / "golden" / "kaiwoqueueconfigs.kaiwo.silogen.ai.yaml"


def test_namespaces_are_labelled_unless_the_administrator_says_otherwise() -> None:
    """Kueue ignores a namespace without the label, so labelling is what an installation needs."""
    model = testing.plugins(plugin).settings_models()["kueue"]
    assert model.model_validate({}).model_dump(by_alias=True) == {"labelNamespaces": True}
    assert model.model_validate({"labelNamespaces": False}).model_dump(by_alias=True) == {
        "labelNamespaces": False
    }
    with pytest.raises(ValidationError, match="labelNamespaces"):
        model.model_validate({"labelNamespaces": "no"})


def test_it_asks_for_no_more_than_it_uses() -> None:
    """No wildcard, and nothing about Secrets; owner references need the finalizers subresource."""
    loaded = testing.plugins(plugin)
    assert loaded.queue_system is not None
    words = {word for rule in loaded.rules() for word in (*rule.groups, *rule.resources, *rule.verbs)}
    assert not words & {"*", "secrets"}
    assert "kaiwoqueueconfigs/finalizers" in words


def test_the_definition_of_its_kind_is_in_the_repository() -> None:
    """An edit of a model without its CRD does not pass; KAIWO_GOLDEN=write renders the file anew."""
    loaded = testing.plugins(plugin)
    (kind,) = loaded.kinds()
    rendered = dump([render_crd(kind)])
    if os.environ.get("KAIWO_GOLDEN") == "write":
        GOLDEN.write_text(rendered)
    assert GOLDEN.read_text() == rendered
    spec = render_crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    queues = spec["properties"]["clusterQueues"]
    assert queues["maxItems"] == 1000
    assert queues["items"]["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"]
    assert spec["properties"]["resourceFlavors"]["items"]["properties"]["nodeLabels"]["maxProperties"] == 10
