"""The rules of a role in a template: each right stands below the switches that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from charts.generate.conditions import ALWAYS, condition
from charts.generate.tree import Entry, Fixed, Items, Mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from charts.generate.conditions import Mask
    from charts.generate.tree import Node
    from kaiwo.install.rendered_manifest import RenderedManifest

    Cell: TypeAlias = "tuple[str, str, tuple[str, ...]]"
    """Group, resource and names of objects."""

_VERBS = ("use", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


def rules(roles: Sequence[tuple[RenderedManifest, Mask]]) -> Node:
    """The rules of a role in all choices.

    ``kaiwo manifests`` merges the rights of all plugins into as few rules as possible. A template cannot, so
    one resource may stand in several rules, one for each condition. The rights are the same.

    Args:
        roles: the role, with the choices of each of its forms.
    """
    domain = 0
    verbs: dict[Cell, dict[str, Mask]] = {}
    reasons: dict[Cell, dict[str, Mask]] = {}
    for role, mask in roles:
        domain |= mask
        for rule, whys in zip(role.obj["rules"], role.whys, strict=True):
            names = tuple(rule.get("resourceNames", ()))
            for cell in ((group, name, names) for group in rule["apiGroups"] for name in rule["resources"]):
                for verb in rule["verbs"]:
                    known = verbs.setdefault(cell, {})
                    known[verb] = known.get(verb, 0) | mask
                for why in whys:
                    said = reasons.setdefault(cell, {})
                    said[why] = said.get(why, 0) | mask
    shared: dict[object, list[Cell]] = {}
    for cell in sorted(verbs):
        group, _, names = cell
        key = (group, names, _frozen(verbs[cell]), _frozen(reasons[cell]))
        shared.setdefault(key, []).append(cell)
    entries = []
    for cells in shared.values():
        by_mask: dict[Mask, list[str]] = {}
        for verb, mask in sorted(verbs[cells[0]].items(), key=lambda one: _place(one[0])):
            by_mask.setdefault(mask, []).append(verb)
        for mask, some in by_mask.items():
            group, _, names = cells[0]
            fields: list[tuple[str, list[str]]] = [
                ("apiGroups", [group]),
                ("resources", [resource for _, resource, _ in cells]),
                *([("resourceNames", list(names))] if names else []),
                ("verbs", some),
            ]
            comments = _reasons(reasons[cells[0]], mask, by_mask)
            node = Mapping(tuple(Entry(ALWAYS, _words(words), key) for key, words in fields))
            entries.append(Entry(condition(mask, domain), node, comments=comments))
    return Items(tuple(entries))


def _words(words: Iterable[str]) -> Items:
    return Items(tuple(Entry(ALWAYS, Fixed(word)) for word in words))


def _reasons(reasons: dict[str, Mask], mask: Mask, all_masks: Iterable[Mask]) -> tuple[str, ...]:
    """The reasons for the rule with some verbs: those that no rule with a narrower condition covers."""
    found = []
    for why, choices in reasons.items():
        fitting = [one for one in all_masks if choices & ~one == 0]
        if fitting and min(fitting, key=int.bit_count) == mask:
            found.append(why)
    return tuple(sorted(found)) or tuple(sorted(why for why, choices in reasons.items() if choices & mask))


def _frozen(masks: dict[str, Mask]) -> tuple[tuple[str, Mask], ...]:
    return tuple(sorted(masks.items()))


def _place(verb: str) -> tuple[int, str]:
    return (_VERBS.index(verb) if verb in _VERBS else len(_VERBS), verb)
