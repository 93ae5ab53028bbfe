"""Lets the tests run from a checkout in which the package is not installed; an operator with the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[1]
sys.path.insert(0, str(PACKAGE))

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STUB_CRD = Path(__file__).with_name("jobset_crd.yaml")
KAIWO = Path(sys.executable).with_name("kaiwo")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables of a process in which the plugin is installed, as pip would install it."""
    site = tmp_path_factory.mktemp("site")
    info = site / "kaiwo_backend_jobset-0.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: kaiwo-backend-jobset\nVersion: 0.2.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(
        "[kaiwo.plugins]\nbackend_jobset = kaiwo_backend_jobset.plugin\n\n"
        "[kaiwo.fields]\nKaiwoJob.jobSet = kaiwo_backend_jobset\n",
        encoding="utf-8",
    )
    return {**os.environ, "PYTHONPATH": f"{PACKAGE}{os.pathsep}{site}"}


@pytest.fixture(scope="session")
def cluster(control_plane: Any, environment: dict[str, str]) -> Any:
    """The sandbox with Kaiwo's CRDs, which have the plugin's field, and a CRD for JobSets."""
    rendered = subprocess.run(
        [KAIWO, "manifests", "crds"], env=environment, capture_output=True, text=True, check=True
    )
    documents = [*yaml.safe_load_all(rendered.stdout), yaml.safe_load(STUB_CRD.read_text(encoding="utf-8"))]
    for crd in documents:
        name = crd["metadata"]["name"]
        control_plane.api.apply(f"{CRDS}/{name}", crd)
        _wait_until_established(control_plane.api, name)
    _wait_until_served(control_plane.api, "/apis/jobset.x-k8s.io/v1alpha2/jobsets")
    return control_plane


@pytest.fixture
def operator(cluster: Any, namespace: str, environment: dict[str, str], tmp_path: Path) -> Iterator[None]:
    """An operator of one namespace, with the plugin selected."""
    command = [KAIWO, "operator", "run", "--no-leader-election", "--kubeconfig", str(cluster.kubeconfig)]
    command += ["--metrics-address", "127.0.0.1:0", "--watch-namespace", namespace]
    selected = {**environment, "KAIWO_PLUGINS": "batch_job,backend_jobset"}
    with (
        (tmp_path / "operator.log").open("wb") as log,
        subprocess.Popen(command, env=selected, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


def _wait_until_established(api: Any, name: str) -> None:
    with closing(api.watch(f"{CRDS}?fieldSelector=metadata.name%3D{name}", timeout=120)) as changes:
        for change in changes:
            conditions = change["object"].get("status", {}).get("conditions") or []
            if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                return


def _wait_until_served(api: Any, collection: str) -> None:
    """A moment after a CRD is established, the API server still answers "storage is (re)initializing"."""
    from kaiwo_sandbox.api import SandboxApiError

    for _ in range(300):
        try:
            api.get(collection)
        except SandboxApiError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"{collection} is not served")
