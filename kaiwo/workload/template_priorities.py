"""Priority classes that embedded pod templates name: the API server refuses pods whose class is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kaiwo.plugin.backends import Backend

_FIELD = "priorityClassName"


def missing_class(
    blocks: Mapping[str, Any], backend: Backend, known: Collection[str]
) -> tuple[str, str] | None:
    """Field path and name of the first priority class of a template that does not exist; None without one.

    Kueue creates no Workload for such an object, and says why in its log only.

    Args:
        blocks: the workload's embedded objects.
        backend: its backend, which says where pod templates are embedded.
        known: names of the cluster's PriorityClasses.
    """
    for template in backend.pod_templates:
        for path, value in _at(blocks, template, "spec"):
            name = lenient_map(lenient_map(value).get("spec")).get(_FIELD)
            if isinstance(name, str) and name and name not in known:
                return f"{path}.spec.{_FIELD}", name
    return None


def _at(value: object, path: Sequence[str], before: str) -> Iterator[tuple[str, object]]:
    """The values at a path, each with its path; ``*`` stands for every item of a list."""
    if not path:
        yield before, value
    elif path[0] == "*":
        for position, item in enumerate(value if isinstance(value, list) else ()):
            yield from _at(item, path[1:], f"{before}[{position}]")
    else:
        found = lenient_map(value)
        if path[0] in found:
            yield from _at(found[path[0]], path[1:], f"{before}.{path[0]}")
