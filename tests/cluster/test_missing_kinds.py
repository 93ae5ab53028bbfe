"""A backend whose kinds the cluster does not serve: named, nobody else harmed, healed when they appear."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, Resource
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy
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


async def test_a_kind_whose_list_fails_from_the_start_stops_its_backend_and_no_other(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """As where a conversion webhook does not answer: named in status, /readyz and log; it heals by itself."""
    proxy.answer(500, times=None, method="GET", path="/rayjobs$")
    process = await operator(
        kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"),
        plugins="batch_job,ray_job,ray_service,gpu_amd,gpu_nvidia",
        ready=False,
    )
    await lab.submit("plain")
    await lab.submit("ray", ray=True, entrypoint="python main.py")
    await lab.reaches("plain", "COMPLETE")
    status = await lab.reaches("ray", "ERROR", reason="BackendUnavailable")
    assert "the API server cannot list rayjobs.ray.io: ServerUnavailable" in status["message"]
    code, detail = await asyncio.to_thread(process.readyz)
    assert code == 503
    assert "ServerUnavailable: injected" in detail["checks"]["cache rayjobs.ray.io"]
    for words in ("rayjobs.ray.io in namespace", "Only what needs it waits; see the log of the API server"):
        await asyncio.to_thread(process.wait_log, words)
    proxy.clear()
    await lab.says("ray", "does not serve it")
    assert (await asyncio.to_thread(process.readyz_when_up))[0] == 200
