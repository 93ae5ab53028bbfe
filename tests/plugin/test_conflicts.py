"""Two plugins that declare the same thing: neither loads, and both distributions are named."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest

from kaiwo.plugin.conflicts import HOST_COMMANDS
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection

if TYPE_CHECKING:
    from collections.abc import Callable

IMPORTS = """
from pydantic import BaseModel
from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import JOB, Resource
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.commands import Command
from kaiwo.plugin.controllers import CustomKind, ExtraController
from kaiwo.plugin.diagnosis import DiagnosisRule
from kaiwo.plugin.rendering import PodContribution
from kaiwo.plugin.queues import QueueSystem
from kaiwo.plugin.sources import DownloadSource
from kaiwo.plugin.vendors import GpuVendor


class Item(BaseModel):
    x: int


def backend(name, *path):
    field = Field("KaiwoJob", path, dict, "A block.")
    return Backend(name=name, kind="KaiwoJob", child=JOB, fields=(field,))


def source(name, *path):
    return DownloadSource(name=name, path=path, item=Item, description="A source.")


def vendor(name, *keys):
    return GpuVendor(name=name, resource_keys=keys, recognise=lambda node: ())


def queue(name):
    return QueueSystem(name=name, assign=lambda workload, facts: None, admission=lambda child, facts: None)


def controller(name, plural, group="acme.com"):
    kind = CustomKind(resource=Resource(group, "v1", "K", plural), spec=Item, status=Item)
    return ExtraController(name=name, build="shlex:split", kinds=(kind,))

"""

CASES = {
    "backend same": ("backends", "backend('same', 'aJob')", "backend('same', 'bJob')"),
    "field KaiwoJob.same": ("backends", "backend('a', 'same')", "backend('b', 'same')"),
    "field KaiwoJob.block.inner": ("backends", "backend('a', 'block')", "backend('b', 'block', 'inner')"),
    "field KaiwoJob.storage.data.download.same": (
        "download_sources",
        "source('a', 'data', 'download', 'same')",
        "source('b', 'data', 'download', 'same')",
    ),
    "download source same": (
        "download_sources",
        "source('same', 'data', 'download', 'a')",
        "source('same', 'data', 'download', 'b')",
    ),
    "GPU vendor same": ("gpu_vendors", "vendor('same', 'a.com/gpu')", "vendor('same', 'b.com/gpu')"),
    "resource key same.com/gpu": (
        "gpu_vendors",
        "vendor('a', 'same.com/gpu')",
        "vendor('b', 'same.com/gpu')",
    ),
    "resource key same.com/part-1": (
        "gpu_vendors",
        "vendor('a', 'a.com/gpu', 'same.com/part-*')",
        "vendor('b', 'same.com/part-1')",
    ),
    "resource key same.com/part-1*": (
        "gpu_vendors",
        "vendor('a', 'a.com/gpu', 'same.com/part-*')",
        "vendor('b', 'b.com/gpu', 'same.com/part-1*')",
    ),
    "queue system": ("queue_systems", "queue('a')", "queue('b')"),
    "controller same": ("controllers", "controller('same', 'as')", "controller('same', 'bs')"),
    "kind same.acme.com": ("controllers", "controller('a', 'same')", "controller('b', 'same')"),
    "command same": (
        "commands",
        "Command(name='same', load='shlex:split', help='A.')",
        "Command(name='same', load='shlex:split', help='B.')",
    ),
    "pod contribution same": (
        "pod_contributions",
        "PodContribution(name='same', contribute=lambda given, pod: pod)",
        "PodContribution(name='same', contribute=lambda given, pod: pod)",
    ),
    "diagnosis rule same": (
        "diagnosis_rules",
        "DiagnosisRule(name='same', diagnose=lambda observation: None)",
        "DiagnosisRule(name='same', diagnose=lambda observation: None)",
    ),
}


def source_of(hook: str, *declarations: str) -> str:
    """A plugin whose one hook returns these."""
    return IMPORTS + f"\n@hookimpl\ndef kaiwo_{hook}():\n    return [{', '.join(declarations)}]\n"


@pytest.mark.parametrize("what", CASES)
def test_of_two_that_declare_the_same_neither_loads_and_both_distributions_are_named(
    install: Callable[..., str], what: str
) -> None:
    """Names do not decide; the administrator reads which two distributions to choose between."""
    hook, first, second = CASES[what]
    install("aaa", source_of(hook, first))
    install("bbb", source_of(hook, second))
    states = {state.name: state for state in load(PluginSelection(names=("aaa", "bbb"))).states}
    assert states["aaa"].state == "broken"
    assert "is also declared by plugin bbb of kaiwo-bbb" in states["aaa"].message
    assert states["bbb"].state == "broken"
    assert states["bbb"].message == (
        f"{what} is also declared by plugin aaa of kaiwo-aaa; disable or uninstall kaiwo-bbb or kaiwo-aaa, "
        "or write bbb@kaiwo-bbb in KAIWO_PLUGINS"
    )


@pytest.mark.parametrize("what", CASES)
def test_the_one_that_configuration_names_with_its_distribution_is_loaded(
    install: Callable[..., str], what: str
) -> None:
    """The administrator chooses, and the other one says why it is left out."""
    hook, first, second = CASES[what]
    install("aaa", source_of(hook, first))
    install("bbb", source_of(hook, second))
    selection = PluginSelection(names=("aaa", "bbb@kaiwo-bbb"))
    states = {state.name: state for state in load(selection).states}
    assert states["bbb"].state == "loaded"
    assert states["aaa"].state == "broken"
    assert "is declared by plugin bbb of kaiwo-bbb, which configuration prefers" in states["aaa"].message


@pytest.mark.parametrize("what", CASES)
def test_a_plugin_that_contradicts_itself_is_refused(install: Callable[..., str], what: str) -> None:
    """A duplicate within one plugin is reported as its author's mistake."""
    hook, first, second = CASES[what]
    install("aaa", source_of(hook, first, second))
    (state,) = [s for s in load(PluginSelection(names=("aaa",))).states if s.name == "aaa"]
    assert state.message == f"{what} is declared twice"


