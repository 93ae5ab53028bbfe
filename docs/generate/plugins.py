"""What the plugins of this repository declare, for their READMEs, and the directory of all plugins."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from docs.generate.fields import FieldRow, schema_rows
from docs.generate.pages import StaleReferenceError, table
from docs.generate.reasons import ROOT
from kaiwo.api.kind_models import compose_spec
from kaiwo.api.schema import structural
from kaiwo.plugin.claims import FIRST_PARTY, own_distribution
from kaiwo.plugin.hookspecs import API_MAJOR
from kaiwo.plugin.selection import normalised

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kaiwo.plugin.rbac import PolicyRule
    from kaiwo.plugin.registry import LoadedPlugin, Plugins

THIRD_PARTY: Final = ROOT / "docs" / "generate" / "third_party_plugins.toml"

_WORDS: Final = {
    "backends": "backend",
    "sources": "download source",
    "vendors": "GPU vendor",
    "queue_systems": "queue system",
    "controllers": "controller",
    "contributions": "contribution to pods",
    "namespace_defaults": "defaults for a namespace",
    "diagnosis_rules": "diagnosis rule",
    "commands": "command",
    "lifecycles": "lifecycle",
    "listeners": "transition listener",
}
"""Attributes of :class:`LoadedPlugin` in words, in the order of the hooks."""

_KEYS: Final = ("name", "distribution", "summary", "source", "license", "api")
_API: Final = re.compile(rf"{API_MAJOR}\.(0|[1-9][0-9]*)")


def plugin_blocks(plugins: Plugins) -> dict[str, str]:
    """A block for the README of each plugin, and the two tables of the directory."""
    return {
        **{f"plugin-{plugin.name}": _declared(plugin) for plugin in plugins.loaded},
        "first-party-plugins": _first_party(plugins),
        "third-party-plugins": third_party(THIRD_PARTY),
    }


def _declared(plugin: LoadedPlugin) -> str:
    """Everything that a plugin declares: names, kinds, fields, settings and rights."""
    parts = [table(("declares", "name"), _names(plugin))]
    if rows := _field_rows(plugin):
        parts += ["Fields:", table(("field", "of", "takes", "meaning"), rows)]
    if (model := plugin.settings_model()) is not None:
        settings = schema_rows(structural(model))
        parts.append(f"Settings, `spec.plugins.{plugin.name}` in KaiwoConfig:")
        parts.append(table(("field", "takes", "default", "meaning"), map(_setting, settings)))
    if rules := plugin.rules():
        parts.append("Rights of the operator that come with it:")
        parts.append(table(("resources", "verbs", "why"), dict.fromkeys(map(_rule, rules))))
    return "\n\n".join(parts)


def _names(plugin: LoadedPlugin) -> Iterable[Sequence[str]]:
    for attribute, word in _WORDS.items():
        if declared := getattr(plugin, attribute):
            yield word, ", ".join(f"`{item.name}`" for item in declared)
    if keys := [key for vendor in plugin.vendors for key in vendor.resource_keys]:
        yield "resource key", ", ".join(f"`{key}`" for key in keys)
    if kinds := [kind.resource for controller in plugin.controllers for kind in controller.kinds]:
        yield "kind", ", ".join(f"`{kind.kind}` (`{kind.api_version}`)" for kind in kinds)


def _field_rows(plugin: LoadedPlugin) -> list[tuple[str, str, str, str]]:
    """The fields below ``spec``, those of both kinds in one row, each with what is below it."""
    kinds: dict[FieldRow, list[str]] = {}
    for field in plugin.fields():
        for row in schema_rows(structural(compose_spec(field.kind, [field], {}))):
            path = ".".join(field.path)
            if row.path == path or row.path.startswith((f"{path}.", f"{path}[]")):
                kinds.setdefault(row, []).append(field.kind)
    return [(f"`{row.path}`", ", ".join(of), _takes(row), row.meaning) for row, of in kinds.items()]


def _takes(row: FieldRow) -> str:
    return f"{row.type}, required" if row.default == "required" else row.type


def _setting(row: FieldRow) -> Sequence[str]:
    return f"`{row.path}`", row.type, row.default, row.meaning


def _rule(rule: PolicyRule) -> Sequence[str]:
    resources = ", ".join(
        f"`{_qualified(resource, group)}`" for group in rule.groups for resource in rule.resources
    )
    why = f"{rule.why}; only while the setting `{rule.setting}` is on" if rule.setting else rule.why
    return resources, ", ".join(rule.verbs), why


def _qualified(resource: str, group: str) -> str:
    """A resource with its group, as kubectl writes it; a subresource comes last."""
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource


def _first_party(plugins: Plugins) -> str:
    rows = []
    for plugin in plugins.loaded:
        metadata = importlib.metadata.metadata(plugin.distribution)
        summary = metadata["Summary"].removeprefix("Kaiwo plugin: ")
        declares = [word for attribute, word in _WORDS.items() if getattr(plugin, attribute)]
        link = f"[{plugin.name}](../plugins/{plugin.name}/README.md)"
        rows.append((link, f"`{plugin.distribution}`", summary, ", ".join(declares)))
    return table(("plugin", "distribution", "what for", "declares"), rows)


def third_party(file: Path) -> str:
    """The plugins of others.

    Raises:
        StaleReferenceError: an entry cannot be listed.
    """
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("plugin", [])
    for entry in entries:
        if problem := _problem(entry):
            raise StaleReferenceError(f"{file.name}: {entry.get('name')}: {problem}")
    names = [entry["name"] for entry in entries]
    if names != sorted(set(names)):
        raise StaleReferenceError(f"{file.name}: entries are not in the order of their names, each once")
    rows = [
        (
            f"[{entry['name']}]({entry['source']})",
            f"`{entry['distribution']}`",
            entry["summary"],
            entry["license"],
            entry["api"],
        )
        for entry in entries
    ]
    head = ("plugin", "distribution", "what for", "license", "API")
    return table(head, rows) if rows else "None is listed yet."


def _problem(entry: dict[str, Any]) -> str:
    """Why an entry cannot be listed; empty if it can."""
    if set(entry) != set(_KEYS) or not all(isinstance(value, str) and value for value in entry.values()):
        return f"expected the texts {', '.join(_KEYS)}"
    if entry["name"] in FIRST_PARTY:
        return "the name is a plugin's of this project"
    if normalised(entry["distribution"]) != own_distribution(entry["name"]):
        return f"the distribution is not {own_distribution(entry['name'])}"
    if not entry["source"].startswith("https://"):
        return "source is not an https:// address"
    if not _API.fullmatch(entry["api"]):
        return f"api is not a version such as {API_MAJOR}.0"
    return ""
