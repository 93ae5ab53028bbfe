"""What a GpuWorkload says while a decision about its workload is carried out."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kaiwo.testing.builders import NOW
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD
from kaiwo_gpu_preemption.records import Records
from kaiwo_gpu_preemption.taking import REFUSED

if TYPE_CHECKING:
    import pytest

    from kaiwo.plugin.kit.kinds import Object


def carried_on(answer: str, status: Object) -> Object:
    """The status of the GpuWorkload of a Job after a pass in which its deletion has that answer."""
    spec = {"workloadRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "uid-w"}}
    document = {"spec": spec, "status": status}

    def part(*path: str) -> Any:
        found: Any = document
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    async def patch(_: object, change: Object, **__: object) -> None:
        status.update(change)

    async def carry_on(*_: object) -> str:
        return answer

    entry: Any = SimpleNamespace(namespace="team", resource=GPU_WORKLOAD, readable_part=part)
    manager = SimpleNamespace(writer=SimpleNamespace(patch_status=patch))
    dependencies: Any = SimpleNamespace(
        manager=manager, now=lambda: NOW, endings=SimpleNamespace(settle=lambda _: None)
    )
    taking: Any = SimpleNamespace(carry_on=carry_on)
    asyncio.run(Records(dependencies, taking).carry_on({"uid-w": entry}, {}))
    return status


def test_a_refused_deletion_is_in_the_status_until_it_succeeds() -> None:
    """The decision stands, and nobody else is ended for the waiting workload meanwhile."""
    refusal = f'{REFUSED}: jobs "w" is forbidden'
    status = carried_on(refusal, {"phase": "Preempting"})
    found = [(one["type"], one["status"], one["message"]) for one in status["conditions"]]
    assert found == [("DeletionPermitted", "False", refusal)]
    assert carried_on("deleting", status) == {"phase": "Preempting", "conditions": []}
    assert carried_on("deleting", {"phase": "Preempting"}) == {"phase": "Preempting"}
    assert carried_on("gone", {"phase": "Preempting"})["phase"] == "Preempted"


def test_a_warning_of_each_pass_is_logged_once_however_many_there_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two thousand pods without a root owner do not write two thousand lines every fifteen seconds."""
    records: Any = Records(SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]  # not used
    for _ in range(3):
        for number in range(2000):
            records.log_once(f"the owner of pod {number} is gone")
        records.end_pass(())
    assert len(caplog.messages) == 2000


def test_a_warning_that_has_ended_is_forgotten_and_logged_when_it_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is remembered does not grow with the warnings of days."""
    records: Any = Records(SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]  # not used
    records.log_once("it failed")
    for _ in range(200):
        records.end_pass(())
    records.log_once("it failed")
    assert caplog.messages == ["it failed"] * 2
