"""A control plane of one case's own, whose programs the case may stop and whose data it may replace."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

from campaign import oracles
from campaign.arena import Arena, Cluster
from campaign.case import EVIDENCE
from campaign.replicas import created_once
from campaign.runner import own_operator
from campaign.violation import ViolationError
from kaiwo_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from campaign.scenarios import Scenario
    from kaiwo.testing.faults import Fault

BARE: Final = "batch_job,deployment,gpu_amd,gpu_nvidia"
"""Plugins for a control plane without addons."""


@contextlib.asynccontextmanager
async def own_control_plane(
    directory: Path, addons: Sequence[str] = (), generation: str = "newer"
) -> AsyncIterator[Arena]:
    """Start a control plane, and remove it at the end.

    Args:
        directory: of the case; gets the evidence if the case fails.
        addons: that it has.
        generation: of the addons.

    Yields:
        A namespace on it, without an operator.
    """
    name = f"campaign-{secrets.token_hex(4)}"
    up = partial(Sandbox.up, name, addons=addons, generation=generation, owned=True)
    starting = asyncio.ensure_future(asyncio.to_thread(up))
    try:
        sandbox = await asyncio.shield(starting)
        async with (
            Cluster(sandbox) as cluster,
            own_operator(cluster, await cluster.namespace("case")) as arena,
        ):
            try:
                yield arena
            except BaseException:
                _write_evidence(arena, directory / EVIDENCE)
                raise
    finally:
        sandbox = await starting  # also of a case whose time ran out meanwhile
        await asyncio.to_thread(sandbox.down)


def _write_evidence(arena: Arena, target: Path) -> None:
    """Keep the log of the operator, its requests, and the logs of the programs of the control plane."""
    shutil.copytree(arena.cluster.sandbox.directory / "logs", target)
    (target / "operator.log").write_text(arena.operator.log if arena.operator else "")
    requests = (
        f"{record.code:3d} {record.method} {record.path}?{record.query}" for record in arena.proxy.records
    )
    (target / "requests.txt").write_text("\n".join(requests))


async def hold(arena: Arena, *scenarios: Scenario) -> None:
    """Every oracle that needs no run without a fault."""
    for scenario in scenarios:
        await arena.reaches(scenario)
        await oracles.truthful(arena, scenario)
    # A workload that a backup undid was submitted twice, and its child was made for both.
    created_once(arena.proxy.records, f"/namespaces/{arena.namespace}/", arena.submitted)
    await oracles.at_rest(arena, 2.0)
    oracles.bounded(arena)
    if arena.operator is not None:
        oracles.no_traceback(arena.operator)
        await oracles.no_secret_shown(arena.cluster, arena.namespace, arena.operator.log)


async def came(fault: Fault) -> None:
    """Wait until a fault took place.

    Raises:
        ViolationError: it did not.
    """
    try:
        await fault.wait(60)
    except AssertionError as error:
        raise ViolationError("fault", str(error)) from None
