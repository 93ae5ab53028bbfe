"""Fixtures for tests with a real node: the operator runs on this machine, the containers really run."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE, render_crds
from kaiwo.plugin.loader import load as load_plugins
from kaiwo.testing.operator import OperatorProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo.engine.resource import Object, Resource
    from kaiwo_sandbox.sandbox import Sandbox

_HERE = Path(__file__).parent
_MOST_SECONDS = 300
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SMALL = {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}}
"""The default of two CPUs and 16 GiB would let one workload run at a time, or none."""
_log = logging.getLogger(__name__)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need the real node, and wait for containers."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.node)
            item.add_marker(pytest.mark.timeout(_MOST_SECONDS))


def wait_for(what: str, read: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Call `read` until it returns something true, and return that.

    Raises:
        AssertionError: it does not in time; with what it returned last.
    """
    deadline = time.monotonic() + seconds
    while not (found := read()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:.0f} s: {found!r}"
        time.sleep(0.2)
    return found


@pytest.fixture(name="wait_for", scope="session")
def wait_for_fixture() -> Callable[..., Any]:
    """Wait for a condition: ``wait_for("the pod's end", read)``."""
    return wait_for


@pytest.fixture(scope="session")
def crds(real_node: Sandbox) -> None:
    """The CRDs of all installed plugins, served by the sandbox with the real node."""
    plugins = load_plugins()
    definitions = render_crds(plugins.fields(), plugins.settings_models(), kinds=plugins.kinds())
    for definition in definitions:
        real_node.api.apply(f"{_CRDS}/{definition['metadata']['name']}", definition)
    real_node.create_crds(definitions)


@pytest.fixture(scope="session")
def operator(real_node: Sandbox, crds: None) -> Iterator[OperatorProcess]:
    """The operator for all namespaces, as a process of this machine, without queues."""
    del crds
    process = OperatorProcess(
        kubeconfig=real_node.kubeconfig,
        leader_election=False,
        env={"KAIWO_PLUGINS_DISABLED": "kueue,node_pools"},
    )
    with process:
        process.wait_ready()
        yield process
    _log.warning("the operator's log:\n%s", process.log)


class Lab:
    """What a user does and sees in one namespace of the real node."""

    def __init__(self, sandbox: Sandbox, namespace: str) -> None:
        self.sandbox = sandbox
        self.api = sandbox.api
        self.namespace = namespace
        self.core = f"/api/v1/namespaces/{namespace}"

    def path(self, kind: Resource, name: str = "") -> str:
        """The path of a workload, or of the workloads of a kind."""
        base = f"/apis/{kind.api_version}/namespaces/{self.namespace}/{kind.plural}"
        return f"{base}/{name}" if name else base

    def submit(self, name: str, **spec: Any) -> None:
        """Create a KaiwoJob, with the python image and few resources unless the spec says otherwise."""
        self._create(KAIWO_JOB, name, spec)

    def serve(self, name: str, **spec: Any) -> None:
        """Create a KaiwoService, with the python image and few resources unless the spec says otherwise."""
        self._create(KAIWO_SERVICE, name, spec)

    def _create(self, kind: Resource, name: str, spec: Object) -> None:
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name},
            "spec": {"image": "registry.sandbox/python:3", "resources": SMALL, **spec},
        }
        self.api.create(self.path(kind), body)

    def status(self, kind: Resource, name: str) -> Object:
        """The status of a workload, empty before the first."""
        found: Object = self.api.get(self.path(kind, name)).get("status") or {}
        return found

    def status_of_job(self, name: str) -> Object:
        """The status of a KaiwoJob, empty before the first."""
        return self.status(KAIWO_JOB, name)

    def delete(self, name: str, kind: Resource = KAIWO_JOB) -> None:
        """Request the deletion of a workload."""
        self.api.request("DELETE", self.path(kind, name))

    def reaches(self, name: str, *words: str, kind: Resource = KAIWO_JOB, seconds: float = 90.0) -> Object:
        """Wait until the workload has one of these statuses, and return its status."""
        last: Object = {}

        def reached() -> Object | None:
            nonlocal last
            last = self.status(kind, name)
            return last if last.get("status") in words else None

        try:
            found: Object = wait_for(f"{name}: {' or '.join(words)}", reached, seconds)
        except AssertionError as error:
            details = {"status": last, "pods": [pod.get("status") for pod in self.pods(name)]}
            raise AssertionError(f"{error}\n{json.dumps(details, indent=1)}") from error
        return found

    def pods(self, workload: str) -> list[Object]:
        """The pods of a workload."""
        selector = f"labelSelector=kaiwo.silogen.ai%2Fname%3D{workload}"
        found: list[Object] = self.api.get(f"{self.core}/pods?{selector}")["items"]
        return found

    def pod(self, workload: str) -> Object:
        """The only pod of a workload, once it exists."""
        (pod,) = wait_for(f"a pod of {workload}", lambda: self.pods(workload))
        found: Object = pod
        return found

    def log(self, workload: str) -> str:
        """What the only pod of a workload has written."""
        found: str = self.api.get(f"{self.core}/pods/{self.pod(workload)['metadata']['name']}/log")
        return found

    def terminated(self, workload: str) -> Object:
        """How the container of the only pod of a workload ended, as the kubelet reports it."""
        (container,) = self.pod(workload)["status"]["containerStatuses"]
        found: Object = container["state"]["terminated"]
        return found


@pytest.fixture
def lab(real_node: Sandbox, node_namespace: str, operator: OperatorProcess) -> Lab:
    """The user's side, in a namespace of the test's own."""
    del operator
    return Lab(real_node, node_namespace)
