"""``kaiwo doctor`` against a real API server: before an installation, and as a user with few rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.client.doctor.result import DoctorScope
from kaiwo.client.doctor.run import check_cluster
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load as load_connection
from kaiwo.engine.credentials import static
from kaiwo.engine.resource import Resource
from kaiwo.plugin.loader import load

if TYPE_CHECKING:
    from kaiwo.client.doctor.result import DoctorReport
    from kaiwo.engine.credentials import Connection

pytestmark = pytest.mark.cluster

ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")


async def report(connection: Connection, namespace: str) -> DoctorReport:
    """All checks."""
    scope = DoctorScope(load(), namespace, operator="kaiwo-operator", installation="kaiwo-system")
    async with Client(connection) as api:
        return await check_cluster(api, scope)


async def test_a_bare_cluster_lacks_kaiwo_and_nothing_else(control_plane: Any, namespace: str) -> None:
    """The fixes name what to install; nodes, storage and rights of an administrator are fine."""
    found = await report(load_connection(str(control_plane.kubeconfig), None), namespace)
    states = {check.name: check.state for check in found.checks}
    expected = ("api-server", "clock", "rights", "namespace", "storage-classes", "gpus")
    assert {name: states[name] for name in expected} == dict.fromkeys(expected, "ok")
    assert (states["operator"], states["leader"], states["kueue.x-k8s.io"]) == ("failed", "failed", "failed")
    assert states["ray.io"] == "warning"
    assert all(check.fix for check in found.checks if check.state == "failed")


async def test_a_user_without_rights_learns_which_are_missing(control_plane: Any, namespace: str) -> None:
    """Every check that cannot read says what it may not; only the missing rights fail."""
    api = control_plane.api
    api.create(ACCOUNT.path(namespace), {"metadata": {"name": "ann", "namespace": namespace}})
    token = api.create(
        ACCOUNT.path(namespace, "ann", "token"),
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": {}},
    )["status"]["token"]
    found = await report(static(control_plane.url, token=token, ca_file=control_plane.ca_file), namespace)
    states = {check.name: check.state for check in reversed(found.checks)}
    assert states["rights"] == "failed"
    hidden = ("namespace", "operator", "leader", "webhooks", "storage-classes", "gpus")
    assert {name: states[name] for name in hidden} == dict.fromkeys(hidden, "unknown")
    rights = next(check for check in found.checks if check.name == "rights")
    assert f"system:serviceaccount:{namespace}:ann may not create" in rights.message
    gpus = next(check for check in found.checks if check.name == "gpus")
    assert gpus.message == "not allowed to list nodes in the cluster"
