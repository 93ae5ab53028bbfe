"""The first run: official images by tag, else a build with Go, in bounded time and with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from kaiwo.cli import kit
from kaiwo_sandbox.binaries import cache, downloads, ensure, module_archives, sources
from kaiwo_sandbox.binaries.transfer import TransferLimits
from kaiwo_sandbox.builds.binary_sets import APPWRAPPER, CORE, CORE_PROGRAMS, KUBERAY
from kaiwo_sandbox.builds.official_images import official_image
from kaiwo_sandbox.commands import sandbox
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.generations import GENERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    Layer = Callable[..., bytes]

PROGRAM = b"#!/bin/sh\necho fake\n"
ADDONS = ("kueue", "kuberay", "appwrapper")
SYSTEM_PATH = "/usr/bin:/bin"
KAIWO = Path(sys.executable).with_name("kaiwo")
BUILDS = """
built = 'module ' if arguments[-1] == '.' else 'tool '
for line in open('go.mod') if arguments[0] == 'build' else []:
    if line.startswith(built) or line.startswith('\\t') and ' ' not in line.strip():
        name = line.split()[-1].split('/')
        name = name[-2] if name[-1] == 'v3' else name[-1]
        path = pathlib.Path(arguments[arguments.index('-o') + 1]) / name
        path.write_text('#!/bin/sh')
        path.chmod(0o755)
if arguments[0] == 'list':
    print(MODULES)
if arguments == ['env', 'GOPROXY']:
    print('off')
"""


def tag_of(reference: str) -> str:
    """The tag under which the test's registry keeps an image."""
    return reference.partition("/")[2]


