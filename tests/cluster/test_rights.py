"""The operator under its own service account, whose rights an administrator takes away and gives back."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB
from kaiwo.engine import credentials
from kaiwo.engine.resource import JOB
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import until
from kaiwo.testing.rights import OperatorRights

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

SOON = 20.0
"""Seconds until something that ought to take 5 counts as missing, on a slow machine."""

PLUGINS = "batch_job,ray_job,gpu_amd"


@pytest.fixture
def rights(control_plane: Any, crds: None, namespace: str) -> Iterator[OperatorRights]:
    """All rights of the operator, in force until the test ends."""
    del crds
    made = OperatorRights(control_plane.api, namespace, PLUGINS)
    made.grant()
    yield made
    made.remove()


@pytest.fixture
async def account(control_plane: Any, rights: OperatorRights, namespace: str) -> AsyncIterator[FaultProxy]:
    """A proxy that sends every request as the operator's service account."""
    connection = credentials.static(
        control_plane.url, token=rights.token(), ca_file=control_plane.ca_file, namespace=namespace
    )
    async with FaultProxy(connection) as proxy:
        yield proxy


def denied(proxy: FaultProxy, method: str, path: str) -> int:
    """How many requests the API server answered with 403."""
    return sum(
        record.code == 403 and record.method == method and path in record.path for record in proxy.records
    )


async def test_a_revoked_right_to_create_is_named_and_its_return_is_noticed(
    operator: Start, lab: Any, rights: OperatorRights, account: FaultProxy, tmp_path: Path
) -> None:
    """ERROR/Forbidden in the API server's words, /readyz and KaiwoConfig; then the workload starts."""
    process = await operator(kubeconfig=account.write_kubeconfig(tmp_path / "kubeconfig"), plugins=PLUGINS)
    await lab.submit("before")
    await lab.reaches("before", "COMPLETE")
    await asyncio.to_thread(rights.revoke, ("create", "jobs"))
    await lab.submit("held")
    status = await lab.reaches("held", "ERROR", reason="Forbidden")
    assert 'cannot create resource "jobs" in API group "batch"' in status["message"]
    assert denied(account, "POST", "/jobs")
    code, detail = await asyncio.to_thread(process.readyz)
    assert code == 503
    assert 'cannot create resource "jobs"' in detail["checks"]["writes"]
    await until(
        lab.client, KAIWO_CONFIG, None, "kaiwo", lambda config: "jobs" in missing(config), timeout=SOON
    )

    await asyncio.to_thread(rights.grant)
    await until(lab.client, JOB, lab.namespace, "held", lambda job: job is not None, timeout=SOON)
    await lab.reaches("held", "COMPLETE")
    assert (await asyncio.to_thread(process.readyz_when_up))[0] == 200
    await until(lab.client, KAIWO_CONFIG, None, "kaiwo", lambda config: not missing(config), timeout=SOON)


async def test_rights_that_return_together_leave_no_stale_rejection(
    operator: Start, lab: Any, rights: OperatorRights, account: FaultProxy, tmp_path: Path
) -> None:
    """Without any right to write nothing can be said; afterwards no status tells of what is over."""
    process = await operator(kubeconfig=account.write_kubeconfig(tmp_path / "kubeconfig"), plugins=PLUGINS)
    await asyncio.to_thread(rights.revoke, ("create", "jobs"), ("patch", "kaiwojobs/status"))
    await lab.submit("mute")
    await asyncio.to_thread(process.wait_log, r"patch kaiwojobs.kaiwo.silogen.ai/status .*Forbidden")
    assert denied(account, "POST", "/jobs")
    assert denied(account, "PATCH", "/status")
    assert (await asyncio.to_thread(process.readyz))[0] == 503

    await asyncio.to_thread(rights.grant)
    await lab.reaches("mute", "COMPLETE", timeout=60)
    assert not [line for line in process.lines if "mute: ERROR" in line], "no such status was written"


async def test_a_kind_that_cannot_be_listed_stops_its_backend_and_no_other(
    operator: Start, lab: Any, rights: OperatorRights, account: FaultProxy, tmp_path: Path
) -> None:
    """BackendUnavailable on Ray jobs, KaiwoConfig names the kind, plain jobs run; a grant is noticed."""
    await asyncio.to_thread(rights.revoke, ("list", "rayjobs"), ("watch", "rayjobs"))
    process = await operator(
        kubeconfig=account.write_kubeconfig(tmp_path / "kubeconfig"), plugins=PLUGINS, ready=False
    )
    await lab.submit("plain")
    await lab.submit("ray", ray=True, entrypoint="python main.py")
    await lab.reaches("plain", "COMPLETE")
    status = await lab.reaches("ray", "ERROR", reason="BackendUnavailable")
    assert 'cannot list resource "rayjobs" in API group "ray.io"' in status["message"]
    assert denied(account, "GET", "/rayjobs")
    found = await until(
        lab.client, KAIWO_CONFIG, None, "kaiwo", lambda config: "rayjobs" in missing(config), timeout=SOON
    )
    assert "ray_job" in missing(found)
    code, detail = await asyncio.to_thread(process.readyz)
    assert code == 503
    assert "rayjobs" in detail["checks"]["cache rayjobs.ray.io"]
    metrics = await asyncio.to_thread(process.metrics)
    assert metrics['kaiwo_health_check{check="cache rayjobs.ray.io"}'] == 0

    await asyncio.to_thread(rights.grant)
    await until(lab.client, KAIWO_CONFIG, None, "kaiwo", lambda config: not missing(config), timeout=SOON)
    assert (await asyncio.to_thread(process.readyz_when_up, SOON))[0] == 200


async def test_a_kind_that_cannot_be_listed_after_a_restart_ends_no_running_workload(
    operator: Start, lab: Any, rights: OperatorRights, account: FaultProxy, tmp_path: Path, condition: Any
) -> None:
    """What cannot be seen is not lost: the status stays, and SpecApplied says why nothing is decided."""
    kubeconfig = account.write_kubeconfig(tmp_path / "kubeconfig")
    process = await operator(kubeconfig=kubeconfig, plugins=PLUGINS)
    await lab.submit("runs", pods={"kaiwo-sandbox/forever": "true"})
    await lab.reaches("runs", "RUNNING")
    await asyncio.to_thread(process.close)
    await asyncio.to_thread(rights.revoke, ("list", "jobs"), ("watch", "jobs"))
    await operator(kubeconfig=kubeconfig, plugins=PLUGINS, ready=False)

    def unseen(obj: Object | None) -> bool:
        status = (obj or {}).get("status", {})
        return condition(status, "SpecApplied").get("reason") == "BackendUnavailable"

    found = await until(lab.client, KAIWO_JOB, lab.namespace, "runs", unseen)
    assert found["status"]["status"] == "RUNNING"
    assert denied(account, "GET", "/jobs")
    await asyncio.to_thread(rights.grant)
    found = await until(
        lab.client, KAIWO_JOB, lab.namespace, "runs", lambda obj: not unseen(obj), timeout=SOON
    )
    assert found["status"]["status"] == "RUNNING"


def missing(config: Object | None) -> str:
    """The message of KaiwoConfig's condition about missing rights, empty without it."""
    with contextlib.suppress(StopIteration):
        conditions = ((config or {}).get("status") or {}).get("conditions", [])
        return str(next(item for item in conditions if item["type"].endswith("RightsComplete"))["message"])
    return ""
