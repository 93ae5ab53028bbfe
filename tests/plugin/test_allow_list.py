"""The list of plugins that may be imported: by name, distribution, version and digest of the files."""

from __future__ import annotations

import base64
import hashlib
import importlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import importlib_metadata
import pytest
import yaml

from kaiwo.cli import failures
from kaiwo.cli.main import kaiwo
from kaiwo.client.chain_parts import installed_parts
from kaiwo.plugin.file_digest import NoDigestError, installed_digest
from kaiwo.plugin.loader import RequiredPluginError, load
from kaiwo.plugin.selection import PluginSelection, SelectionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.plugin_state import PluginState

SPY = "\nraise AssertionError('imported')\n"
EMPTY = "\n"
MODULE = "from kaiwo.plugin import hookimpl\nKAIWO_API = 1\n"


def selection(allowed: str, plugins: str = "acme", **variables: str) -> PluginSelection:
    """A selection as the environment writes it."""
    return PluginSelection.of(
        environ={"KAIWO_PLUGINS": plugins, "KAIWO_PLUGINS_ALLOWED": allowed, **variables}
    )


def acme(chosen: PluginSelection) -> PluginState:
    """What became of the plugin ``acme``."""
    (found,) = [state for state in load(chosen).states if state.name == "acme"]
    return found


class Wheel:
    """A wheel of ``kaiwo-acme`` with one package, as a build backend writes it."""

    def __init__(self, folder: Path, package: str, files: dict[str, str]) -> None:
        info = "kaiwo_acme-1.2.3.dist-info"
        self.files = {
            f"{package}/__init__.py": "",
            f"{package}/plugin.py": MODULE,
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: kaiwo-acme\nVersion: 1.2.3\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": (
                f"[kaiwo.plugins]\nacme = {package}.plugin\n\n[console_scripts]\nacme = {package}:main\n"
            ),
            **files,
        }
        rows = [
            f"{path},sha256={_url_safe(text.encode())},{len(text)}\n" for path, text in self.files.items()
        ]
        self.path = folder / "kaiwo_acme-1.2.3-py3-none-any.whl"
        with zipfile.ZipFile(self.path, "w") as wheel:
            for path, text in self.files.items():
                wheel.writestr(path, text)
            wheel.writestr(f"{info}/RECORD", "".join(rows) + f"{info}/RECORD,,\n")

    def digest(self) -> str:
        """The digest, by the recipe of the documentation."""
        lines = [
            f"{hashlib.sha256(text.encode()).hexdigest()}  {path}\n"
            for path, text in sorted(self.files.items())
        ]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def install(self, site: Path) -> Path:
        """Unpack it as pip does: with a note of who installed it, byte code and a script."""
        with zipfile.ZipFile(self.path) as wheel:
            wheel.extractall(site)
        info = site / "kaiwo_acme-1.2.3.dist-info"
        (info / "INSTALLER").write_text("pip\n")
        with (info / "RECORD").open("a", encoding="utf-8") as record:
            record.write(f"{info.name}/INSTALLER,sha256=x,4\n../../../bin/acme,sha256=y,1\n")
            record.writelines(
                f"{path.rpartition('/')[0]}/__pycache__/{Path(path).stem}.cpython-311.pyc,,\n"
                for path in self.files
                if path.endswith(".py")
            )
        return site


