"""Kueue that is installed and does not answer: its webhooks stop every Job that names a queue."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix, pytest.mark.usefixtures("pristine")]


@contextmanager
def frozen_kueue(control_plane: Any) -> Iterator[None]:
    """Kueue's process stands still while this lasts."""
    from kaiwo_sandbox import process

    kueue = process.recorded(control_plane.directory)["kueue"]
    kueue.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        kueue.signal(signal.SIGCONT)


async def test_workloads_say_that_kueue_does_not_answer_and_start_when_it_does(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object], control_plane: Any
) -> None:
    """PENDING/WriteRefused with the webhook's name instead of no status; /readyz names it; then admission."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=[{"name": "f"}])
    process = await operator()
    await admin.status("READY")
    await lab.submit("before")
    await lab.reaches("before", "COMPLETE")
    with frozen_kueue(control_plane):
        await lab.submit("held")
        status = await lab.reaches("held", "PENDING", reason="WriteRefused")
        assert 'failed calling webhook "mjob' in status["message"]
        code, detail = await asyncio.to_thread(process.readyz)
        assert code == 503
        assert "Webhook" in detail["checks"]["writes"]
    await until(lab.client, JOB, lab.namespace, "held", lambda job: job is not None, timeout=30)
    await lab.reaches("held", "COMPLETE")
    assert (await asyncio.to_thread(process.readyz))[0] == 200
