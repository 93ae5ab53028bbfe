"""Writes a tree as text of a template."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import yaml

from charts.generate.conditions import ALWAYS
from charts.generate.joined import Joined
from charts.generate.switches import (
    CA_FILE,
    CERTIFICATES,
    IMAGE,
    INTERVAL,
    METRICS,
    METRICS_PORT,
    METRICS_PORT_TEMPLATE,
    NAMESPACE,
    PORT,
    PRIORITY_CLASS,
    PULL_SECRET,
    REPLICAS,
    SCHEDULER_IMAGE,
    SECRET,
    TOKEN_FILE,
    WATCHED,
)
from charts.generate.tree import (
    Alternatives,
    Entry,
    Fixed,
    Include,
    Items,
    Mapping,
    Node,
    Overridable,
    Template,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from charts.generate.conditions import Condition

_VALUES: Final[dict[object, str]] = {
    NAMESPACE: ".Release.Namespace",
    IMAGE: ".Values.image",
    SCHEDULER_IMAGE: ".Values.schedulerImage",
    REPLICAS: ".Values.replicas",
    PRIORITY_CLASS: ".Values.priorityClassName",
    CERTIFICATES: ".Values.webhooks.certificateSecret",
    METRICS: ".Values.monitoring.endpoint",
    INTERVAL: ".Values.monitoring.interval",
    METRICS_PORT: f'include "{METRICS_PORT_TEMPLATE}" .',
    TOKEN_FILE: ".Values.monitoring.tokenFile",
    CA_FILE: ".Values.monitoring.caFile",
}
"""The expression for each placeholder of one value."""


@dataclass(frozen=True, slots=True)
class _Range:
    """A placeholder for each value of a list."""

    values: str
    variable: str


_RANGES: Final[dict[object, _Range]] = {
    WATCHED: _Range(".Values.watchNamespaces | sortAlpha", "$namespace"),
    PULL_SECRET: _Range(".Values.imagePullSecrets", "$secret"),
    SECRET: _Range(".Values.secretMounts", "$secret"),
    PORT: _Range(".Values.networkPolicy.apiServerPorts", "$port"),
}

_WIDTH: Final = 100
_UNSAFE: Final = re.compile(r"\{\{")


class NotWritableError(Exception):
    """A value that cannot be written into a template."""


@dataclass(frozen=True, slots=True)
class Style:
    """How values are written.

    Attributes:
        flow: whether short lists stand on one line.
        quote: the function through which a single placeholder goes.
    """

    flow: bool = True
    quote: str = "quote"


def conditional(condition: Condition, lines: Sequence[str], indent: int) -> list[str]:
    """Lines that are there under a condition."""
    if condition.always:
        return list(lines)
    space = " " * indent
    return [f"{space}{{{{- if {condition.expression()} }}}}", *lines, f"{space}{{{{- end }}}}"]


def block(node: Node, indent: int, style: Style) -> list[str]:
    """The lines of a mapping or of a sequence."""
    if isinstance(node, Mapping):
        found: list[str] = []
        for entry in node.entries:
            lines = _field(entry.key, entry.node, indent, style)
            found += conditional(entry.condition, _above(entry, indent) + lines, indent)
        return found
    if isinstance(node, Items):
        return _sequence(node.entries, indent, style)
    raise NotWritableError(f"{type(node).__name__} is no block")


def _sequence(entries: Sequence[Entry], indent: int, style: Style) -> list[str]:
    """Items; two of which one is there whenever the other one is not share a condition."""
    space = " " * indent
    found: list[str] = []
    number = 0
    while number < len(entries):
        entry, following = entries[number], entries[number + 1 : number + 2]
        if following and entry.condition.is_opposite(following[0].condition):
            first, other = (
                _ranged(replace(one, condition=ALWAYS), indent, style) for one in (entry, *following)
            )
            test = entry.condition.expression()
            found += [f"{space}{{{{- if {test} }}}}", *first, f"{space}{{{{- else }}}}", *other]
            found += [f"{space}{{{{- end }}}}"]
            number += 2
        else:
            found += _ranged(entry, indent, style)
            number += 1
    return found


def _above(entry: Entry, indent: int) -> list[str]:
    return [f"{' ' * indent}# {' '.join(comment.split())}" for comment in entry.comments]


def _field(key: str, node: Node, indent: int, style: Style) -> list[str]:
    space = " " * indent
    name = scalar(key, style)
    match node:
        case Fixed(value):
            return [f"{space}{name}: {_all_values(key, value) or _inline(value, style)}"]
        case Template(text, is_block):
            if not is_block:
                return [f"{space}{name}: {text}"]
            return [f"{space}{name}:", f"{space}  {text.replace('INDENT', str(indent + 2))}"]
        case Include(template):
            return [f'{space}{{{{- include "{template}" . | nindent {indent} }}}}']
        case Overridable():
            return _overridable(key, node, indent, style)
        case Joined():
            return [*_members(node, indent), f"{space}{name}: {_join(node)}"]
        case Mapping():
            return [f"{space}{name}:", *block(node, indent + 2, style)]
        case Items():
            flow = _flow(node, style)
            short = flow is not None and len(flow) + indent < _WIDTH
            return [f"{space}{name}: {flow}"] if short else [f"{space}{name}:", *block(node, indent, style)]
        case Alternatives(entries):
            return _alternatives(key, entries, indent, style)


def _all_values(key: str, value: Any) -> str:
    """The expression of all values of a list, joined; empty where the value is no placeholder of a list."""
    if key != "value" or not isinstance(value, str) or value not in _RANGES:
        return ""
    return f'{{{{ {_RANGES[value].values} | join "," | quote }}}}'


def _overridable(key: str, node: Overridable, indent: int, style: Style) -> list[str]:
    space = " " * indent
    found = [
        f"{space}{{{{- with {node.values} }}}}",
        f"{space}{key}:",
        f"{space}  {{{{- toYaml . | nindent {indent + 2} }}}}",
    ]
    if node.node is not None:
        found += [f"{space}{{{{- else }}}}", *_field(key, node.node, indent, style)]
    return [*found, f"{space}{{{{- end }}}}"]


def _alternatives(key: str, entries: Sequence[Entry], indent: int, style: Style) -> list[str]:
    space = " " * indent
    found = []
    for number, entry in enumerate(entries):
        word = "if" if number == 0 else "else if"
        test = "else" if number == len(entries) - 1 else f"{word} {entry.condition.expression()}"
        found += [f"{space}{{{{- {test} }}}}", *_field(key, entry.node, indent, style)]
    return [*found, f"{space}{{{{- end }}}}"]


def _flow(node: Items, style: Style) -> str | None:
    """The sequence on one line; None where it cannot be."""
    if not style.flow:
        return None
    found = []
    for entry in node.entries:
        if not entry.condition.always or not isinstance(entry.node, Fixed) or entry.comments:
            return None
        if isinstance(entry.node.value, dict | list) or entry.node.value in _RANGES:
            return None
        found.append(scalar(entry.node.value, style))
    if any("," in one or "[" in one for one in found):
        return None
    return f"[{', '.join(found)}]"


def _ranged(entry: Entry, indent: int, style: Style) -> list[str]:
    """An item, in a loop when it is there for each value of a list."""
    space = " " * indent
    for placeholder, loop in _RANGES.items():
        if _is_each(entry.node, placeholder):
            lines = _above(entry, indent) + _item(entry.node, indent, style)
            quote = " | quote" if isinstance(placeholder, str) else ""
            text = "\n".join(lines).replace(json.dumps(placeholder), f"{{{{ {loop.variable}{quote} }}}}")
            if isinstance(placeholder, str):
                text = text.replace(placeholder, f"{{{{ {loop.variable} }}}}")
            return [
                f"{space}{{{{- range {loop.variable} := {loop.values} }}}}",
                *inside_range(text.splitlines()),
                f"{space}{{{{- end }}}}",
            ]
    return conditional(entry.condition, _above(entry, indent) + _item(entry.node, indent, style), indent)


def _is_each(node: Node, placeholder: object) -> bool:
    if isinstance(node, Fixed):
        return bool(node.value == placeholder)
    return isinstance(node, Mapping) and any(
        entry.key in ("name", "port") and _is_each(entry.node, placeholder) for entry in node.entries
    )


def inside_range(lines: Sequence[str]) -> list[str]:
    """Lines within a loop, where the dot is the item of the list."""
    found = [re.sub(r"(?<![\w$)\]])\.(Values|Release|Chart)\b", r"$.\1", line) for line in lines]
    return [re.sub(r'(include "[\w.]+") \. ', r"\1 $ ", line) for line in found]


def _item(node: Node, indent: int, style: Style) -> list[str]:
    space = " " * indent
    match node:
        case Fixed(value):
            return [f"{space}- {_inline(value, style)}"]
        case Template(text):
            return [f"{space}- {text}"]
        case Joined():
            return [*_members(node, indent), f"{space}- {_join(node)}"]
        case Mapping():
            lines = block(node, indent + 2, style)
            if lines[0].lstrip().startswith("{{"):
                return [f"{space}-", *lines]
            return [f"{space}- {lines[0].lstrip()}", *lines[1:]]
        case _:
            raise NotWritableError(f"{type(node).__name__} in a list")


def _members(node: Joined, indent: int) -> list[str]:
    space = " " * indent
    found = [f"{space}{{{{- $members := list }}}}"]
    for member in node.members:
        _check(member.text)
        if "`" in member.text or any(str(value) in member.text for value in _VALUES):
            raise NotWritableError(f"back quote or placeholder in {member.text}")
        line = f"{space}{{{{- $members = append $members `{member.text}` }}}}"
        found += conditional(member.condition, [line], indent)
    return found


def _join(node: Joined) -> str:
    """The expression of a string with a list inside; it may contain a placeholder nowhere."""
    if any(str(value) in f"{node.before}{node.after}" for value in _VALUES):
        raise NotWritableError(f"placeholder in {node.before}")
    if node.before or node.after:
        text = "%s".join(part.replace("%", "%%") for part in (node.before, node.after))
        return f"{{{{ printf `{text}` (join {json.dumps(node.separator)} $members) | quote }}}}"
    return f"{{{{ join {json.dumps(node.separator)} $members | quote }}}}"


def _inline(value: Any, style: Style) -> str:
    if isinstance(value, dict | list):
        if value:
            raise NotWritableError(f"{value} is no scalar")
        return "{}" if isinstance(value, dict) else "[]"
    return scalar(value, style)


def scalar(value: Any, style: Style) -> str:
    """A scalar as YAML, with expressions in place of placeholders."""
    if isinstance(value, str | int) and not isinstance(value, bool) and value in _VALUES:
        return f"{{{{ {_VALUES[value]}{f' | {style.quote}' if isinstance(value, str) else ''} }}}}"
    if isinstance(value, str):
        _check(value)
        if value in _RANGES:
            return json.dumps(value)
        found = [one for one in (*_VALUES, *_RANGES) if isinstance(one, str) and one in value]
        if found:
            text = json.dumps(value, ensure_ascii=False)
            for one in found:
                if one in _VALUES:
                    text = text.replace(one, f"{{{{ {_VALUES[one]} }}}}")
            return text
    dumped: str = yaml.safe_dump(value, width=1 << 30, allow_unicode=True)
    return dumped.removesuffix("...\n").rstrip("\n")


def _check(text: str) -> None:
    if _UNSAFE.search(text):
        raise NotWritableError(f"template marks in {text}")
