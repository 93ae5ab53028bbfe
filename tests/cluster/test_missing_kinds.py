"""A backend whose kinds the cluster does not serve: named, nobody else harmed, healed when they appear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, Resource
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

RAY_JOB = Resource("ray.io", "v1", "RayJob", "rayjobs")


def crd() -> Object:
    """The kind RayJob with any content, as its name and version alone matter here."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rayjobs.ray.io"},
        "spec": {
            "group": "ray.io",
            "names": {"kind": "RayJob", "plural": "rayjobs"},
            "scope": "Namespaced",
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


async def test_ray_that_is_not_installed_is_named_and_needs_no_restart(
    operator: Start, lab: Any, control_plane: Any, apply_crd: Callable[[Any, Object], None]
) -> None:
    """BackendUnavailable with the kind; a batch job runs beside; the RayJob is made once it is served."""
    process = await operator(plugins="batch_job,ray_job,ray_service,gpu_amd,gpu_nvidia")
    await lab.submit("ray", ray=True, entrypoint="python main.py")
    status = await lab.reaches("ray", "ERROR", reason="BackendUnavailable")
    assert "rayjobs" in status["message"]
    await lab.submit("plain", gpus=1)
    await lab.reaches("plain", "COMPLETE")
    apply_crd(control_plane, crd())
    try:
        await until(lab.client, RAY_JOB, lab.namespace, "ray", lambda obj: obj is not None, timeout=120)
        await lab.reaches("ray", "STARTING", "PENDING")
        assert "Traceback" not in process.log
    finally:
        await lab.client.delete(CUSTOM_RESOURCE_DEFINITION, None, "rayjobs.ray.io")
