"""The condition of KaiwoConfig about rights that the operator lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.engine.failing_writes import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaiwo.engine.errors import WriteCause
    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.backends import Backend

RIGHTS = "RightsComplete"

_SHOWN = 5
"""Namespaces that the message names."""


def rights_condition(
    unreadable: Mapping[str, Mapping[Resource, str]],
    failing: Mapping[WriteCause, str],
    backends: Iterable[Backend],
    generation: int,
    type_: str = RIGHTS,
) -> Condition | None:
    """The condition, None while no right is missing.

    Args:
        unreadable: kinds that may not be listed, each with the API server's words, by namespace; the empty
            name stands for all.
        failing: why writes fail now, each with the API server's words.
        backends: of all plugins, to say which cannot run.
        generation: of the KaiwoConfig.
        type_: of the condition.
    """
    texts = [_unreadable(kind, words, backends) for kind, words in unreadable.get("", {}).items()]
    places = sorted(namespace for namespace, kinds in unreadable.items() if namespace and kinds)
    texts += [_namespace(name, unreadable[name], backends) for name in places[:_SHOWN]]
    if len(places) > _SHOWN:
        texts.append(f"the same in {len(places) - _SHOWN} more namespaces")
    texts += [describe(cause, words) for cause, words in failing.items() if cause.kind == "Forbidden"]
    if not texts:
        return None
    text = (
        f"{'; '.join(sorted(texts))}. Apply the roles of this version and plugin set (kaiwo manifests rbac)"
    )
    return Condition(type_, "False", "Forbidden", text, generation)


def _namespace(name: str, kinds: Mapping[Resource, str], backends: Iterable[Backend]) -> str:
    """One namespace of several: mostly all kinds are missing there, because it or its Role is."""
    first, *others = sorted(kinds, key=str)
    more = f" and {len(others)} more kinds" if others else ""
    return f"namespace {name}: list {first}{more}{_stopped(kinds, backends)}: {kinds[first]}"


def _unreadable(kind: Resource, words: str, backends: Iterable[Backend]) -> str:
    return f"list {kind}{_stopped([kind], backends)}: {words}"


def _stopped(kinds: Iterable[Resource], backends: Iterable[Backend]) -> str:
    """Which backends cannot run without some kinds, in brackets; empty for none."""
    missing = set(kinds)
    stopped = sorted({one.name for one in backends if missing.intersection((one.child, *one.secondary))})
    return f" (stops backend {', '.join(stopped)})" if stopped else ""
