"""Fixtures for tests with a real node: the operator runs on this machine, the containers really run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config
from kubernetes.stream import stream

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB, KAIWO_SERVICE, render_crds
from kaiwo.plugin.loader import load as load_plugins
from kaiwo.testing.operator import OperatorProcess
from kaiwo.testing.wheels import build_wheels, install
from kaiwo_sandbox import process
from kaiwo_sandbox.api import SandboxApiError
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import cache_dir
from kaiwo_sandbox.real_node import namespaces
from kaiwo_sandbox.real_node.configuration import CONTAINERD_SOCKET
from kaiwo_sandbox.real_node.images import recipes
from kaiwo_sandbox.real_node.images.layers import copy_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo.engine.resource import Object, Resource
    from kaiwo_sandbox.sandbox import Sandbox

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_DEPLOY = _ROOT / "deploy"
_MOST_SECONDS = 600
_COMMAND_SECONDS = 180
_OWN_NODES = frozenset({"test_demo.py", "test_machine.py"})
_OWN_CRDS = "test_chart.py"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RAY_VERSION = "2.60.0"
SMALL = {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}}
"""The default of two CPUs and 16 GiB would let one workload run at a time, or none."""
_log = logging.getLogger(__name__)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need the real node, and wait for containers.

    Those that start a node of their own come first: a machine runs one, and the others share one. Then come
    those that install the CRDs and remove them.
    """

    def turn(item: pytest.Item) -> int:
        if not item.path.is_relative_to(_HERE) or item.path.name in _OWN_NODES:
            return 0
        return 1 if item.path.name == _OWN_CRDS else 2

    items.sort(key=turn)
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


@pytest.fixture(scope="module")
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


def _environment(name: str, projects: list[Path], requirements: list[str]) -> Path:
    """An environment with wheels of these projects, in the cache until a source or a requirement changes."""
    sources = [
        file
        for project in projects
        for file in sorted([project / "pyproject.toml", *project.glob("kaiwo*/**/*")])
        if file.is_file() and "__pycache__" not in file.parts
    ]
    digest = hashlib.sha256((_ROOT / "constraints.txt").read_bytes() + "\n".join(requirements).encode())
    for file in sources:
        digest.update(str(file.relative_to(_ROOT)).encode() + b"\0" + file.read_bytes())
    root = cache_dir() / "environments"
    target = root / f"{name}-{digest.hexdigest()[:16]}"
    with locked(cache_dir() / "environments.lock"):
        if not (target / "complete").exists():
            for older in root.glob(f"{name}-*"):
                shutil.rmtree(older)
            target.mkdir(parents=True)
            with tempfile.TemporaryDirectory() as temporary:
                wheels = build_wheels(projects, Path(temporary)) if projects else Path(temporary)
                install(wheels, requirements, _ROOT / "constraints.txt", target)
            compiled = ["compileall", "-q", "-j", "2", "--invalidation-mode", "unchecked-hash"]
            subprocess.run([sys.executable, "-m", *compiled, str(target / "venv" / "lib")], check=False)
            (target / "complete").touch()
    return target / "venv"


@pytest.fixture(scope="session")
def operator_image(real_node: Sandbox) -> str:
    """The operator's image, made of wheels of this working tree and started as its recipe says."""
    plugins = sorted(path.parent for path in _ROOT.glob("plugins/*/pyproject.toml"))
    projects = [_ROOT, *(each for each in plugins if each.name != "sandbox")]
    names = [tomllib.loads((each / "pyproject.toml").read_text())["project"]["name"] for each in projects]
    environment = _environment("operator", projects, names)
    return real_node.add_image(recipes.operator(environment, _DEPLOY / "operator/Containerfile"))


@pytest.fixture(scope="session")
def download_image(real_node: Sandbox) -> str:
    """The image of download pods, made of wheels of this working tree and started as its recipe says."""
    storage = _ROOT / "plugins" / "storage_s3_gcs_azure_git_hf"
    requirements = ["kaiwo-storage-s3-gcs-azure-git-hf[download]"]
    environment = _environment("download", [_ROOT, storage], requirements)
    return real_node.add_image(recipes.downloader(environment, _DEPLOY / "downloader/Containerfile"))


