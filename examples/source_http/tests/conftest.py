"""Lets the tests run from a checkout in which the package is not installed; a web server; an installation."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.testing.wheels import WheelEnvironment, build_wheels, install

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[1]
ROOT = PACKAGE.parents[1]
sys.path.insert(0, str(PACKAGE))

PROJECTS = (ROOT, ROOT / "plugins" / "batch_job", ROOT / "plugins" / "storage_s3_gcs_azure_git_hf", PACKAGE)
CONTENT = bytes(range(256)) * 4000


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """URL of a web server with the file ``models/tiny 1.bin``."""
    folder = tmp_path / "web" / "models"
    folder.mkdir(parents=True)
    (folder / "tiny 1.bin").write_bytes(CONTENT)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder.parent)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> WheelEnvironment:
    """The host, two of its plugins and this package from wheels, in an empty environment."""
    directory = tmp_path_factory.mktemp("installed-source")
    wanted = [
        "kaiwo",
        "kaiwo-batch-job",
        "kaiwo-storage-s3-gcs-azure-git-hf[download]",
        "kaiwo-source-http",
    ]
    return install(build_wheels(PROJECTS, directory), wanted, ROOT / "constraints.txt", directory)


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="session")
def cluster(installed: WheelEnvironment) -> Iterator[Any]:
    """A control plane of its own with the CRDs of what is installed, and the installed operator beside it."""
    from kaiwo_sandbox.sandbox import Sandbox

    crds = list(yaml.safe_load_all(installed.run("kaiwo", "manifests", "crds").stdout))
    sandbox = Sandbox.up(f"source-{os.getpid()}-{secrets.token_hex(2)}", owned=True)
    try:
        for crd in crds:
            sandbox.api.apply(f"{CRDS}/{crd['metadata']['name']}", crd)
        for crd in crds:
            _wait_until_served(sandbox.api, crd["metadata"]["name"])
        sandbox.create_namespace("example")
        flags = ["--kubeconfig", str(sandbox.kubeconfig), "--metrics-address", "127.0.0.1:0"]
        with (
            (installed.directory / "operator.log").open("wb") as log,
            subprocess.Popen(
                [installed.program("kaiwo"), "operator", "run", "--no-leader-election", *flags],
                env=installed.environment,
                stdout=log,
                stderr=log,
            ) as operator,
        ):
            try:
                yield sandbox
            finally:
                operator.terminate()
    finally:
        sandbox.down()


def _wait_until_served(api: Any, name: str) -> None:
    with closing(api.watch(f"{CRDS}?fieldSelector=metadata.name%3D{name}", timeout=120)) as changes:
        for change in changes:
            conditions = change["object"].get("status", {}).get("conditions") or []
            if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                return
