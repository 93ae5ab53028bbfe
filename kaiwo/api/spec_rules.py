"""Rules across fields: each has one message, for the API server, for validation and for the plan.

A rule with a CEL expression is part of the CRD. The API server estimates what an expression can cost before
it accepts a definition, from the longest possible input; every text that a rule reads therefore has a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaiwo.api.errors import Problem
from kaiwo.api.name_rules import ON_RAY, PLAIN, NameRule, is_ray_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kaiwo.engine.resource import Object

MAX_ARGUMENT_BYTES = 131_071
"""Linux takes no longer single argument: MAX_ARG_STRLEN is 32 pages of 4096 bytes with the closing NUL."""

MAX_DOWNLOAD_ITEMS = 1024
"""Items of one download source."""

MAX_SPEC_VALUES = 20_000
"""Fields, labels and list items of a workload. A job of everyday size has fifty; 5,000 files that are listed
one by one have 15,000. Planning takes up to 10 microseconds for each."""

MAX_RENDERED_VALUES = 40_000
"""What the pods of a workload may have that its spec gives once for all of them."""

MAX_RENDERED_BYTES = 3 << 20
"""The API server takes no larger request."""

PLAIN_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
"""What containers have without a domain in its name, beside huge pages (core/v1 ResourceName)."""


@dataclass(frozen=True, slots=True)
class SpecRule:
    """A check of ``spec``, in CEL and in Python.

    Attributes:
        message: what is wrong and what to do; every surface shows exactly this text after the field.
        violated: whether values break the rule, in Python; the rule's own comment lists the values.
        cel: the expression that holds for valid objects; empty where a schema cannot express the rule.
        field: the field that is reported, below the place where the CEL expression stands.
    """

    message: str
    violated: Callable[..., bool]
    cel: str = ""
    field: str = ""

    def validation(self) -> Object:
        """The rule as an entry of ``x-kubernetes-validations``."""
        place = {"fieldPath": f".{self.field}"} if self.field else {}
        return {"rule": self.cel, "message": self.message, **place}


def _given(name: str) -> str:
    return f"has(self.{name}) && self.{name} != ''"


ONE_TOPOLOGY_LABEL: Final = SpecRule(
    "preferredTopologyLabel and requiredTopologyLabel exclude each other: give one of them",
    lambda preferred, required: bool(preferred and required),
    f"!({_given('preferredTopologyLabel')} && {_given('requiredTopologyLabel')})",
    "requiredTopologyLabel",
)
"""Of the values of ``preferredTopologyLabel`` and ``requiredTopologyLabel``."""

ENTRYPOINT_LENGTH: Final = SpecRule(
    f"longer than {MAX_ARGUMENT_BYTES} bytes, the longest argument Linux takes: "
    "put the script into the image or the data volume and call it",
    # maxLength of a schema counts characters.
    lambda text: len(text.encode(errors="surrogatepass")) > MAX_ARGUMENT_BYTES,
    f"size(bytes(self)) <= {MAX_ARGUMENT_BYTES}",
)
"""Of the value of ``entrypoint``."""

DOWNLOAD_NEEDS_VOLUME: Final = SpecRule(
    'is required for downloads: give the volume a size, for example "100Gi"',
    lambda items, size: bool(items and not size),
    field="storageSize",
)
"""Of what is to be downloaded into a volume, and the size of that volume.

It is not in the CRD: the size may come with a later version of the object.
"""

STORAGE_DISABLED: Final = SpecRule(
    "is ignored: set storageEnabled: true to use it",
    lambda enabled, section: enabled is not True and section is not None,
)
"""A warning, of ``storageEnabled`` and the section of a volume."""

RESOURCE_NAME: Final = SpecRule(
    "is not a resource of containers: write cpu, memory, ephemeral-storage or hugepages-SIZE, or a name with "
    "its domain, as example.com/device",
    lambda key: "/" not in key and key not in PLAIN_RESOURCES and not key.startswith("hugepages-"),
)
"""Of a key of ``resources``. Kubernetes refuses pods with another one, on Ray only when the pods are created.