def _url_safe(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


@pytest.fixture
def wheel(tmp_path: Path) -> Wheel:
    """A wheel; its package has a name of its own for every test, since Python remembers modules by name."""
    return Wheel(tmp_path, f"acme_{abs(hash(str(tmp_path)))}", {})


@pytest.fixture
def site(tmp_path: Path, wheel: Wheel, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with the wheel installed."""
    folder = wheel.install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return folder


def distribution(site: Path) -> importlib_metadata.Distribution:
    """The distribution in a folder of packages."""
    (found,) = importlib_metadata.distributions(name="kaiwo-acme", path=[str(site)])
    return found


def test_a_plugin_that_the_list_lacks_is_not_imported(install: Callable[..., str]) -> None:
    """Installing a package is not enough to run its code in the operator, even where it is selected."""
    install("acme", SPY)
    state = acme(selection("batch_job@kaiwo-batch-job"))
    assert (state.state, state.reason) == ("not-allowed", "NotAllowed")
    assert state.message == "not in KAIWO_PLUGINS_ALLOWED"
    assert state.module not in sys.modules


def test_without_a_list_of_plugins_the_allowed_ones_are_loaded(install: Callable[..., str]) -> None:
    """An image with everything in it loads what was reviewed."""
    install("acme", EMPTY)
    chosen = PluginSelection.of(environ={"KAIWO_PLUGINS_ALLOWED": "acme@kaiwo-acme"})
    assert [plugin.name for plugin in load(chosen).loaded] == ["acme"]


def test_an_empty_list_allows_nothing(install: Callable[..., str]) -> None:
    """A variable that was emptied by mistake does not open the door."""
    install("acme", SPY)
    assert acme(selection("")).state == "not-allowed"


def test_a_plugin_of_another_distribution_is_not_the_allowed_one(install: Callable[..., str]) -> None:
    """A name alone is nobody's: any package can announce it."""
    install("acme", SPY, distribution="a-rogue")
    state = acme(selection("acme@kaiwo-acme"))
    assert state.state == "not-allowed"
    assert state.message == "KAIWO_PLUGINS_ALLOWED has acme@kaiwo-acme, and this is of a-rogue"


def test_of_two_claimants_the_allowed_one_has_the_name(install: Callable[..., str]) -> None:
    """The list says whom to trust, so nobody has to be uninstalled."""
    install("acme", SPY, distribution="acme-a")
    install("acme", EMPTY, distribution="acme-b")
    assert [one.distribution for one in load(selection("acme@acme-b")).loaded] == ["acme-b"]


@pytest.mark.parametrize(
    "versions", ["", "==1.2.3", ">=1,<2", "~=1.2", "!=1.2.2", ">=1, <2", " >=1 <2", "==1.2.*"]
)
def test_a_version_within_the_range_is_loaded(install: Callable[..., str], versions: str) -> None:
    """A patch release needs no new configuration where the range says so."""
    install("acme", EMPTY)
    assert acme(selection(f"kueue@kaiwo-kueue, acme@kaiwo-acme{versions}, x@y")).state == "loaded"


@pytest.mark.parametrize("versions", ["==1.2.4", ">=2", "<1.2.3", "===1.2"])
def test_another_version_is_not_imported(install: Callable[..., str], versions: str) -> None:
    """An upgrade of a package that nobody reviewed does not run."""
    install("acme", SPY)
    state = acme(selection(f"acme@kaiwo-acme{versions}"))
    assert state.message == (
        f"KAIWO_PLUGINS_ALLOWED has acme@kaiwo-acme{versions}, and version 1.2.3 is installed"
    )


def test_a_version_that_is_no_version_is_in_no_range(install: Callable[..., str]) -> None:
    """Metadata of others cannot break the start."""
    install("acme", SPY, version="latest")
    assert acme(selection("acme@kaiwo-acme>=0")).state == "not-allowed"


@pytest.mark.parametrize(
    "entry",
    [
        "acme",
        "acme==1.0",
        "acme@",
        "@kaiwo-acme",
        "acme@x>=one",
        "acme@x#sha256=12",
        "acme@x#md5=12",
        "a@b@c",
    ],
)
def test_an_entry_that_cannot_be_read_is_an_error_with_an_example(entry: str) -> None:
    """A misspelt entry neither opens nor closes the list silently."""
    with pytest.raises(SelectionError, match="Write for example batch_job@kaiwo-batch-job==0"):
        selection(entry)


def test_a_required_plugin_that_is_not_allowed_stops_the_start(install: Callable[..., str]) -> None:
    """The operator does not run without it, and says which of the two settings to change."""
    install("acme", SPY)
    with pytest.raises(RequiredPluginError, match="acme is not-allowed: not in KAIWO_PLUGINS_ALLOWED"):
        load(selection("", KAIWO_PLUGINS_REQUIRED="acme"))


def test_the_settings_file_has_the_same_list() -> None:
    """What ``kaiwo plugins --allow-list`` prints is a part of the settings file."""
    entries = ["acme@kaiwo-acme>=1,<2", f"other@x==1#sha256={'a' * 64}"]
    chosen = PluginSelection.of(settings={"pluginsAllowed": entries})
    assert chosen.allowed == tuple(entries)
    assert PluginSelection.of(environ={"KAIWO_PLUGINS_ALLOWED": " ".join(entries)}) == chosen


def test_the_digest_is_that_of_the_wheel_however_it_was_installed(wheel: Wheel, site: Path) -> None:
    """A reviewer computes it from the wheel; notes of the installer, byte code and scripts do not count."""
    assert installed_digest(distribution(site)) == wheel.digest()


def test_pip_installs_what_has_the_digest_of_the_wheel(wheel: Wheel, tmp_path: Path) -> None:
    """With and without byte code, from the real installer."""
    for name, options in (("compiled", ["--compile"]), ("plain", ["--no-compile"])):
        target = tmp_path / name
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
             "--disable-pip-version-check", *options, "--target", target, wheel.path],
            check=True,
        )  # fmt: skip
        assert installed_digest(distribution(target)) == wheel.digest()


def test_the_pinned_files_are_loaded(wheel: Wheel, site: Path) -> None:
    """The entry that the reviewer wrote lets the plugin in."""
    assert site.is_dir()
    assert acme(selection(f"acme@kaiwo-acme==1.2.3#sha256={wheel.digest()}")).state == "loaded"


