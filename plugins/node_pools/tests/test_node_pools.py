from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kaiwo import testing
from kaiwo.engine.errors import ApiError, NotFound
from kaiwo_node_pools import plugin
from kaiwo_node_pools.pool_limit import HIGHEST, READ_AGAIN, PoolLimit

Object = dict[str, Any]


def test_only_this_plugin_may_patch_nodes() -> None:
    """No wildcard and nothing about Secrets; the one write is the patch of a node."""
    loaded = testing.plugins(plugin)
    assert loaded.labels_nodes
    words = {word for rule in loaded.rules() for word in (*rule.groups, *rule.resources, *rule.verbs)}
    assert not words & {"*", "secrets", "create", "update", "delete"}
    assert [rule.resources for rule in loaded.rules() if "patch" in rule.verbs] == [("nodes",)]


def crd(**limits: int) -> Object:
    """The CRD of ClusterQueue with a limit of flavors for each version."""
    versions = []
    for name, limit in limits.items():
        flavors = {"type": "array", "maxItems": limit}
        groups = {"type": "array", "items": {"properties": {"flavors": flavors}}}
        schema = {"properties": {"spec": {"properties": {"resourceGroups": groups}}}}
        versions.append({"name": name, "served": True, "schema": {"openAPIV3Schema": schema}})
    return {"spec": {"versions": versions}}


class Api:
    """Answers a get with what it was given last."""

    def __init__(self, answer: Object | Exception) -> None:
        self.answer = answer

    async def get(self, *_: object) -> Object:
        """The CRD, or the failure."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "limit"),
    [
        (crd(v1beta1=16), 16),
        (crd(v1beta1=64, v1beta2=64), 64),
        ({"spec": {}}, HIGHEST),
        (NotFound(404, "NotFound", "no such CRD"), HIGHEST),
        (ApiError(403, "Forbidden", "no right"), HIGHEST),
    ],
)
def test_there_are_as_many_pools_as_kueue_takes_flavors(answer: Any, limit: int) -> None:
    """Read from the CRD; without Kueue, or when it cannot be read, the widest limit holds."""
    assert asyncio.run(PoolLimit(Api(answer)).read()) == limit  # type: ignore[arg-type]


def test_the_limit_is_read_again_after_a_while() -> None:
    """Kueue may be upgraded while the operator runs; a failure keeps the last known limit."""
    now = 0.0
    api = Api(crd(v1beta1=16))
    limit = PoolLimit(api, clock=lambda: now)  # type: ignore[arg-type]

    async def read() -> int:
        return await limit.read()

    assert asyncio.run(read()) == 16
    api.answer = crd(v1beta2=64)
    assert asyncio.run(read()) == 16
    now = READ_AGAIN
    assert asyncio.run(read()) == 64
    api.answer = ApiError(500, "InternalError", "gone")
    now = 2 * READ_AGAIN
    assert asyncio.run(read()) == 64
