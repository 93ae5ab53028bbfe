"""Whether what users write has a structural schema, in which every field is described."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from kaiwo.testing.conformance.results import CheckOutput, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.registry import LoadedPlugin
    from kaiwo.testing.conformance.results import CheckInput

_JSON_NAME = re.compile(r"[a-z][A-Za-z0-9]*")

_NO_DESCRIPTION = (
    "kubectl explain, the CRD and the reference say nothing about it",
    "add Field(description=...) to it",
)
_NOT_STRUCTURAL = (
    "the API server accepts any value there, and a mistake is found only when the workload runs",
    "use one type, or Opaque of kaiwo.plugin.kit.fields where any value is meant",
)
_NOT_CAMEL_CASE = (
    "fields of Kubernetes objects are written in camel case, and users guess names by that",
    "derive the model from kaiwo.plugin.kit.fields.Model, which names fields so",
)
_ANYTHING = "x-kubernetes-preserve-unknown-fields"


def check(given: CheckInput) -> CheckOutput:
    """Check fields, settings and kinds of a plugin."""
    parts = list(_parts(given.plugin))
    if not parts:
        return CheckOutput("")
    violations = tuple(
        violation
        for where, annotation, description in parts
        for violation in (*_described(where, description), *_violations(where, annotation))
    )
    names = ", ".join(where for where, _, _ in parts)
    return CheckOutput(names, violations)


def _parts(plugin: LoadedPlugin) -> Iterator[tuple[str, Any, str]]:
    """What has a schema: where it is, its type, and its own description."""
    for field in plugin.fields():
        yield f"{field.kind}.{'.'.join(field.path)}", field.annotation, field.description
    settings = plugin.settings_model()
    if settings is not None:
        yield f"KaiwoConfig.plugins.{plugin.name}", settings, "settings"
    for controller in plugin.controllers:
        for kind in controller.kinds:
            yield f"{kind.resource.kind}.spec", kind.spec, kind.description
            yield f"{kind.resource.kind}.status", kind.status, kind.description


def _described(where: str, description: str) -> Iterator[Violation]:
    if not description.strip():
        yield Violation(where, "has no description", *_NO_DESCRIPTION)


def _violations(where: str, annotation: Any) -> Iterator[Violation]:
    document = TypeAdapter(annotation).json_schema(by_alias=True)
    yield from _Schema(document.get("$defs", {})).violations(document, where, ())


class _Schema:
    """A JSON schema of pydantic's with its definitions."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions

    def violations(self, node: dict[str, Any], where: str, within: tuple[str, ...]) -> Iterator[Violation]:
        """What is wrong at a place and below it.

        Args:
            node: the schema there.
            where: the place.
            within: names of the definitions around it.
        """
        while not node.get(_ANYTHING) and not node.get("x-kubernetes-int-or-string"):
            if name := str(node.get("$ref", "")).rpartition("/")[2]:
                if name in within:
                    yield Violation(where, "contains itself", *_NOT_STRUCTURAL)
                    return
                within, node = (*within, name), self._definitions[name]
                continue
            alternatives = node.get("anyOf") or node.get("oneOf") or node.get("allOf")
            if not alternatives:
                break
            real = [each for each in alternatives if each.get("type") != "null"]
            if len(real) != 1:
                yield Violation(where, f"has one of {len(real)} types", *_NOT_STRUCTURAL)
                return
            node = real[0]
        else:
            return
        if not {"type", "enum", "const"} & node.keys():
            yield Violation(where, "has no type", *_NOT_STRUCTURAL)
            return
        yield from self._below(node, where, within)

    def _below(self, node: dict[str, Any], where: str, within: tuple[str, ...]) -> Iterator[Violation]:
        for name, part in node.get("properties", {}).items():
            at = f"{where}.{name}"
            if not self._description(part):
                yield Violation(at, "has no description", *_NO_DESCRIPTION)
            if not _JSON_NAME.fullmatch(name):
                yield Violation(at, "is not in camel case", *_NOT_CAMEL_CASE)
            yield from self.violations(part, at, within)
        if isinstance(items := node.get("items"), dict):
            yield from self.violations(items, f"{where}[]", within)
        elif node.get("type") == "array":
            yield Violation(where, "has items of no type", *_NOT_STRUCTURAL)
        if isinstance(values := node.get("additionalProperties"), dict):
            yield from self.violations(values, f"{where}.*", within)

    def _description(self, part: dict[str, Any]) -> str:
        """The description of a property, which may be that of its type."""
        own = part.get("description")
        if own:
            return str(own)
        name = str(part.get("$ref", "")).rpartition("/")[2]
        return str(self._definitions.get(name, {}).get("description", "")) if name else ""
