"""What users install: wheels, in an environment where nothing else is."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kaiwo.testing.wheels import WheelEnvironment, build_wheels, install

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT, *sorted(path.parent for path in (*ROOT.glob("plugins/*/pyproject.toml"),))]
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
VENDORS = [example for example in EXAMPLES if example.name.startswith("gpu_")]

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: node-1}
spec: {}
status:
  allocatable: {cpu: "96", memory: 1024Gi, pods: "250", RESOURCE: "8"}
  capacity: {cpu: "96", memory: 1024Gi, pods: "250", RESOURCE: "8"}
  conditions: [{type: Ready, status: "True"}]
"""

JOB = """\
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoJob
metadata: {name: train, namespace: default}
spec:
  gpus: 2
  gpuVendor: VENDOR
  image: registry.example/train:1
  entrypoint: python train.py
"""


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a wheel of every distribution of the repository."""
    projects = [*PROJECTS, *EXAMPLES]
    found = build_wheels(projects, tmp_path_factory.mktemp("built"))
    assert len(list(found.glob("*.whl"))) == len(projects)
    return found


@dataclass(frozen=True)
class Installed:
    """An environment with the host, the backend for batch Jobs and one third party's vendor.

    Attributes:
        installation: the environment.
        distribution: the third party's distribution.
    """

    installation: WheelEnvironment
    distribution: str

    @property
    def directory(self) -> Path:
        """Where programs run."""
        return self.installation.directory

    def kaiwo(self, *arguments: str) -> str:
        """Run the installed command line, which must succeed; its standard output."""
        done = self.installation.run("kaiwo", *arguments)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def plugins(self) -> list[dict[str, Any]]:
        """What ``kaiwo plugins`` says."""
        found: list[dict[str, Any]] = json.loads(self.kaiwo("plugins", "-o", "json"))
        return found


@pytest.fixture(scope="session", params=VENDORS, ids=lambda project: project.name)
def installed(
    request: pytest.FixtureRequest, wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    """The host, ``kaiwo-batch-job`` and one example vendor, from wheels in an empty environment."""
    distribution = f"kaiwo-{request.param.name.replace('_', '-')}"
    wanted = ["kaiwo", "kaiwo-batch-job", distribution]
    directory = tmp_path_factory.mktemp("installed")
    return Installed(install(wheels, wanted, ROOT / "constraints.txt", directory), distribution)


def test_exactly_the_installed_plugins_are_loaded(installed: Installed) -> None:
    """What one installs is what one gets: the backend, the third party's vendor, and nothing else."""
    states = {plugin["distribution"]: plugin["state"] for plugin in installed.plugins()}
    assert states == {"kaiwo-batch-job": "loaded", installed.distribution: "loaded"}


def test_the_crds_have_the_fields_of_installed_plugins_only(installed: Installed) -> None:
    """KaiwoJob knows ``job``, and no field of a backend or source that is not installed."""
    rendered = list(yaml.safe_load_all(installed.kaiwo("manifests", "crds")))
    properties = {}
    for crd in rendered:
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        properties[crd["spec"]["names"]["kind"]] = schema["properties"]["spec"]["properties"]
    assert set(properties) == {"KaiwoJob", "KaiwoService", "KaiwoConfig"}
    assert "job" in properties["KaiwoJob"]
    assert not {"rayJob", "deployment", "rayService"} & set(properties["KaiwoJob"])
    assert not {"job", "deployment", "rayService", "serveConfigV2"} & set(properties["KaiwoService"])
    download = properties["KaiwoJob"]["storage"]["properties"]["data"]["properties"].get("download", {})
    assert "properties" not in download


def test_a_job_is_rendered_with_the_third_partys_resource(installed: Installed) -> None:
    """A workload that names the third party's vendor requests the third party's resource."""
    (plugin,) = [p for p in installed.plugins() if p["distribution"] == installed.distribution]
    (vendor,), (resource,) = plugin["declares"]["gpuVendors"], plugin["declares"]["resourceKeys"]
    (installed.directory / "job.yaml").write_text(JOB.replace("VENDOR", vendor), encoding="utf-8")
    (installed.directory / "nodes.yaml").write_text(NODE.replace("RESOURCE", resource), encoding="utf-8")
    planned = installed.kaiwo("plan", "-f", "job.yaml", "--offline", "--nodes", "nodes.yaml", "-o", "yaml")
    (job,) = [obj for obj in yaml.safe_load_all(planned) if obj and obj.get("kind") == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"][resource] == "2"
    assert container["resources"]["requests"][resource] == "2"
    assert not any("amd.com" in key or "nvidia.com" in key for key in container["resources"]["limits"])


def test_no_code_of_the_project_mentions_an_example() -> None:
    """The host and its plugins know no third party: an example is found by what it declares alone."""
    # Tool configuration at the root may list the folder and guides may link to it. What is shipped or tested
    # may not.
    rooms = ["kaiwo", "plugins", "tests", "deploy", "bench", "README.md"]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *rooms],  # noqa: S607 - the machine's git
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    tracked = listed.stdout.split("\0")
    names = [example.name for example in EXAMPLES]
    # A vendor's own name is a word that nobody else uses; "http" is not.
    words = [*names, *(name.replace("_", "-") for name in names), *(v.name.split("_")[-1] for v in VENDORS)]
    assert len(words) >= 5
    files = [path for path in (ROOT / name for name in tracked if name) if path.is_file()]
    texts = {path: path.read_bytes().lower() for path in files}
    assert [str(path) for path, text in texts.items() if any(word.encode() in text for word in words)] == []
