"""Two operators share a cluster: each reconciles the namespaces of its shard, one writes in each of them."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.config_names import SHARD_LABEL
from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import NAMESPACE
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import OperatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kaiwo.engine.client import Client
    from kaiwo.engine.credentials import Connection

pytestmark = pytest.mark.cluster


@pytest.fixture
async def team_b(control_plane: Any, namespace: str) -> AsyncIterator[str]:
    """A second namespace."""
    name = f"{namespace[-50:].lstrip('-')}-b"
    await asyncio.to_thread(control_plane.create_namespace, name)
    yield name
    await asyncio.to_thread(control_plane.delete_namespace, name)


async def label(client: Client, namespace: str, shard: str) -> None:
    """Put a namespace into a shard."""
    await client.merge_patch(NAMESPACE, None, namespace, {"metadata": {"labels": {SHARD_LABEL: shard}}})


def written(proxy: FaultProxy, namespace: str) -> list[tuple[str, str]]:
    """Method and path of what an operator wrote in a namespace, but for Leases and Events."""
    return [(one.method, one.path) for one in proxy.writes() if f"/namespaces/{namespace}/" in one.path]


def made(proxy: FaultProxy, namespace: str) -> int:
    """Jobs that an operator created in a namespace, or tried to."""
    return written(proxy, namespace).count(("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs"))


async def test_two_shards_hand_namespaces_over_and_fail_apart(
    connection: Connection, lab: Any, crds: None, team_b: str, tmp_path: Path
) -> None:
    """Each workload has one Job and one writer, also when its namespace moves. A dead one stops no other."""
    del crds
    there, both = type(lab)(lab.client, team_b), (lab.namespace, team_b)
    names = [f"{letter}-{secrets.token_hex(3)}" for letter in "xy"]
    for namespace in both:
        await label(lab.client, namespace, names[0])
    async with FaultProxy(connection) as path_x, FaultProxy(connection) as path_y:
        paths = dict(zip(names, (path_x, path_y), strict=True))
        operators = [
            OperatorProcess(
                kubeconfig=path.write_kubeconfig(tmp_path / name),
                args=["--shard", name],
                env={"KAIWO_OPERATOR_NAMESPACE": lab.namespace, "KAIWO_PLUGINS_DISABLED": "kueue,node_pools"},
            ).start()
            for name, path in paths.items()
        ]
        try:
            await asyncio.gather(*(asyncio.to_thread(operator.wait_ready) for operator in operators))
            for place in (lab, there):
                await place.submit("long", pods={"kaiwo-sandbox/forever": "true"})
                await place.reaches("long", "RUNNING")
            assert written(path_y, lab.namespace) == written(path_y, team_b) == []

            await label(lab.client, team_b, names[1])
            await asyncio.to_thread(operators[1].wait_log, f"takes namespace {team_b}")
            before = len(written(path_x, team_b))
            await there.submit("second")
            await there.reaches("second", "COMPLETE")
            assert len(written(path_x, team_b)) == before

            await asyncio.to_thread(operators[0].kill)
            await lab.submit("waits")
            await there.submit("third")
            await there.reaches("third", "COMPLETE")
            assert "status" not in await lab.client.get(KAIWO_JOB, lab.namespace, "waits")

            await label(lab.client, lab.namespace, names[1])
            await lab.reaches("waits", "COMPLETE")
        finally:
            for operator in operators:
                await asyncio.to_thread(operator.close)
    found = {
        place.namespace: {job["metadata"]["name"] for job in await place.jobs()} for place in (lab, there)
    }
    assert found == {lab.namespace: {"long", "waits"}, team_b: {"long", "second", "third"}}
    assert [made(path_x, namespace) for namespace in both] == [1, 1]
    assert [made(path_y, namespace) for namespace in both] == [1, 2]
