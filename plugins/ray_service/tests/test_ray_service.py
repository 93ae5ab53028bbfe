from __future__ import annotations

import pytest
from pydantic import ValidationError

from kaiwo import testing
from kaiwo.api.workload import Workload
from kaiwo_ray_service import plugin


def test_it_serves_kaiwoservices_that_ask_for_ray_or_embed_a_rayservice() -> None:
    """`ray: true` is enough, and so is an embedded RayService, which wins over a Deployment."""
    (backend,) = testing.plugins(plugin).backends
    testing.assert_backend_contract(
        backend,
        [
            testing.service(ray=True, serveConfigV2="applications: []\n"),
            testing.service(rayService={"spec": {}}),
            testing.service(ray=False, rayService={}, deployment={"spec": {}}),
        ],
    )
    assert not backend.chosen(Workload.from_object(testing.service()))


def test_it_is_declared_and_not_yet_built() -> None:
    """Its two fields are in the CRD, while nobody believes that it can run a workload."""
    loaded = testing.plugins(plugin)
    assert not loaded.backends[0].built
    assert [field.path for field in loaded.fields()] == [("rayService",), ("serveConfigV2",)]
    assert loaded.rules() == ()


def test_services_are_wrapped_unless_the_administrator_says_otherwise() -> None:
    """`wrap` is always, auto or never; without a word it is always."""
    model = testing.plugins(plugin).settings_models()["ray_service"]
    assert model().model_dump() == {"wrap": "always"}
    assert model.model_validate({"wrap": "auto"}).model_dump() == {"wrap": "auto"}
    with pytest.raises(ValidationError, match="'always', 'auto' or 'never'"):
        model.model_validate({"wrap": "sometimes"})
