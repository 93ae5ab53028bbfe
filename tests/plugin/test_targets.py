"""What a declaration names and does not exist is reported when the plugin loads, without importing it."""

from __future__ import annotations

import sys
from importlib.util import spec_from_file_location
from typing import TYPE_CHECKING

import pytest

from kaiwo.plugin.entry_points import mentions
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.plugin.targets import missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from pathlib import Path

SOURCE = """
raise AssertionError("imported")

import os.path
from json import loads as parse

class Backend: ...

async def notify(transition): ...

if True:
    def chosen(): ...
else:
    try:
        other = 1
    except ValueError:
        other: int = 2

def outer():
    inner = 1
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that cannot be imported, with a module that cannot either."""
    name = f"targets_{abs(hash(str(tmp_path)))}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise AssertionError('imported')\n")
    (tmp_path / name / "code.py").write_text(SOURCE)
    (tmp_path / name / "lazy.py").write_text("def __getattr__(name): ...\n")
    (tmp_path / name / "wrong.py").write_text("def broken(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.mark.parametrize("name", ["Backend", "notify", "chosen", "other", "parse", "os"])
def test_what_a_module_defines_is_found_without_importing_it(package: str, name: str) -> None:
    """Heavy libraries of a plugin are not paid for by the check."""
    assert missing(f"{package}.code:{name}") == ""
    assert not [module for module in sys.modules if module.startswith(package)]


@pytest.mark.parametrize("name", ["notfy", "inner", "path"])
def test_what_a_module_does_not_define_is_named(package: str, name: str) -> None:
    """A name within a function is none of the module's."""
    assert missing(f"{package}.code:{name}") == f"module {package}.code has no {name}"


def test_a_module_that_does_not_exist_is_named(package: str) -> None:
    """At any depth."""
    for module in ("surely_not_installed", f"{package}.cod", f"{package}.code.deeper", "json.tool.deeper"):
        assert missing(f"{module}:x") == f"there is no module {module}"


def test_a_module_that_cannot_be_parsed_is_named(package: str) -> None:
    """It could not be imported later either."""
    assert missing(f"{package}.wrong:broken").startswith(f"module {package}.wrong cannot be read: ")


@pytest.mark.parametrize("target", ["math:sqrt", "builtins:print", "sys:exit", "os.path:join", "os:walk"])
def test_a_module_that_is_imported_or_no_python_source_is_no_obstacle(target: str) -> None:
    """What cannot be known without importing is not called missing."""
    assert missing(target) == ""


def test_a_module_that_makes_its_names_when_asked_is_believed(package: str) -> None:
    """``__getattr__`` may give any name."""
    assert missing(f"{package}.lazy:anything") == ""


LISTENER = "kaiwo.plugin.lifecycle", "TransitionListener(name='a', notify='{}')", "transitions"
LIFECYCLE = "kaiwo.plugin.lifecycle", "Lifecycle(name='a', start='{}')", "lifecycle"
COMMAND = "kaiwo.plugin.commands", "Command(name='a', load='{}', help='A.')", "commands"
CONTROLLER = "kaiwo.plugin.controllers", "ExtraController(name='a', build='{}')", "controllers"
BACKEND = (
    "kaiwo.plugin.backends",
    "Backend(name='a', kind='KaiwoJob', child=JOB, fields=(FIELD,), implementation=Lazy('{}'))",
    "backends",
)


@pytest.mark.parametrize("declared", [LISTENER, LIFECYCLE, COMMAND, CONTROLLER, BACKEND])
def test_a_plugin_that_names_what_does_not_exist_is_broken(
    install: Callable[..., str], declared: tuple[str, str, str]
) -> None:
    """``kaiwo plugins`` shows the missing name, before the first workload needs it."""
    module, declaration, hook = declared
    install(
        "acme",
        f"""
from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import JOB
from kaiwo.plugin.lazy import Lazy
from {module} import {declaration.partition("(")[0]}

FIELD = Field('KaiwoJob', ('a',), dict, 'A.')

@hookimpl
def kaiwo_{hook}():
    return [{declaration.format("shlex:splt")}]
""",
    )
    (state,) = [s for s in load(PluginSelection(names=("acme",))).states if s.name == "acme"]
    assert state.state == "broken"
    assert state.message.endswith("is 'shlex:splt', but module shlex has no splt")


class Mapping:
    """The finder of an editable installation that maps a package to its folder, as setuptools makes it."""

    def __init__(self, package: str, folder: Path) -> None:
        self.package = package
        self.folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Where the package is; its modules are found by the path of the package."""
        del path, target
        if name != self.package:
            return None
        return spec_from_file_location(
            name, self.folder / "__init__.py", submodule_search_locations=[str(self.folder)]
        )


def test_a_package_of_an_editable_installation_is_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is not on the path. Commands were not listed, and kaiwo why showed no rule of the plugin."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('imported')\n")
    (folder / "plugin.py").write_text("raise AssertionError('imported')\ndef kaiwo_commands(): ...\n")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Mapping("targets_mapped", folder)])
    assert missing("targets_mapped.plugin:kaiwo_commands") == ""
    assert mentions("targets_mapped.plugin", "kaiwo_commands")
    assert not mentions("targets_mapped.plugin", "kaiwo_backends")
    assert missing("targets_mapped.other:x") == "there is no module targets_mapped.other"
    assert "targets_mapped" not in sys.modules
