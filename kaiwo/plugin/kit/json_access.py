"""Reading objects whose schema nobody checked.

``as_*`` is for what the user of a workload wrote: another type is a `SpecError` with the field's path.
``lenient_*`` is for live objects, which may be anything: another type counts as absent.
"""

from kaiwo.workload.json_access import (
    as_integer,
    as_map,
    as_maps,
    as_object,
    as_strings,
    holding,
    is_blank,
    is_deleting,
    kind_of,
    lenient_map,
    lenient_maps,
    lenient_text,
    name_of,
    one_line,
    value_at,
    without_nulls,
)

__all__ = [
    "as_integer",
    "as_map",
    "as_maps",
    "as_object",
    "as_strings",
    "holding",
    "is_blank",
    "is_deleting",
    "kind_of",
    "lenient_map",
    "lenient_maps",
    "lenient_text",
    "name_of",
    "one_line",
    "value_at",
    "without_nulls",
]
