"""Rules across fields, in CEL, for the API server. The semantic checks hold the same rules in Python.

The API server estimates what a rule can cost before it takes a definition, from the longest possible input;
every text that a rule reads therefore has a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.name_rules import ON_RAY, PLAIN, NameRule, is_ray_block
from kaiwo.api.scalars import MAX_ENTRYPOINT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.resource import Object

TOPOLOGY_MESSAGE = "preferredTopologyLabel and requiredTopologyLabel exclude each other: give one of them"
ENTRYPOINT_MESSAGE = (
    f"longer than {MAX_ENTRYPOINT_BYTES} bytes, the longest argument Linux takes: "
    "put the script into the image or the data volume and call it"
)
RAY_MESSAGE = "is immutable: delete the workload and create it anew"


def object_rules(blocks: Iterable[str]) -> list[Object]:
    """Rules at the root of a workload, where its name is to be seen.

    They bind at creation only, so that an object from before a rule can still get a status.
    """
    on_ray = " || ".join(
        ["(has(self.spec.ray) && self.spec.ray)", *(f"has(self.spec.{name})" for name in _ray(blocks))]
    )
    return [
        {
            "rule": f"oldSelf.hasValue() || {_name_matches(PLAIN)}",
            "optionalOldSelf": True,
            "message": _name_message(PLAIN),
            "fieldPath": ".metadata.name",
        },
        {
            "rule": f"oldSelf.hasValue() || !({on_ray}) || ({_name_matches(ON_RAY)})",
            "optionalOldSelf": True,
            "message": f"on Ray it {_name_message(ON_RAY)}",
            "fieldPath": ".metadata.name",
        },
    ]


def spec_rules(blocks: Iterable[str]) -> list[Object]:
    """Rules of ``spec``: what excludes each other, and what never changes."""
    rules: list[Object] = [
        {
            "rule": f"!({_given('preferredTopologyLabel')} && {_given('requiredTopologyLabel')})",
            "message": TOPOLOGY_MESSAGE,
            "fieldPath": ".requiredTopologyLabel",
        },
        {
            "rule": "(has(self.ray) && self.ray) == (has(oldSelf.ray) && oldSelf.ray)",
            "message": RAY_MESSAGE,
            "fieldPath": ".ray",
        },
    ]
    rules.extend(
        {
            "rule": f"has(self.{name}) == has(oldSelf.{name})",
            "message": f"whether it is given {RAY_MESSAGE}",
            "fieldPath": f".{name}",
        }
        for name in _ray(blocks)
    )
    return rules


def entrypoint_rules() -> list[Object]:
    """Rules of ``spec.entrypoint``: the limit counts bytes, ``maxLength`` counts characters."""
    return [{"rule": f"size(bytes(self)) <= {MAX_ENTRYPOINT_BYTES}", "message": ENTRYPOINT_MESSAGE}]


def _given(name: str) -> str:
    return f"has(self.{name}) && self.{name} != ''"


def _ray(blocks: Iterable[str]) -> list[str]:
    return sorted(name for name in blocks if is_ray_block(name))


def _name_matches(rule: NameRule) -> str:
    return f"(size(self.metadata.name) <= {rule.limit} && self.metadata.name.matches('{rule.pattern}'))"


def _name_message(rule: NameRule) -> str:
    return f"may have at most {rule.limit} characters and only {rule.words}"
