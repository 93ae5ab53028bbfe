"""The recipes of the images: built step by step without a container engine, checked, and started."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import stat
import subprocess
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import render_crds
from kaiwo.plugin.loader import load as load_plugins
from kaiwo.testing.operator import OperatorProcess
from kaiwo_sandbox.demo.download_servers import BUCKET, KEY, USER, DownloadServers
from kaiwo_sandbox.paths import cache_dir
from kaiwo_sandbox.real_node.images import build, chroot, debian, store
from release.projects import host, plugins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo_sandbox.sandbox import Sandbox

OBSTACLE = debian.obstacle()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(OBSTACLE), reason=f"a recipe cannot be built here: {OBSTACLE}"),
]

ROOT = Path(__file__).parents[2]
IMAGES = pytest.mark.parametrize("name", ["operator", "downloader"])
MOST_MIB = {"operator": 190, "downloader": 370}
"""What the recipe may add to its base, uncompressed."""

JOB = {
    "apiVersion": "kaiwo.silogen.ai/v1alpha1",
    "kind": "KaiwoJob",
    "metadata": {"name": "train"},
    "spec": {"gpus": 1, "image": "registry.example/train:1", "entrypoint": "echo hello"},
}


@dataclass(frozen=True)
class BuiltImage:
    """An image as a registry would have it.

    Attributes:
        layout: a directory with an OCI image layout.
        digest: the digest of its manifest.
    """

    layout: Path
    digest: str

    def document(self, digest: str) -> Any:
        """A manifest or a configuration."""
        return json.loads(self.blob(digest).read_bytes())

    def blob(self, digest: str) -> Path:
        """The file of a blob."""
        algorithm, _, name = digest.partition(":")
        return self.layout / "blobs" / algorithm / name

    @property
    def manifest(self) -> Any:
        """The manifest."""
        return self.document(self.digest)

    @property
    def config(self) -> dict[str, Any]:
        """How a container is started, in the words of the OCI image configuration."""
        found: dict[str, Any] = self.document(self.manifest["config"]["digest"])["config"]
        return found


def made(name: str, directory: Path, **arguments: str) -> BuiltImage:
    """Build the image of a recipe from the working tree, with build arguments."""
    # The steps run as root and leave modes of their own, so pytest does not remove them.
    work = cache_dir() / f"build-{os.getpid()}-{directory.name}"
    work.mkdir(parents=True)
    try:
        recipe = ROOT / "deploy" / name / "Containerfile"
        builder = build.ImageBuilder(recipe, ROOT, debian.base(), work)
        image = builder.build(f"kaiwo-{name}:{host().version}", arguments)
        return BuiltImage(directory / "layout", store.write(image, directory / "layout"))
    finally:
        shutil.rmtree(work)


def unpacked(image: BuiltImage, target: Path) -> Path:
    """The files of a container: all layers, lowest first, with what they remove."""
    for layer in image.manifest["layers"]:
        with tarfile.open(image.blob(layer["digest"])) as archive:
            for member in archive:
                parent, _, name = member.name.rpartition("/")
                if name.startswith(".wh."):
                    removed = target / parent / name.removeprefix(".wh.")
                    shutil.rmtree(removed) if removed.is_dir() else removed.unlink()
                else:
                    archive.extract(member, target, filter="fully_trusted")
    return target


@dataclass(frozen=True)
class Container:
    """The files of an image, and how a kubelet starts it.

    Attributes:
        image: the image.
        root: its files.
    """

    image: BuiltImage
    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """The image's environment, and nothing of this machine's."""
        return dict(each.split("=", 1) for each in self.image.config["Env"])

    def command(self, *words: str, **mounts: Path) -> list[str]:
        """The entry point with these arguments, with files of this machine at ``/NAME``."""
        places = {f"/{name}": path for name, path in mounts.items()}
        entry = [*self.image.config["Entrypoint"], *words]
        return chroot.container(
            self.root, self.image.config["User"], ["env", "-i", *self.image.config["Env"], *entry], places
        )

    def run(self, *words: str, **mounts: Path) -> subprocess.CompletedProcess[str]:
        """Run the entry point to its end."""
        command = self.command(*words, **mounts)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Container]]:
    """Both images, built from the working tree and unpacked."""
    found = {}
    for name in ("operator", "downloader"):
        directory = tmp_path_factory.mktemp(name)
        image = made(name, directory)
        found[name] = Container(image, unpacked(image, directory / "root"))
    yield found
    for container in found.values():
        shutil.rmtree(container.root)
        shutil.rmtree(container.image.layout)


@IMAGES
def test_an_image_is_a_valid_oci_layout(name: str, images: dict[str, Container]) -> None:
    """Media types, sizes and digests fit, so that registries and engines take it."""
    image = images[name].image
    assert json.loads((image.layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((image.layout / "index.json").read_text())
    assert (index["schemaVersion"], index["mediaType"]) == (2, "application/vnd.oci.image.index.v1+json")
    (described,) = index["manifests"]
    assert described["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    manifest = image.document(described["digest"])
    assert (manifest["schemaVersion"], manifest["mediaType"]) == (2, described["mediaType"])
    assert manifest["config"]["mediaType"] == "application/vnd.oci.image.config.v1+json"
    assert {layer["mediaType"] for layer in manifest["layers"]} == {"application/vnd.oci.image.layer.v1.tar"}
    descriptors = [described, manifest["config"], *manifest["layers"]]
    for each in descriptors:
        blob = image.blob(each["digest"])
        assert blob.stat().st_size == each["size"]
        assert f"sha256:{hashlib.sha256(blob.read_bytes()).hexdigest()}" == each["digest"]
    assert {each["digest"].partition(":")[2] for each in descriptors} == {
        file.name for file in (image.layout / "blobs" / "sha256").iterdir()
    }
    configuration = image.document(manifest["config"]["digest"])
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    assert (configuration["os"], configuration["architecture"]) == ("linux", machine)
    assert configuration["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]


@IMAGES
def test_an_image_says_what_it_is_and_runs_without_root(name: str, images: dict[str, Container]) -> None:
    """Labels for tools; a numeric user, which ``runAsNonRoot`` can check."""
    config = images[name].image.config
    user, _, group = config["User"].partition(":")
    assert int(user) >= 1000
    assert int(group) >= 1000
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    assert labels["title"] == f"kaiwo-{name}"
    assert (labels["version"], labels["licenses"]) == (host().version, "Apache-2.0")
    assert {"description", "source", "revision"} < set(labels)
    assert config["Env"][0].startswith("PATH=/opt/kaiwo/bin:")


@IMAGES
def test_an_image_has_nothing_to_build_or_install_with(name: str, images: dict[str, Container]) -> None:
    """No compiler, no pip, no file with the rights of another user, nothing that everybody may change."""
    root = images[name].root
    programs = {
        path.name
        for folder in ("usr/bin", "usr/local/bin", "opt/kaiwo/bin")
        for path in (root / folder).glob("*")
    }
    assert not {each for each in programs if each.startswith(("pip", "gcc", "cc", "g++", "clang", "uv"))}
    assert [path for path in root.rglob("pip*") if path.name in {"pip", "ensurepip"}] == []
    loose = []
    for directory, names, files in os.walk(root):
        for each in (*names, *files):
            mode = Path(directory, each).lstat().st_mode
            if stat.S_ISLNK(mode):
                continue
            open_to_all = mode & stat.S_IWOTH and not mode & stat.S_ISVTX
            if mode & (stat.S_ISUID | stat.S_ISGID) or open_to_all:
                loose.append(Path(directory, each))
    assert loose == []


@IMAGES
def test_an_image_is_small(name: str, images: dict[str, Container]) -> None:
    """What the recipe adds to its base, before compression."""
    added = sum(layer["size"] for layer in images[name].image.manifest["layers"][1:]) >> 20
    assert added <= MOST_MIB[name]


def test_the_same_sources_give_the_same_image(images: dict[str, Container], tmp_path: Path) -> None:
    """A second build on the same base has the same digest, and so the same layers."""
    again = made("downloader", tmp_path)
    assert again.manifest == images["downloader"].image.manifest
    assert again.digest == images["downloader"].image.digest


def test_a_build_argument_chooses_the_plugins(images: dict[str, Container], tmp_path: Path) -> None:
    """By default the operator has all plugins but the sandbox; ``EXTRAS`` names fewer."""

    def loaded(container: Container) -> set[str]:
        done = container.run("plugins", "-o", "json")
        assert done.returncode == 0, done.stderr
        return {each["distribution"] for each in json.loads(done.stdout) if each["state"] == "loaded"}

    assert loaded(images["operator"]) == {
        plugin.name for plugin in plugins() if plugin.folder.name != "sandbox"
    }
    few = made("operator", tmp_path, EXTRAS="batch-job,gpu-amd", REVISION="0123abc")
    assert few.config["Labels"]["org.opencontainers.image.revision"] == "0123abc"
    assert loaded(Container(few, unpacked(few, tmp_path / "root"))) == {"kaiwo-batch-job", "kaiwo-gpu-amd"}
    shutil.rmtree(tmp_path / "root")


def test_only_the_temporary_directory_can_be_written(images: dict[str, Container]) -> None:
    """The test of the tests: the container has no rights and a read-only root file system."""
    container = images["operator"]
    script = (
        "id -u; id -G; touch /tmp/x && echo tmp; for d in / /opt/kaiwo /etc /var /run; do touch $d/x; done"
    )
    words = container.command()[: -len(container.image.config["Entrypoint"])]
    done = subprocess.run(
        [*words, "sh", "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == ["65532", "65532", "tmp"]
    assert done.stderr.count("Read-only file system") == 5


@pytest.mark.cluster
def test_the_operators_image_runs_a_job(
    images: dict[str, Container], control_plane: Sandbox, namespace: str, tmp_path: Path
) -> None:
    """Its entry point, without root and without writing files, becomes ready and runs a KaiwoJob."""
    loaded = load_plugins()
    definitions = render_crds(loaded.fields(), loaded.settings_models(), kinds=loaded.kinds())
    control_plane.create_crds(definitions)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(control_plane.kubeconfig.read_text())
    kubeconfig.chmod(0o644)
    container = images["operator"]
    operator = OperatorProcess(
        kubeconfig="/kubeconfig",
        command=container.command(kubeconfig=kubeconfig),
        leader_election=False,
        args=["--watch-namespace", namespace, "--plugins", "batch_job,gpu_amd"],
    )
    jobs = f"/apis/kaiwo.silogen.ai/v1alpha1/namespaces/{namespace}/kaiwojobs"
    with operator:
        operator.wait_ready()
        assert operator.readyz_when_up()[0] == 200
        status = Path(f"/proc/{operator.pid}/status").read_text()
        assert "Uid:\t65532\t65532\t65532\t65532" in status
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        control_plane.api.create(jobs, JOB)
        end = time.monotonic() + 120
        found: dict[str, Any] = {}
        while found.get("status") != "COMPLETE" and time.monotonic() < end:
            time.sleep(0.5)
            found = control_plane.api.get(f"{jobs}/train").get("status") or {}
        assert found.get("status") == "COMPLETE", operator.log
        assert operator.stop() == 0


def test_the_downloaders_image_fills_a_volume(images: dict[str, Container], tmp_path: Path) -> None:
    """Its entry point with the mounts of a download pod: objects with a key, and a repository through git."""
    servers = DownloadServers(tmp_path / "servers")
    (tmp_path / "servers").mkdir()
    servers.start()
    config = {
        "version": 1,
        "dataMountPath": "/workload",
        "items": {
            "s3": [
                {
                    "endpointUrl": servers.url,
                    "region": "us-east-1",
                    "accessKeyId": {"secretName": "store", "secretKey": "id"},
                    "secretKey": {"secretName": "store", "secretKey": "key"},
                    "buckets": [{"name": BUCKET, "folders": [{"path": "clean", "targetPath": "corpus"}]}],
                }
            ],
            "git": [{"repository": f"{servers.url}/git/project.git", "targetPath": "code"}],
        },
    }
    for name in ("config", "workload", "app/secrets/store"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "config" / "config.yaml").write_text(json.dumps(config))
    (tmp_path / "app/secrets/store/id").write_text(USER)
    (tmp_path / "app/secrets/store/key").write_text(KEY)
    (tmp_path / "workload").chmod(0o777)
    mounts = {name: tmp_path / name for name in ("config", "workload", "app")}
    container = images["downloader"]
    try:
        done = container.run(*container.image.config["Cmd"], **mounts)
    finally:
        servers.close()
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "workload/code/train.py").read_text() == "print('hello from git')\n"
    assert len(list((tmp_path / "workload/corpus").glob("part-*.bin"))) == 4
