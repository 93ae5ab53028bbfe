"""``kaiwo manage`` against a real API server: live, through an outage, and without all rights."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import click
import pytest

from kaiwo.cli.manage.app import ManageApp
from kaiwo.cli.manage.source import ClusterSource
from kaiwo.cli.options import GlobalOptions
from kaiwo.client.kinds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.engine.credentials import load, static
from kaiwo.engine.resource import Resource
from kaiwo.testing.fault_proxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("crds")]


def job(name: str) -> Any:
    """A KaiwoJob that nothing reconciles."""
    return {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {"name": name},
        "spec": {"image": "example.org/train:1", "gpus": 1, "user": "ann"},
    }


def text(app: ManageApp) -> str:
    """The characters on the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def until(pilot: Pilot[None], holds: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, text(pilot.app)  # type: ignore[arg-type]
        await pilot.pause(0.1)


async def test_the_list_is_live_through_an_outage(control_plane: Any, namespace: str) -> None:
    """A job appears, changes and goes by the watch; a line says that no answer comes, until it is mended."""
    api, path = control_plane.api, KAIWO_JOB.path(namespace)
    await asyncio.to_thread(api.create, path, job("first"))
    async with FaultProxy(load(str(control_plane.kubeconfig), None)) as proxy:
        app = ManageApp(ClusterSource(proxy.connection, namespace), namespace=namespace)
        context = click.Context(click.Command("manage"), obj=GlobalOptions())
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: "> first" in text(app))
            await asyncio.to_thread(api.create, path, job("second"))
            await until(pilot, lambda: "second" in text(app))
            assert sum(record.method == "GET" for record in proxy.records) <= 6
            fault = proxy.reset(path="kaiwo", times=None)
            await proxy.cut_watches()
            await until(pilot, lambda: "no answer from the API server" in text(app))
            await fault.wait()
            assert "second" in text(app)
            await asyncio.to_thread(api.create, path, job("third"))
            proxy.clear()
            await until(pilot, lambda: "third" in text(app) and "no answer" not in text(app))
            with context:
                await pilot.press("enter")
                await until(pilot, lambda: "not yet observed by an operator" in text(app))
            await pilot.press("escape", "d", "y")
            await until(pilot, lambda: len(app.table.rows) == 2)
        assert app.failure is None


async def test_a_missing_right_hides_only_its_kind(control_plane: Any, namespace: str) -> None:
    """Jobs are shown to a user who may not list services, and the line names the right."""
    api = control_plane.api
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces"
    accounts = Resource("", "v1", "ServiceAccount", "serviceaccounts").path(namespace)

    def prepare() -> str:
        api.create(KAIWO_JOB.path(namespace), job("mine"))
        api.create(accounts, {"metadata": {"name": "ann"}})
        rule = {"apiGroups": [KAIWO_JOB.group], "resources": ["kaiwojobs"], "verbs": ["list", "watch"]}
        api.create(f"{rbac}/{namespace}/roles", {"metadata": {"name": "jobs"}, "rules": [rule]})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jobs"}
        subject = {"kind": "ServiceAccount", "name": "ann", "namespace": namespace}
        binding = {"metadata": {"name": "jobs"}, "roleRef": reference, "subjects": [subject]}
        api.create(f"{rbac}/{namespace}/rolebindings", binding)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(api.create(f"{accounts}/ann/token", request)["status"]["token"])

    token = await asyncio.to_thread(prepare)
    connection = static(control_plane.url, token=token, ca_file=control_plane.ca_file)
    app = ManageApp(ClusterSource(connection, namespace), namespace=namespace)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "> mine" in text(app))
        await until(pilot, lambda: f"! not allowed to list {KAIWO_SERVICE}" in text(app))
