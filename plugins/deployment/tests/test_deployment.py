from __future__ import annotations

from kaiwo import testing
from kaiwo.api.workload import Workload
from kaiwo_deployment import plugin


def test_it_serves_kaiwoservices_without_ray() -> None:
    """A KaiwoService is a Deployment unless it asks for Ray or embeds a RayService."""
    (backend,) = testing.plugins(plugin).backends
    testing.assert_backend_contract(
        backend, [testing.service(), testing.service(deployment={"spec": {}}), testing.service(ray=False)]
    )
    assert not backend.chosen(Workload.from_object(testing.service(ray=True, deployment={"spec": {}})))
    assert not backend.chosen(Workload.from_object(testing.service(rayService={})))


def test_it_is_declared_and_not_yet_built() -> None:
    """Its field is in the CRD, while nobody believes that it can run a workload."""
    loaded = testing.plugins(plugin)
    assert not loaded.backends[0].built
    assert [(field.kind, field.path) for field in loaded.fields()] == [("KaiwoService", ("deployment",))]
    assert loaded.rules() == ()
