"""Block and rack of a node, as the rules of an administrator give them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from kaiwo.plugin.kit.fields import Model
from kaiwo.plugin.kit.names import label_value
from kaiwo.plugin.kit.nodes import TOPOLOGY_BLOCK, TOPOLOGY_RACK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEVELS = {"block": TOPOLOGY_BLOCK, "rack": TOPOLOGY_RACK}

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return pattern


class TopologyRule(Model):
    """Rule that gives a node's value for one level of the topology."""

    level: Annotated[Literal["block", "rack"], Field(description="Level that the rule gives a value for.")]
    node_label: Annotated[
        str | None,
        Field(min_length=1, description="Node label whose value is read; without one, the node's name."),
    ] = None
    pattern: Annotated[
        str | None,
        AfterValidator(_compiles),
        Field(
            min_length=1,
            max_length=256,
            description="Regular expression that is searched for in it. The value is its first group, or "
            "all that it matches; without one, the whole text.",
        ),
    ] = None


def topology_of(name: str, labels: Mapping[str, str], rules: Iterable[TopologyRule]) -> dict[str, str]:
    """The labels for block and rack of a node. For each level the first rule that gives a value counts.

    Args:
        name: of the node.
        labels: of the node.
        rules: in the order of precedence.
    """
    found: dict[str, str] = {}
    for rule in rules:
        key = LEVELS[rule.level]
        if key not in found and (value := _value(name, labels, rule)):
            found[key] = value
    return found


def _value(name: str, labels: Mapping[str, str], rule: TopologyRule) -> str:
    text = name if rule.node_label is None else labels.get(rule.node_label, "")
    if rule.pattern is not None:
        match = re.search(rule.pattern, text)
        text = (match[1] if match.re.groups else match[0]) or "" if match else ""
    return text if _LABEL_VALUE.fullmatch(text) else label_value(text)
