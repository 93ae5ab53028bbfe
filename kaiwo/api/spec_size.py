"""How large a workload may be: the bound on all of its values together.

The bounds of single fields are in their models, and so in the CRD. Embedded objects have no schema, so this
bound is checked by validation and by the operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.api.errors import Problem, join_path
from kaiwo.api.spec_rules import MAX_SPEC_VALUES, SPEC_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONTAINERS = frozenset({dict, list, tuple})
"""What decoders and models make of maps and lists. Every value of every workload is asked for its exact type,
which takes a third of the time of ``isinstance``."""


def count_values(value: Any, limit: int = MAX_SPEC_VALUES) -> int:
    """Members of maps and items of lists at any depth; any number above the limit once it is reached."""
    if type(value) not in _CONTAINERS:
        return 0
    total, waiting = 0, [value]
    for item in waiting:
        total += len(item)
        if total > limit:
            break
        for part in item.values() if type(item) is dict else item:
            if type(part) in _CONTAINERS:
                waiting.append(part)  # noqa: PERF401 (the list is being gone through)
    return total


def size_problem(metadata: object, spec: object) -> Problem | None:
    """The problem of a workload that is too large as a whole, at its largest field; None where it is not."""
    own = metadata if isinstance(metadata, dict) else {}
    values = count_values([own.get("labels"), own.get("annotations"), spec])
    if not SPEC_SIZE.violated(values):
        return None
    fields = [(("metadata", name), own.get(name)) for name in ("labels", "annotations")]
    fields += [(("spec", str(name)), value) for name, value in spec.items()] if isinstance(spec, dict) else []
    largest = _largest(fields)
    return Problem(join_path(largest), SPEC_SIZE.message)


def _largest(fields: Iterable[tuple[tuple[str, str], Any]]) -> tuple[str, ...]:
    """The field with most values; ``spec`` where the values are many small fields."""
    path, count = max(((path, count_values(value)) for path, value in fields), key=lambda found: found[1])
    return path if 2 * count > MAX_SPEC_VALUES else ("spec",)