@pytest.fixture(scope="session")
def ray_image(real_node: Sandbox) -> str:
    """An image with Ray from the package index, and the programs of `ray_app`."""
    requirements = [f"ray[default,serve]=={RAY_VERSION}"]
    files = copy_tree(_HERE / "ray_app", "app", skip=frozenset({"__pycache__"}))
    return real_node.add_image(recipes.ray(_environment("ray", [], requirements), files))


@pytest.fixture(scope="module")
def configure(real_node: Sandbox, operator: OperatorProcess) -> Callable[..., None]:
    """Set fields of KaiwoConfig: ``configure(ray={...})``."""
    del operator
    path = f"/apis/{KAIWO_CONFIG.api_version}/{KAIWO_CONFIG.plural}/kaiwo"

    def patch(**spec: Any) -> None:
        def patched() -> bool:
            # The operator creates the object a moment after it is ready.
            with contextlib.suppress(SandboxApiError):
                content = "application/merge-patch+json"
                real_node.api.request("PATCH", path, {"spec": spec}, content_type=content)
                return True
            return False

        wait_for("KaiwoConfig", patched)

    return patch


@pytest.fixture(scope="module")
def downloads(configure: Callable[..., None], download_image: str) -> None:
    """KaiwoConfig names the image of download pods, and requests few resources for them."""
    configure(storage={"downloadImage": download_image, "downloadResources": SMALL})


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

    def secret(self, name: str, **values: str) -> None:
        """Create a Secret."""
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}
        self.api.create(f"{self.core}/secrets", body)

    def kill(self, pod: Object) -> None:
        """Kill the first container of a pod, as the kernel does when memory is short."""
        container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        init = process.recorded(self.sandbox.directory)["real-node"]
        ctr = ["ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"]
        namespaces.run(init.pid, [*ctr, "task", "kill", "--signal", "SIGKILL", container])

    def execute(self, pod: Object, *command: str) -> str:
        """Run a command in the first container of a pod; its output and its errors."""
        name = pod["metadata"]["name"]
        loaded = new_client_from_config(str(self.sandbox.kubeconfig))
        with loaded as client:
            running = stream(
                CoreV1Api(client).connect_get_namespaced_pod_exec,
                name,
                self.namespace,
                command=list(command),
                stdout=True,
                stderr=True,
                stdin=False,
                tty=False,
                _preload_content=False,  # else the connection stays open
            )
            running.run_forever(timeout=60)
            output: str = running.read_all()
            running.sock.shutdown()  # its close() leaves the socket open if the server closed first
        return output

    def kaiwo(
        self, *arguments: str, stdin: bytes = b"", directory: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the namespace to its end, as the user would."""
        return subprocess.run(
            self._command(arguments),
            env=self._environment,
            cwd=directory,
            input=stdin,
            capture_output=True,
            check=False,
            timeout=_COMMAND_SECONDS,
        )

    @contextlib.contextmanager
    def kaiwo_running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command that goes on, with its standard output to read; it is interrupted at the end."""
        running = subprocess.Popen(
            self._command(arguments),
            env=self._environment | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            with running:
                try:
                    yield running
                finally:
                    running.send_signal(signal.SIGINT)
        finally:
            running.kill()

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        program = Path(sys.executable).with_name("kaiwo")
        command, *others = arguments
        return [str(program), command, "-n", self.namespace, *others]

    @property
    def _environment(self) -> dict[str, str]:
        """This cluster, and no configuration of the user."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAIWO", "KUBE"))}
        return kept | {"KUBECONFIG": str(self.sandbox.kubeconfig), "KAIWOCONFIG": os.devnull}

    def terminated(self, workload: str) -> Object:
        """How the container of the only pod of a workload ended, as the kubelet reports it."""
        (container,) = self.pod(workload)["status"]["containerStatuses"]
        found: Object = container["state"]["terminated"]
        return found


@pytest.fixture
def bare_lab(real_node: Sandbox, node_namespace: str) -> Lab:
    """The user's side, without an operator on this machine."""
    return Lab(real_node, node_namespace)


@pytest.fixture
def lab(real_node: Sandbox, node_namespace: str, operator: OperatorProcess) -> Lab:
    """The user's side, in a namespace of the test's own."""
    del operator
    return Lab(real_node, node_namespace)
