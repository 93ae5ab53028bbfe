"""What a caller may do, as a real API server answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kaiwo.engine.access_review import is_allowed
from kaiwo.engine.client import Client
from kaiwo.engine.resource import JOB, NODE, POD, Resource

if TYPE_CHECKING:
    from kaiwo.engine.credentials import Connection

pytestmark = pytest.mark.cluster

_RBAC = "rbac.authorization.k8s.io"
ROLE = Resource(_RBAC, "v1", "Role", "roles")
ROLE_BINDING = Resource(_RBAC, "v1", "RoleBinding", "rolebindings")


async def test_a_right_is_for_a_verb_a_kind_a_namespace_and_a_subresource(
    client: Client, connection: Connection, namespace: str
) -> None:
    """A role for ``get pods/log`` in one namespace allows that, and nothing beside it."""
    user = f"reader-of-{namespace}"
    head = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": "log-reader", "namespace": namespace}}
    rule = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}
    await client.create(ROLE, {**head, "kind": "Role", "rules": [rule]})
    role = {"apiGroup": _RBAC, "kind": "Role", "name": "log-reader"}
    subject = {"apiGroup": _RBAC, "kind": "User", "name": user}
    binding = {**head, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]}
    await client.create(ROLE_BINDING, binding)
    connection.impersonation = (("Impersonate-User", user),)
    async with Client(connection) as reader:
        async with asyncio.timeout(60):  # roles take a moment to be read
            while not await is_allowed(reader, "get", POD, namespace, "log"):
                await asyncio.sleep(0.1)
        assert not await is_allowed(reader, "get", POD, namespace)
        assert not await is_allowed(reader, "delete", POD, namespace, "log")
        assert not await is_allowed(reader, "get", POD, subresource="log")
        assert not await is_allowed(reader, "get", POD, "default", "log")
        assert not await is_allowed(reader, "get", NODE)


async def test_an_administrator_may_everything_also_what_is_not_served(client: Client) -> None:
    """A right to a kind is known before its definition is installed."""
    assert await is_allowed(client, "delete", JOB, "default")
    assert await is_allowed(client, "delete", NODE)
    assert await is_allowed(client, "delete", Resource("example.org", "v1", "Absent", "absents"), "default")
