"""Fields of embedded objects that nobody would read: at the wrong level, or in the wrong case.

The API server refuses them in an object that it knows. It checks nothing inside an AppWrapper, and what is
generated in their place would run instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.workload.errors import SpecError
from kaiwo.workload.json_access import is_blank

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kaiwo.engine.resource import Object


def check_field_names(
    value: Object, path: str, known: Collection[str], elsewhere: Mapping[str, str] | None = None
) -> None:
    """Report a misplaced field, and one that differs from a known one in case alone.

    Args:
        value: an embedded object, or a part of one.
        path: where the user writes it.
        known: fields that it has; there may be more.
        elsewhere: fields that belong to another part, with the path below which each is written.

    Raises:
        SpecError: the first one with a value.
    """
    forms = {name.lower(): name for name in known}
    for name, item in value.items():
        if name in known or is_blank(item):
            continue
        if place := (elsewhere or {}).get(name):
            raise SpecError(f"{path}.{name}", f"unknown field; write it below {place}")
        if near := forms.get(name.lower()):
            raise SpecError(f"{path}.{name}", f'unknown field; did you mean "{near}"?')
