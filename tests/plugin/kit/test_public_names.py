"""What plugins may rely on: every name is documented, and none disappears within a major version."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docs.generate import plugin_kit
from kaiwo.plugin import API_MAJOR, API_MINOR
from kaiwo.plugin.loader import HOOKS
from kaiwo.testing import assert_golden

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[3]
LISTS = Path(__file__).parent / "api"
CURRENT = LISTS / f"{API_MAJOR}.{API_MINOR}.txt"
RELEASED = f"# Plugin API {API_MAJOR}.{API_MINOR}, released"
OPEN = f"# Plugin API {API_MAJOR}.{API_MINOR}, not released yet"

DECLARATIONS = (
    "adoption",
    "backend_base",
    "backends",
    "commands",
    "controllers",
    "declaration",
    "diagnosis",
    "facts",
    "lazy",
    "lifecycle",
    "observation",
    "queue_setup",
    "queue_usage",
    "queues",
    "rbac",
    "removals",
    "rendering",
    "sources",
    "vendors",
)
"""Modules of ``kaiwo.plugin`` with what hooks return and what their functions get."""


def members(value: Any) -> list[str]:
    """The arguments of a function; the fields, properties and methods of a class; nothing of other values.

    What may be left out ends in ``=``.
    """
    if inspect.isfunction(value):
        arguments = inspect.signature(value).parameters.values()
        return [one.name if one.default is one.empty else f"{one.name}=" for one in arguments]
    if not inspect.isclass(value):
        return []
    own = [
        f"{name}()"
        for name, member in sorted(vars(value).items())
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod))
    ]
    if not dataclasses.is_dataclass(value):
        return own
    needed = (dataclasses.MISSING, dataclasses.MISSING)
    fields = dataclasses.fields(value)
    return [
        *(one.name if (one.default, one.default_factory) == needed else f"{one.name}=" for one in fields),
        *own,
    ]


def names_of_the_kit() -> Iterator[str]:
    """One line for each name of the kit."""
    for short in plugin_kit.modules():
        module = importlib.import_module(f"{plugin_kit.KIT}.{short}")
        for name in sorted(module.__all__):
            yield f"{module.__name__}.{name}({', '.join(members(getattr(module, name)))})"


def names_of_declarations() -> Iterator[str]:
    """One line for each public class and function of the declarations, and for each hook."""
    yield from (f"kaiwo.plugin.hookspecs.{name}()" for name in sorted(HOOKS))
    for short in DECLARATIONS:
        module = importlib.import_module(f"kaiwo.plugin.{short}")
        for name, value in sorted(vars(module).items()):
            own = getattr(value, "__module__", "") == module.__name__
            if own and not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
                yield f"{module.__name__}.{name}({', '.join(members(value))})"


def parsed(lines: str) -> dict[str, set[str]]:
    """Names with their members, from lines of a list."""
    found = {}
    for line in lines.splitlines():
        if match := re.fullmatch(r"([\w.]+)\((.*)\)", line):
            found[match[1]] = set(filter(None, match[2].split(", ")))
    return found


def missing(old: Mapping[str, set[str]], new: Mapping[str, set[str]]) -> list[str]:
    """What an older list has and a newer one has not. An argument that got a default is not missing."""
    gone = [name for name in old if name not in new]
    for name, wanted in old.items():
        has = new.get(name, wanted)
        gone += [f"{name}: {one}" for one in sorted(wanted) if one not in has and f"{one}=" not in has]
    return gone


@pytest.mark.parametrize("path", sorted(LISTS.glob(f"{API_MAJOR}.*.txt")), ids=lambda path: path.stem)
def test_nothing_of_a_minor_version_is_gone(path: Path) -> None:
    """A plugin written for it finds all names, arguments and fields that it uses."""
    now = parsed("\n".join([*names_of_the_kit(), *names_of_declarations()]))
    assert missing(parsed(path.read_text(encoding="utf-8")), now) == []


def test_a_new_name_is_in_the_list_of_the_current_version() -> None:
    """A plugin can state the lowest version that has what it uses."""
    listed = CURRENT.read_text(encoding="utf-8") if CURRENT.exists() else ""
    kit = list(names_of_the_kit())
    if parsed("\n".join(kit)).keys() <= parsed(listed).keys():
        return
    assert not listed.startswith(RELEASED), "this version is released; raise API_MINOR in hookspecs.py"
    assert_golden("\n".join([OPEN, *kit, *names_of_declarations(), ""]), CURRENT)


def test_a_removed_name_and_a_removed_argument_are_noticed() -> None:
    """What the comparison is for."""
    old = parsed("a.f(x, y=)\na.g()\n")
    assert missing(old, parsed("a.f(x, y=, z=)\na.g()\na.h()\n")) == []
    assert missing(old, parsed("a.f(x=, y=)\na.g()\n")) == []
    assert missing(old, parsed("a.f(x)\n")) == ["a.g", "a.f: y="]


@pytest.mark.parametrize("module", plugin_kit.modules())
def test_every_public_name_is_documented(module: str) -> None:
    """An author reads what a name is for where it is imported from."""
    name = f"{plugin_kit.KIT}.{module}"
    found = importlib.import_module(name)
    assert found.__doc__
    assert [one for one in found.__all__ if not plugin_kit.documentation(name, one)] == []


def test_the_examples_import_nothing_but_the_plugin_api() -> None:
    """What third parties copy from is what they may rely on."""
    for path in sorted(ROOT.glob("examples/*/kaiwo_*/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kaiwo."):
                assert node.module is not None
                assert node.module.startswith(("kaiwo.plugin", "kaiwo.cli.kit")), f"{path}: {node.module}"


@pytest.mark.parametrize(
    "module",
    ["addresses", "kinds", "json_access", "values", "names", "nodes", "cache", "errors", "api_errors"],
)
def test_what_declarations_import_is_light(module: str) -> None:
    """A plugin that names a kind or a label does not load a library that takes longer than itself."""
    heavy = ["aiohttp", "kopf", "kubernetes", "pydantic", "yaml"]
    script = f"import sys, {plugin_kit.KIT}.{module}; print(*set({heavy}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
