"""Writes that fail because a webhook does not answer, or because the API server is away."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy, FaultRecord
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

SOON = 20.0
"""Seconds until something that ought to take 5 counts as missing, on a slow machine. Without a dry run a
rejected object is sent again after 60 s."""

_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class BrokenWebhook:
    """A webhook for Jobs of one namespace that nobody serves."""

    def __init__(self, api: Any, namespace: str) -> None:
        self.name = f"broken-{secrets.token_hex(4)}"
        self._api = api
        self._namespace = namespace

    def register(self) -> None:
        """Let the API server call it."""
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}
        webhook: Object = {
            "name": "mjob.broken.example",
            "clientConfig": {"url": "https://127.0.0.1:1/mutate"},
            "rules": [
                {
                    "apiGroups": ["batch"],
                    "apiVersions": ["v1"],
                    "resources": ["jobs"],
                    "operations": ["CREATE"],
                }
            ],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": selector,
        }
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
        obj = {**head, "metadata": {"name": self.name}, "webhooks": [webhook]}
        self._api.apply(f"{_WEBHOOKS}/{self.name}", obj)

    def remove(self) -> None:
        """End the fault."""
        self._api.request("DELETE", f"{_WEBHOOKS}/{self.name}")


@pytest.fixture
def webhook(control_plane: Any, namespace: str) -> Iterator[BrokenWebhook]:
    """A broken webhook, removed with the test if it is still there."""
    made = BrokenWebhook(control_plane.api, namespace)
    yield made
    listed = control_plane.api.get(_WEBHOOKS)["items"]
    if any(item["metadata"]["name"] == made.name for item in listed):
        made.remove()


def posts(proxy: FaultProxy) -> list[FaultRecord]:
    """Requests that create a Job, dry runs left out."""
    return [
        record
        for record in proxy.records
        if record.method == "POST" and record.path.endswith("/jobs") and "dryRun" not in record.query
    ]


async def test_a_webhook_that_does_not_answer_is_named_in_the_status_and_jobs_start_after_it(
    operator: Start, lab: Any, proxy: FaultProxy, webhook: BrokenWebhook, tmp_path: Path
) -> None:
    """PENDING/WriteRefused with the API server's words, /readyz, gauge and event; no repeated POSTs."""
    process = await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await asyncio.to_thread(webhook.register)
    await lab.submit("held")
    status = await lab.reaches("held", "PENDING", reason="WriteRefused")
    assert 'failed calling webhook "mjob.broken.example"' in status["message"]
    assert [record.code for record in posts(proxy)] == [500], "the fault took place"
    code, detail = await asyncio.to_thread(process.readyz)
    assert code == 503
    assert "mjob.broken.example" in detail["checks"]["writes"]
    metrics = await asyncio.to_thread(process.metrics)
    assert metrics['kaiwo_failing_writes{cause="Webhook",resource="jobs.batch",verb="create"}'] == 1
    assert metrics['kaiwo_health_check{check="writes"}'] == 0

    for number in range(5):
        await lab.submit(f"held-{number}")
        await lab.reaches(f"held-{number}", "PENDING", reason="WriteRefused")
    await asyncio.sleep(10)  # two dry runs
    assert len(posts(proxy)) == 6, "each object is sent once, then one dry run stands for all"
    dry_runs = [record for record in proxy.records if "dryRun=All" in record.query]
    assert 1 <= len(dry_runs) <= 6

    await asyncio.to_thread(webhook.remove)
    for name in ("held", *(f"held-{number}" for number in range(5))):
        await until(lab.client, JOB, lab.namespace, name, lambda job: job is not None, timeout=SOON)
        await lab.reaches(name, "COMPLETE")
    assert (await asyncio.to_thread(process.readyz_when_up))[0] == 200
    reasons = [reason for _, reason, _ in await lab.events("held")]
    assert "WriteRefused" in reasons


async def test_an_api_server_that_is_away_makes_leader_and_standby_unready(
    operator: Start, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Neither a leader that cannot renew nor a process that waits for its turn says that all is well."""
    kubeconfig = proxy.write_kubeconfig(tmp_path / "kubeconfig")
    leader = await operator(kubeconfig=kubeconfig, leader_election=True)
    standby = await operator(kubeconfig=kubeconfig, leader_election=True, ready=False)
    await asyncio.to_thread(standby.wait_log, "this process waits for it")
    assert (await asyncio.to_thread(standby.readyz_when_up))[0] == 200
    fault = proxy.reset(times=None)
    await proxy.cut_watches()
    for process in (leader, standby):
        await becomes(process, 503)
        assert "lease " in (await asyncio.to_thread(process.readyz))[1]["checks"]["lease"]
    assert fault.struck
    proxy.clear()
    for process in (leader, standby):
        await becomes(process, 200)
    assert "lost to" not in leader.log
    assert "not renewed within 7 s" in leader.log


async def becomes(process: OperatorProcess, code: int) -> None:
    """Wait until /readyz answers with a code; nothing announces that."""
    async with asyncio.timeout(60):
        while (await asyncio.to_thread(process.readyz))[0] != code:
            await asyncio.sleep(0.5)