def test_of_a_refused_plugin_nothing_stays(install: Callable[..., str]) -> None:
    """A plugin is loaded whole or not at all, and what it wanted is free for the next."""
    install("aaa", source_of("gpu_vendors", "vendor('a', 'a.com/gpu')"))
    install("bbb", source_of("gpu_vendors", "vendor('b', 'b.com/gpu')", "vendor('a', 'x.com/gpu')"))
    install("ccc", source_of("gpu_vendors", "vendor('c', 'b.com/gpu')"))
    plugins = load(PluginSelection(names=("aaa", "bbb", "ccc"), required=frozenset({"aaa"})))
    assert [vendor.name for vendor in plugins.vendors] == ["a", "c"]


@pytest.mark.parametrize(
    ("hook", "declaration", "what"),
    [
        ("commands", "Command(name='submit', load='shlex:split', help='A.')", "command submit"),
        (
            "controllers",
            "controller('a', 'kaiwojobs', 'kaiwo.silogen.ai')",
            "kind kaiwojobs.kaiwo.silogen.ai",
        ),
    ],
)
def test_what_is_the_hosts_cannot_be_taken(
    install: Callable[..., str], hook: str, declaration: str, what: str
) -> None:
    """No plugin replaces a command or a kind of the host."""
    install("aaa", source_of(hook, declaration))
    (state,) = [s for s in load(PluginSelection(names=("aaa",))).states if s.name == "aaa"]
    assert state.message == f"{what} belongs to kaiwo itself; kaiwo-aaa must use another name"


@pytest.mark.parametrize("path", ["'gpus'", "'storage'", "'storage', 'data', 'mountPath'", "'image', 'tag'"])
def test_a_field_of_the_host_cannot_be_taken(install: Callable[..., str], path: str) -> None:
    """A plugin cannot change what a documented field means, nor spoil the schema for others."""
    install("aaa", source_of("backends", f"backend('a', {path})"))
    (state,) = [s for s in load(PluginSelection(names=("aaa",))).states if s.name == "aaa"]
    assert "belongs to kaiwo itself; kaiwo-aaa must use another name" in state.message


def test_every_command_of_the_host_is_kept_for_it() -> None:
    """The list of words that plugins cannot take is not behind the command line."""
    commands = importlib.import_module("kaiwo.cli.main").COMMANDS
    assert set(commands) <= set(HOST_COMMANDS)
