"""One version for the host and its plugins, set by one command."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

from kaiwo.plugin.api_version import check_api_version
from release import version
from release.projects import ROOT, Project, host, plugins, projects

PLUGIN_IDS = [plugin.folder.name for plugin in plugins()]


def requirements(project: Project) -> list[str]:
    """Everything that a project requires, with and without its extras."""
    extras: dict[str, list[str]] = project.metadata.get("optional-dependencies", {})
    return [*project.metadata["dependencies"], *(each for extra in extras.values() for each in extra)]


def test_the_host_and_its_plugins_have_one_version() -> None:
    """They are released together."""
    assert {project.version for project in projects()} == {host().version}


@pytest.mark.parametrize("project", projects(), ids=["host", *PLUGIN_IDS])
def test_distributions_of_the_repository_name_each_other_by_the_version(project: Project) -> None:
    """A plugin of this release never meets a host of another one."""
    own = [each for each in requirements(project) if each.startswith("kaiwo")]
    versions = {each.rpartition("==")[2] for each in own if not each.startswith("kaiwo[") or "==" in each}
    assert versions <= {host().version}
    if project.folder != ROOT:
        assert f"kaiwo=={host().version}" in project.metadata["dependencies"]


@pytest.mark.parametrize("plugin", plugins(), ids=PLUGIN_IDS)
def test_this_host_loads_the_plugins_api_version(plugin: Project) -> None:
    """What a plugin states in ``KAIWO_API`` is what the host of the same release offers."""
    entries: dict[str, str] = plugin.metadata["entry-points"]["kaiwo.plugins"]
    for module in entries.values():
        check_api_version(importlib.import_module(module))


def test_each_plugin_has_an_extra_and_all_has_those_of_the_operator() -> None:
    """``kaiwo[kueue]`` installs one plugin, ``kaiwo[all]`` every one but the sandbox."""
    extras: dict[str, list[str]] = host().metadata["optional-dependencies"]
    (everything,) = extras["all"]
    chosen = set(everything.removeprefix("kaiwo[").removesuffix("]").split(","))
    found = set()
    for plugin in plugins():
        (extra,) = [name for name, each in extras.items() if each == [f"{plugin.name}=={plugin.version}"]]
        assert plugin.folder.name.replace("_", "-").startswith(extra)
        found.add(extra)
    assert chosen == found - {"sandbox"}


def test_setting_the_version_changes_every_place_that_has_it() -> None:
    """After the command no project names the version before."""
    for project in projects():
        text = version.pinned(project.file.read_text("utf-8"), "7.8.9rc1")
        own = re.findall(r'^version = "(.*)"$|"kaiwo[^"=]*==([^"]*)"', text, re.MULTILINE)
        assert own
        assert {first or second for first, second in own} == {"7.8.9rc1"}


def test_setting_the_version_twice_changes_nothing() -> None:
    """The files have the form that the command writes, and no guide names another version of an image."""
    for project in projects():
        text = project.file.read_text("utf-8")
        assert version.pinned(text, host().version) == text
    for page in version.pages():
        text = page.read_text("utf-8")
        assert version.named(text, host().version) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "push registry.example.com/ml/kaiwo-operator:0.1.0 now",
            "push registry.example.com/ml/kaiwo-operator:2.0.0 now",
        ),
        ("pip install 'kaiwo[all]==0.1.0'", "pip install 'kaiwo[all]==2.0.0'"),
        ("dist/kaiwo_batch_job-0.1.0-py3-none-any.whl", "dist/kaiwo_batch_job-2.0.0-py3-none-any.whl"),
        ('LABEL org.opencontainers.image.version="0.1.0"', 'LABEL org.opencontainers.image.version="2.0.0"'),
        ("kaiwo-kueue works with Kueue 0.12.0", "kaiwo-kueue works with Kueue 0.12.0"),
    ],
)
def test_guides_name_the_version(text: str, expected: str) -> None:
    """Images, wheels and requirements in guides follow; versions of other projects stay."""
    assert version.named(text, "2.0.0") == expected


def test_the_changelog_gets_a_heading_once() -> None:
    """What was unreleased belongs to the version, and a second run changes nothing."""
    text = "# Changelog\n\n## [Unreleased]\n\n### Added\n"
    made = version.released(text, "1.0.0", "2027-01-02")
    assert made == "# Changelog\n\n## [Unreleased]\n\n## [1.0.0] - 2027-01-02\n\n### Added\n"
    assert version.released(made, "1.0.0", "2027-01-03") == made


@pytest.mark.parametrize("arguments", [["v1.0.0"], ["1.0"], ["1.0.0", "2.0.0"]])
def test_what_is_no_version_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written."""
    assert version.main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: ")


def test_the_command_without_arguments_prints_both_versions(capsys: pytest.CaptureFixture[Any]) -> None:
    """The version of the distributions, and that of the plugin API."""
    assert version.main([]) == 0
    assert re.fullmatch(rf"kaiwo {re.escape(host().version)}, plugin API \d+\.\d+\n", capsys.readouterr().out)
