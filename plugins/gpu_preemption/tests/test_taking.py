"""What the operator may delete, asked before anything is decided."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kaiwo.plugin.kit.kinds import JOB
from kaiwo_gpu_preemption import taking
from kaiwo_gpu_preemption.taking import DeletionRights


async def test_answers_are_kept_for_a_minute_and_then_forgotten(monkeypatch: Any) -> None:
    """Namespaces come and go; those that are gone are not remembered."""
    asked, clock = [], [0.0]

    async def is_allowed(_: object, verb: str, __: object, namespace: str) -> bool:
        asked.append((verb, namespace))
        return namespace != "denied"

    monkeypatch.setattr(taking, "is_allowed", is_allowed)
    manager: Any = SimpleNamespace(client=None)
    rights = DeletionRights(manager, lambda: clock[0])
    assert await rights.may_delete(JOB, "team")
    assert await rights.may_delete(JOB, "team")
    assert not await rights.may_delete(JOB, "denied")
    assert asked == [("delete", "team"), ("delete", "denied")]
    for number in range(500):
        clock[0] += 1.0
        await rights.may_delete(JOB, f"run-{number}")
    assert len(rights._known) <= 60
