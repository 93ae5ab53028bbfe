"""Objects that a user may create and that no operator can decode harm nobody else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.transport import HttpRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

LEVELS = 1_200
NESTED = b'{"spec":' * LEVELS + b"{}" + b"}" * LEVELS


async def create_nested(lab: Any, name: str) -> None:
    """Create a KaiwoJob whose embedded Job is nested more deeply than a decoder goes."""
    job = lab.job(name)
    job["spec"]["job"] = msgspec.Raw(NESTED)
    path = KAIWO_JOB.path(lab.namespace)
    body = msgspec.json.encode(job)
    await lab.client._transport.send(  # the public client encodes objects, which recurses
        HttpRequest("create", "kaiwojobs.kaiwo.silogen.ai", "POST", path, body=body)
    )


@pytest.mark.parametrize("first", [True, False], ids=["while it starts", "while it runs"])
async def test_an_object_that_is_nested_too_deeply_harms_only_itself(
    operator: Start, lab: Any, *, first: bool
) -> None:
    """It gets the status ERROR, whose Event names the field, and the job beside it completes."""
    if first:
        await create_nested(lab, "deep")
    process = await operator()
    if not first:
        await create_nested(lab, "deep")
    await lab.submit("good")
    await lab.reaches("good", "COMPLETE")
    assert "spec.job is nested more than 100 levels deep" in await read_error(lab, "deep")
    assert "passed over" in process.log


async def read_error(lab: Any, name: str) -> str:
    """Wait for the Event of the status ERROR; its message. The object itself is too deep for a client."""
    for _ in range(100):
        for type_, reason, message in await lab.events(name):
            if (type_, reason) == ("Warning", "WorkloadError"):
                return str(message)
        await asyncio.sleep(0.1)
    raise AssertionError(f"no Event reports the status ERROR of {name}")