It is not in the CRD, whose rules bind also on objects that are older.
"""

SPEC_SIZE: Final = SpecRule(
    f"makes the workload larger than {MAX_SPEC_VALUES} values (fields and list items): "
    "put data into a volume, a ConfigMap or the image",
    lambda values: values > MAX_SPEC_VALUES,
)
"""Of the number of values in labels, annotations and ``spec``. A schema cannot count them."""

RENDERED_SIZE: Final = SpecRule(
    f"is repeated in too many pods or containers: at most {MAX_RENDERED_VALUES} values and "
    f"{MAX_RENDERED_BYTES >> 20} MiB may come of it; use fewer, or put data into a volume or the image",
    lambda values, size: values > MAX_RENDERED_VALUES or size > MAX_RENDERED_BYTES,
)
"""Of the values and bytes that pods get of fields which are given once."""

SPEC_RULES: Final = (ONE_TOPOLOGY_LABEL,)
"""The rules at ``spec`` that are part of the CRD."""

ALLOCATION_VARIABLES: Final = ("NUM_GPUS", "NUM_REPLICAS", "NUM_GPUS_PER_REPLICA")
"""Variables of the primary container that always have the numbers of the allocation."""

IMMUTABLE_MESSAGE: Final = "is immutable: delete the workload and create it anew"


def object_validations(blocks: Iterable[str]) -> list[Object]:
    """The CEL rules at the root of a workload, where its name is visible.

    They bind at creation only, so that an object that is older than a rule can still get a status.
    """
    on_ray = " || ".join(
        ["(has(self.spec.ray) && self.spec.ray)", *(f"has(self.spec.{name})" for name in _ray(blocks))]
    )
    return [
        {
            "rule": f"oldSelf.hasValue() || {_name_matches(PLAIN)}",
            "optionalOldSelf": True,
            "message": PLAIN.requirement,
            "fieldPath": ".metadata.name",
        },
        {
            "rule": f"oldSelf.hasValue() || !({on_ray}) || ({_name_matches(ON_RAY)})",
            "optionalOldSelf": True,
            "message": f"on Ray it {ON_RAY.requirement}",
            "fieldPath": ".metadata.name",
        },
    ]


def spec_validations(blocks: Iterable[str]) -> list[Object]:
    """The CEL rules of ``spec``: fields that exclude each other, and fields that never change."""
    rules = [rule.validation() for rule in SPEC_RULES]
    rules.append(
        {
            "rule": "(has(self.ray) && self.ray) == (has(oldSelf.ray) && oldSelf.ray)",
            "message": IMMUTABLE_MESSAGE,
            "fieldPath": ".ray",
        }
    )
    rules.extend(
        {
            "rule": f"has(self.{name}) == has(oldSelf.{name})",
            "message": f"whether it is given {IMMUTABLE_MESSAGE}",
            "fieldPath": f".{name}",
        }
        for name in _ray(blocks)
    )
    return rules


def entrypoint_validations() -> list[Object]:
    """The CEL rules of ``spec.entrypoint``."""
    return [ENTRYPOINT_LENGTH.validation()]


def duplicate_mounts(mounts: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    """Report mounts at a path that an earlier one has: the last mounted would hide the other.

    Args:
        mounts: of each mount its path and the field that requests it.
    """
    fields: dict[str, str] = {}
    for path, field in mounts:
        place = path.rstrip("/") or "/"
        first = fields.setdefault(place, field)
        if first != field:
            yield Problem(
                f"{field}.mountPath", f'"{place}" is the mount path of {first} too: choose another path'
            )


def _ray(blocks: Iterable[str]) -> list[str]:
    return sorted(name for name in blocks if is_ray_block(name))


def _name_matches(rule: NameRule) -> str:
    return f"(size(self.metadata.name) <= {rule.limit} && self.metadata.name.matches('{rule.pattern}'))"
