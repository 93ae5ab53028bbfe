from __future__ import annotations

from kaiwo import testing
from kaiwo.api.workload import Workload
from kaiwo_ray_job import plugin


def test_it_serves_kaiwojobs_that_ask_for_ray_or_embed_a_rayjob() -> None:
    """`ray: true` is enough, and so is an embedded RayJob, which wins over `ray: false`."""
    (backend,) = testing.plugins(plugin).backends
    testing.assert_backend_contract(
        backend,
        [
            testing.job(ray=True),
            testing.job(rayJob={"spec": {}}),
            testing.job(ray=False, rayJob={}, job={"spec": {}}),
        ],
    )
    assert not backend.chosen(Workload.from_object(testing.job()))
    assert not backend.chosen(Workload.from_object(testing.job(job={"spec": {}})))


def test_it_is_declared_and_not_yet_built() -> None:
    """Its field is in the CRD, while nobody believes that it can run a workload."""
    loaded = testing.plugins(plugin)
    assert not loaded.backends[0].built
    assert [(field.kind, field.path) for field in loaded.fields()] == [("KaiwoJob", ("rayJob",))]
    assert loaded.rules() == ()


def test_a_name_that_kuberay_cannot_handle_is_too_long() -> None:
    """A RayJob whose name has more than 47 characters never gets a status."""
    (backend,) = testing.plugins(plugin).backends
    assert (backend.max_name_length, backend.name_pattern) == (47, "dns1035")