def test_a_changed_file_is_not_imported(wheel: Wheel, site: Path) -> None:
    """The same version with other content, as from a mirror that was broken into."""
    module = next(site.glob("*/plugin.py"))
    module.write_text(f"{MODULE}\n{SPY}")
    state = acme(selection(f"acme@kaiwo-acme==1.2.3#sha256={wheel.digest()}"))
    assert state.state == "not-allowed"
    assert state.message.startswith("the files of kaiwo-acme 1.2.3 have digest ")
    assert f"KAIWO_PLUGINS_ALLOWED has {wheel.digest()[:12]}; " in state.message


@pytest.mark.parametrize("name", ["backend.so", "later.py", "plugin.cpython-311.pyc", "plugin/__init__.py"])
def test_an_added_module_has_no_digest(site: Path, name: str) -> None:
    """Python would import it in place of the one that was reviewed."""
    package = next(site.glob("acme_*"))
    (package / name).parent.mkdir(exist_ok=True)
    (package / name).write_text("")
    with pytest.raises(NoDigestError, match="which its RECORD does not list"):
        installed_digest(distribution(site))


def test_a_missing_file_is_named(site: Path) -> None:
    """Half of an installation is not what was reviewed."""
    next(site.glob("*/plugin.py")).unlink()
    with pytest.raises(NoDigestError, match=r"lacks acme_\d+/plugin\.py"):
        installed_digest(distribution(site))


def test_byte_code_of_a_wheel_has_no_digest(tmp_path: Path) -> None:
    """Python may run it in place of the source, and nobody reviews it."""
    package = f"acme_{abs(hash(str(tmp_path)))}"
    wheel = Wheel(tmp_path, package, {f"{package}/__pycache__/plugin.cpython-311.pyc": "x"})
    with pytest.raises(NoDigestError, match="has byte code in its wheel"):
        installed_digest(distribution(wheel.install(tmp_path / "site")))


def test_an_editable_installation_has_no_digest() -> None:
    """Its files change while they are edited."""
    with pytest.raises(NoDigestError, match="is installed in editable mode"):
        installed_digest(importlib_metadata.distribution("kaiwo-batch-job"))


def test_a_module_of_another_package_is_not_imported_in_the_name_of_an_allowed_one(
    wheel: Wheel, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder earlier on the path, or a package that brings a module of the same name, gains nothing."""
    package = next(site.glob("acme_*")).name
    shadow = tmp_path / "shadow" / package
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("")
    (shadow / "plugin.py").write_text(SPY)
    monkeypatch.syspath_prepend(str(shadow.parent))
    importlib.invalidate_caches()
    for entry in ("acme@kaiwo-acme", f"acme@kaiwo-acme#sha256={wheel.digest()}"):
        state = acme(selection(entry))
        assert state.state == "not-allowed"
        origin = shadow / "plugin.py"
        assert state.message == (
            f"module {package}.plugin would be imported from {origin}, which is not of kaiwo-acme"
        )


def test_chains_of_a_package_that_is_not_allowed_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``kaiwo why`` imports nothing of it either."""
    package = f"chain_{abs(hash(str(tmp_path)))}"
    info = tmp_path / "kaiwo_acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kaiwo-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kaiwo.chains]\nacme = {package}:CHAIN\n")
    (tmp_path / f"{package}.py").write_text("CHAIN = None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("KAIWO_PLUGINS_ALLOWED", "batch_job@kaiwo-batch-job acme@kaiwo-acme>=2")
    assert set(installed_parts().children) == {"batch_job"}
    assert package not in sys.modules
    monkeypatch.setenv("KAIWO_PLUGINS_ALLOWED", "acme@kaiwo-acme>=1")
    installed_parts()
    assert package in sys.modules


def test_the_printed_list_allows_what_is_installed_and_imports_nothing(
    wheel: Wheel, site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An administrator makes the list in the image, before any plugin runs."""
    assert site.is_dir()
    monkeypatch.setenv("KAIWO_PLUGINS", "acme,batch_job")
    monkeypatch.setenv("KAIWO_PLUGINS_ALLOWED", "")
    assert failures.run(kaiwo, ["plugins", "--allow-list"], "kaiwo") == 0
    captured = capsys.readouterr()
    content = yaml.safe_load(captured.out)
    assert content["pluginsAllowed"][0] == f"acme@kaiwo-acme==1.2.3#sha256={wheel.digest()}"
    assert content["pluginsAllowed"][1].startswith("batch_job@kaiwo-batch-job==")
    assert "warning: batch_job has no digest: kaiwo-batch-job is installed in editable mode" in captured.err
    assert f"{next(site.glob('acme_*')).name}.plugin" not in sys.modules
    chosen = PluginSelection.of(environ={"KAIWO_PLUGINS": "acme,batch_job"}, settings=content)
    assert [plugin.name for plugin in load(chosen).loaded] == ["acme", "batch_job"]
