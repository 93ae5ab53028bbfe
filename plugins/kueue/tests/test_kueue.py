from __future__ import annotations

import pytest
from pydantic import ValidationError

from kaiwo import testing
from kaiwo_kueue import plugin


def test_namespaces_are_labelled_unless_the_administrator_says_otherwise() -> None:
    """Kueue ignores a namespace without the label, so labelling is what an installation needs."""
    model = testing.plugins(plugin).settings_models()["kueue"]
    assert model.model_validate({}).model_dump(by_alias=True) == {"labelNamespaces": True}
    assert model.model_validate({"labelNamespaces": False}).model_dump(by_alias=True) == {
        "labelNamespaces": False
    }
    with pytest.raises(ValidationError, match="labelNamespaces"):
        model.model_validate({"labelNamespaces": "no"})


def test_it_is_no_queue_system_yet() -> None:
    """Nobody waits for a queue that does not work: workloads run unqueued, as without the plugin."""
    loaded = testing.plugins(plugin)
    assert loaded.queue_system is None
    assert loaded.rules() == ()
