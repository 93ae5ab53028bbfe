"""Another controller that undoes what Kaiwo writes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kaiwo.api.crds import KAIWO_SERVICE
from kaiwo.engine.repeated_writes import MANY
from kaiwo.engine.resource import DEPLOYMENT
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

THEIRS = 77


async def undo(client: Client, namespace: str) -> None:
    """Set the deadline of the Deployment to another value each time that Kaiwo has set it to its own."""
    patch = {"spec": {"progressDeadlineSeconds": THEIRS}}
    changes = client.watch(DEPLOYMENT, namespace, resource_version="0")
    async with contextlib.aclosing(changes):
        async for event, raw in changes:
            live = msgspec.json.decode(raw)
            if event in {"ADDED", "MODIFIED"} and live["spec"]["progressDeadlineSeconds"] != THEIRS:
                await client.merge_patch(DEPLOYMENT, namespace, live["metadata"]["name"], patch)


def applied(operator: OperatorProcess) -> int:
    """How often an operator wrote the Deployment."""
    return sum("applied Deployment web" in line for line in operator.lines)


def is_changed_back(obj: Object | None) -> bool:
    """Whether the status says that somebody changes the child back."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "SpecApplied" and each["reason"] == "ChangedBack" for each in conditions)


async def test_a_controller_that_undoes_each_write_is_named_and_not_fought_at_full_speed(
    operator: Start, lab: Any
) -> None:
    """The status says what is changed back; once nobody does that any more, the child is as wanted."""
    running = await operator(plugins="deployment,gpu_amd")
    container = {"name": "main", "image": "registry.example/web:1"}
    spec = {
        "deployment": {
            "spec": {"progressDeadlineSeconds": 500, "template": {"spec": {"containers": [container]}}}
        }
    }
    service = {
        "apiVersion": KAIWO_SERVICE.api_version, "kind": "KaiwoService",
        "metadata": {"name": "web", "namespace": lab.namespace}, "spec": spec,
    }  # fmt: skip
    await lab.client.create(KAIWO_SERVICE, service)
    other = asyncio.create_task(undo(lab.client, lab.namespace))
    found = await until(lab.client, KAIWO_SERVICE, lab.namespace, "web", is_changed_back)
    assert found is not None
    [condition] = [each for each in found["status"]["conditions"] if each["type"] == "SpecApplied"]
    assert condition["status"] == "False"
    assert "somebody changes Deployment web back after each write" in condition["message"]
    before = applied(running)
    await asyncio.sleep(5)
    assert before >= MANY
    assert applied(running) - before <= 3  # after one, two and four seconds
    other.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await other

    def is_restored(obj: Object | None) -> bool:
        return bool(obj and obj["spec"]["progressDeadlineSeconds"] == 500)

    await until(lab.client, DEPLOYMENT, lab.namespace, "web", is_restored)
    await until(lab.client, KAIWO_SERVICE, lab.namespace, "web", lambda obj: not is_changed_back(obj))


async def test_two_operators_with_different_plugins_do_not_write_a_status_in_turn_for_ever(
    operator: Start, lab: Any
) -> None:
    """Two installations watch one namespace by mistake; each sees another state of the same workload."""
    both = [await operator(plugins="deployment,gpu_amd"), await operator(plugins="batch_job,gpu_amd")]
    service = {
        "apiVersion": KAIWO_SERVICE.api_version, "kind": "KaiwoService",
        "metadata": {"name": "web", "namespace": lab.namespace}, "spec": {"image": "registry.example/web:1"},
    }  # fmt: skip
    await lab.client.create(KAIWO_SERVICE, service)
    words = f"somebody replaces the status of KaiwoService {lab.namespace}/web after each write"
    await asyncio.to_thread(both[0].wait_log, words)

    def written() -> int:
        line = f"KaiwoService {lab.namespace}/web: "
        return sum(line in text for process in both for text in process.lines)

    before = written()
    assert before >= MANY
    await asyncio.sleep(5)
    assert written() - before <= 6  # each after one, two and four seconds at most
