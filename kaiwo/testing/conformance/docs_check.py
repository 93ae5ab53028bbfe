"""Whether a distribution says what it is: its metadata, its README, and what it announces."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, metadata, requires
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from kaiwo.plugin.discovery import announced_fields
from kaiwo.plugin.selection import normalised
from kaiwo.testing.conformance.results import CheckOutput, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.registry import LoadedPlugin
    from kaiwo.testing.conformance.results import CheckInput

_METADATA = "package indexes and pip show it to those who choose a plugin"


def check(given: CheckInput) -> CheckOutput:
    """Check the distribution of a plugin."""
    plugin = given.plugin
    where = f"distribution {plugin.distribution}"
    try:
        found = metadata(plugin.distribution).json
    except PackageNotFoundError:
        missing = Violation(where, "has no metadata", _METADATA, "install it with pip")
        return CheckOutput(plugin.distribution, (missing,))
    summary = str(found.get("summary") or "")
    readme = _source_readme(plugin.distribution) or str(found.get("description") or "").strip()
    violations = (
        *_metadata(where, summary, readme),
        *_requirement(where, plugin),
        *_typed(where, plugin),
        *_announced(where, plugin),
        *(_documented(where, plugin, readme) if readme else ()),
    )
    return CheckOutput(summary or plugin.distribution, violations)


def _source_readme(name: str) -> str:
    """The README of an editable installation, whose metadata is that of the day it was made."""
    url = json.loads(distribution(name).read_text("direct_url.json") or "{}")
    if not url.get("dir_info", {}).get("editable"):
        return ""
    project = Path(unquote(urlsplit(url["url"]).path))
    try:
        readme = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]["readme"]
        file = readme if isinstance(readme, str) else readme["file"]
        return (project / file).read_text("utf-8").strip()
    except (OSError, KeyError, ValueError):
        return ""


def _metadata(where: str, summary: str, readme: str) -> Iterator[Violation]:
    if not summary or summary == "UNKNOWN":
        yield Violation(where, "has no summary", _METADATA, 'add description = "..." to [project]')
    if not readme:
        yield Violation(where, "has no README", _METADATA, 'add readme = "README.md" to [project]')


def _requirement(where: str, plugin: LoadedPlugin) -> Iterator[Violation]:
    """The host's version is limited: another major version has another plugin API."""
    found = [each for each in requires(plugin.distribution) or () if re.match(r"kaiwo(?![\w.-])", each)]
    if normalised(plugin.distribution) == "kaiwo":
        return
    if not any(re.search(r"[<=~]", each) for each in found):
        yield Violation(
            where,
            f"requires {found[0]} without an upper bound" if found else "does not require kaiwo",
            "pip installs it beside a version of Kaiwo for which it was not written",
            'write for example "kaiwo>=0.1,<1" in dependencies',
        )


def _typed(where: str, plugin: LoadedPlugin) -> Iterator[Violation]:
    package = plugin.module.partition(".")[0]
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if folders and not any((Path(folder) / "py.typed").exists() for folder in folders):
        yield Violation(
            where,
            f"has no {package}/py.typed",
            "type checkers ignore its types",
            "add the empty file to the package",
        )


def _announced(where: str, plugin: LoadedPlugin) -> Iterator[Violation]:
    """Announced fields are the declared ones: messages name the plugin by them while it is not selected."""
    declared = {(str(field.kind), ".".join(field.path)) for field in plugin.fields()}
    package = plugin.module.partition(".")[0]
    announced = {
        (str(field.kind), field.path)
        for field in announced_fields()
        if normalised(field.distribution) == normalised(plugin.distribution)
        and field.package.partition(".")[0] == package
    }
    why = "a user whose workload has the field is not told which plugin to select"
    for name, path in sorted(declared - announced):
        add = f'add "{name}.{path}" = "{package}" to [project.entry-points."kaiwo.fields"], and install again'
        yield Violation(where, f"does not announce the field {name}.{path}", why, add)
    for name, path in sorted(announced - declared):
        remove = 'remove it from [project.entry-points."kaiwo.fields"], and install again'
        yield Violation(where, f"announces the field {name}.{path}, which it does not declare", why, remove)


def _documented(where: str, plugin: LoadedPlugin, readme: str) -> Iterator[Violation]:
    """The README names what users and administrators write."""
    for name in dict.fromkeys(_names(plugin)):
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", readme):
            yield Violation(
                where,
                f"has a README without {name}",
                "its readers do not learn that it is there",
                f"describe {name} in the README",
            )


def _names(plugin: LoadedPlugin) -> Iterator[str]:
    yield from (field.path[-1] for field in plugin.fields())
    settings = plugin.settings_model()
    if settings is not None:
        yield from (info.alias or name for name, info in settings.model_fields.items())
    yield from (command.name for command in plugin.commands)
    for controller in plugin.controllers:
        for kind in controller.kinds:
            yield kind.resource.kind
            yield from (info.alias or name for name, info in kind.spec.model_fields.items())