@pytest.fixture
def official(
    fake: Any, make_layer: Layer, connect_proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The registry has the official images, reached under their own names; their digests by program."""
    monkeypatch.delenv("KAIWO_SANDBOX_IMAGES")
    monkeypatch.setenv("HTTPS_PROXY", connect_proxy.url)
    monkeypatch.setenv("PATH", "/nonexistent")
    found = {}
    for program in CORE_PROGRAMS:
        image = official_image(CORE, program)
        assert image is not None
        found[program] = fake.add_image(make_layer({image.path: PROGRAM}), tag=tag_of(image.reference))
    return found


@pytest.fixture
def with_go(fake_go: Callable[[str], Path], tmp_path: Path) -> Path:
    """A fake Go that builds every set."""
    modules = tmp_path / "modules"
    for directory in ("config/components/crd/bases", "config/components/webhook", "config/crd/bases"):
        (modules / directory).mkdir(parents=True)
        (modules / directory / "manifests.yaml").write_text("kind: CustomResourceDefinition\n")
    return fake_go(f"MODULES = {str(modules)!r}\n{BUILDS}")


def test_the_official_images_are_used_without_any_setting(
    official: dict[str, str], connect_proxy: Any
) -> None:
    """Without Go. The digests are recorded, and a second start asks nobody."""
    lines: list[str] = []
    found = ensure(progress=lines.append)
    assert {path.read_bytes() for path in found.programs.values()} == {PROGRAM}
    for program, digest in official.items():
        described = sources.describe(program, found[program])
        assert described.startswith("image registry.k8s.io/")
        assert described.endswith(f"@{digest}")
    assert lines[0].startswith("downloading etcd, kube-apiserver")
    asked = len(connect_proxy.hosts)
    assert ensure(progress=lines.append) == found
    assert len(connect_proxy.hosts) == asked


def test_build_prints_where_each_program_came_from(official: dict[str, str]) -> None:
    """And with -o yaml a list of images that makes these digests mandatory."""
    result = CliRunner().invoke(sandbox, ["build", "--with", ""], obj=kit.GlobalOptions())
    assert result.exit_code == 0, result.stderr
    assert f"image registry.k8s.io/kwok/kwok:v0.8.0@{official['kwok']}" in result.stderr
    result = CliRunner().invoke(sandbox, ["build", "--with", ""], obj=kit.GlobalOptions(output="yaml"))
    document = yaml.safe_load(result.stdout)
    assert {
        name: entry["image"].partition("@")[2] for name, entry in document["programs"].items()
    } == official


def test_without_a_network_it_builds_at_once_and_says_why(
    home: Path, with_go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line: what failed, what is done instead, how long it takes. The attempt takes less than 2 s."""
    del home
    monkeypatch.delenv("KAIWO_SANDBOX_IMAGES")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # the port "discard", where nothing listens
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    lines: list[str] = []
    started = time.monotonic()
    found = ensure(progress=lines.append)
    assert "build" in with_go.read_text().split()
    [warning] = [line for line in lines if line.startswith("warning: ")]
    assert "cannot connect to 127.0.0.1: Connection refused" in warning
    assert "Building them with Go instead, which takes about 6 minutes" in warning
    assert lines.index(warning) == 1
    assert time.monotonic() - started < 2 + 1  # and the fake build, which is polled once a second
    assert sources.describe("etcd", found["etcd"]) == "built with Go from go.etcd.io/etcd/server/v3"


def test_without_a_network_and_without_go_both_are_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the ways on."""
    del home
    monkeypatch.delenv("KAIWO_SANDBOX_IMAGES")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError, match="go is not installed") as caught:
        ensure(progress=lambda _line: None)
    assert "Connection refused" in str(caught.value)
    for way in ("install Go 1.26", "KUBEBUILDER_ASSETS", "KAIWO_SANDBOX_IMAGES", "connection"):
        assert way in caught.value.hint


def test_a_host_that_does_not_answer_is_waited_for_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by each program: a firewall that drops packets costs one connect limit."""
    del home
    monkeypatch.delenv("KAIWO_SANDBOX_IMAGES")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(downloads, "LIMITS", TransferLimits(connect=0.5))

    def drop(*_arguments: object) -> None:
        time.sleep(2)
        raise TimeoutError

    monkeypatch.setattr("socket.create_connection", drop)
    started = time.monotonic()
    with pytest.raises(SandboxError, match=r"cannot connect to .*: no connection within 0\.5 s"):
        ensure(progress=lambda _line: None)
    assert time.monotonic() - started < 2


def test_one_missing_image_leads_to_a_build_of_its_set_only(
    official: dict[str, str], with_go: Path, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are kept; the reason names the image."""
    del official
    monkeypatch.setenv("GOPROXY", f"https://{fake.host}/modules")
    lines: list[str] = []
    found = ensure(["kuberay"], progress=lines.append)
    assert with_go.read_text().split().count("build") == 1
    [warning] = [line for line in lines if line.startswith("warning: ")]
    assert "quay.io: HTTP 404" in warning
    assert sources.describe("etcd", found["etcd"]).startswith("image ")
    assert sources.describe("ray-operator", found["ray-operator"]).startswith("built with Go")
    assert cache.complete(KUBERAY)
    assert not cache.complete(CORE)


def test_an_addon_without_a_module_proxy_says_what_to_set(official: dict[str, str]) -> None:
    """The programs of the control plane are kept, so a start without addons needs nothing more."""
    del official
    with pytest.raises(SandboxError, match="no Go module proxy is known: GOPROXY is not set") as caught:
        ensure(["kuberay"], progress=lambda _line: None)
    assert "set GOPROXY" in caught.value.hint
    lines: list[str] = []
    ensure(progress=lines.append)
    assert lines == []


def test_programs_of_a_build_are_used_before_images_but_not_before_a_list(
    official: dict[str, str], fake: Any, tmp_path: Path, with_go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who lists digests wants these programs; who lists none has programs already."""
    monkeypatch.setenv("KAIWO_SANDBOX_IMAGES", "off")
    built = ensure(progress=lambda _line: None)
    monkeypatch.delenv("KAIWO_SANDBOX_IMAGES")
    assert ensure(progress=lambda _line: None) == built
    assert fake.seen == []
    programs = {}
    for program, digest in official.items():
        image = official_image(CORE, program)
        assert image is not None
        programs[program] = {"image": f"{image.reference}@{digest}"}
    (tmp_path / "images.yaml").write_text(yaml.safe_dump({"programs": programs}))
    monkeypatch.setenv("KAIWO_SANDBOX_IMAGES", str(tmp_path / "images.yaml"))
    assert {path.read_bytes() for path in ensure(progress=lambda _line: None).programs.values()} == {PROGRAM}
    assert with_go.read_text().split().count("build") == 1


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=lambda each: each.name)
def test_official_images_have_the_versions_of_the_builds(generation: Any) -> None:
    """What the sandbox says it runs is what runs, from each source."""
    for addon, version in generation.versions.items():
        binary_set = generation.addons[addon]
        [program] = [
            each.name for each in binary_set.programs if binary_set is not CORE or each.name == addon
        ]
        image = official_image(binary_set, program)
        assert image is not None
        assert image.reference.endswith(f":v{version}")
    modules = CORE.files["go.mod"].decode()
    for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        image = official_image(CORE, program)
        assert image is not None
        assert f"k8s.io/kubernetes {image.reference.rpartition(':')[2]}" in modules
    kwok = official_image(CORE, "kwok")
    assert kwok is not None
    assert f"sigs.k8s.io/kwok {kwok.reference.rpartition(':')[2]}" in modules


@pytest.fixture(scope="session")
def real_programs() -> dict[str, Path]:
    """The programs of this machine, from whichever source it has. A session fixture sees the real home."""
    return dict(ensure(ADDONS, progress=lambda _line: None).programs)


@pytest.fixture(scope="session")
def module_zips() -> dict[str, bytes]:
    """The module archives with the addons' manifests by path, from Go's module cache."""
    found = {}
    for binary_set in (CORE, KUBERAY, APPWRAPPER):
        [source] = binary_set.manifests
        module = module_archives.module_of(binary_set, source)
        file = Path.home() / "go/pkg/mod/cache/download" / module.path / "@v" / f"{module.version}.zip"
        if not file.is_file():
            pytest.skip(f"{file} does not exist")
        found[f"/modules/{module.path}/@v/{module.version}.zip"] = file.read_bytes()
    return found


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_the_demo_runs_from_an_empty_cache_without_go(
    real_programs: dict[str, Path],
    module_zips: dict[str, bytes],
    fake: Any,
    make_layer: Layer,
    connect_proxy: Any,
    tmp_path: Path,
) -> None:
    """All programs are downloaded under their official names, and the KaiwoJobs end as they should.

    Kueue and Ray included, with manifests from the module proxy. AppWrapper is in a directory, because this
    machine has no program of the project's own. There is no network: the registry is on this machine.
    """
    if shutil.which("go", path=SYSTEM_PATH) is not None:
        pytest.skip("Go is in /usr/bin and cannot be hidden")
    fake.modules.update(module_zips)
    assets = tmp_path / "assets"
    assets.mkdir()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    for program, path in real_programs.items():
        if program == "appwrapper-controller":
            (assets / program).symlink_to(path)
            continue
        image = official_image(KUBERAY if program == "ray-operator" else CORE, program)
        assert image is not None
        # One compressed layer shows that these work; all of them would cost ten seconds.
        content = make_layer({image.path: path.read_bytes()}, compressed=program == "kwok")
        layers = (make_layer({"etc/os-release": b"x"}), content)
        fake.add_image(*layers, architecture=architecture, tag=tag_of(image.reference))
    environment = {name: value for name, value in os.environ.items() if name != "KAIWO_SANDBOX_IMAGES"} | {
        "PATH": SYSTEM_PATH,
        "HTTPS_PROXY": connect_proxy.url,
        "NO_PROXY": "127.0.0.1,localhost",
        "GOPROXY": "https://modules.test/modules",
        "KUBEBUILDER_ASSETS": str(assets),
        "XDG_CACHE_HOME": str(tmp_path / "empty"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    ended = subprocess.run(
        [KAIWO, "demo"], env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "✔ train         One GPU, one image, one script: COMPLETE." in ended.stdout
    assert "✔ ray-train " in ended.stdout
    shown = ended.stdout + ended.stderr
    assert "kube-apiserver downloaded from registry.k8s.io/kube-apiserver" in shown
    assert "manifests of kueue downloaded from module sigs.k8s.io/kueue v0.18.2" in shown
    assert "building" not in shown
    assert set(connect_proxy.hosts) == {"registry.k8s.io:443", "quay.io:443", "modules.test:443"}
