"""Field types shared by the kinds: the constraint, its bounds and its error text in one place each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import core_schema

from kaiwo.api import duration
from kaiwo.api.spec_rules import ENTRYPOINT_LENGTH, MAX_ARGUMENT_BYTES
from kaiwo.engine import quantity

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

INT32_MAX = 2**31 - 1
"""Kubernetes counts replicas and resources of custom kinds in 32 bits."""

SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""Pattern of a DNS-1123 subdomain, as most objects are named."""

QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
)
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
ABSOLUTE_PATH = r"^/[^:]*$"
WHOLE_UNITS = r"^([0-9]+(s|m|h))+$"
HTTP_URL = r"^https?://[^\s/]\S*$"
"""Pattern of an http or https URL."""

IMAGE = (
    r"^(([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])"
    r"(:[0-9]+)?/)?[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$"
)
"""The grammar of image references in github.com/distribution/reference."""

RELATIVE_PATH = r"^([^/].*)?$"
"""Pattern of a path that does not start with a slash; `TargetPath` also keeps it inside its volume."""

PATTERN_WORDS: dict[str, str] = {
    SUBDOMAIN: "lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part",
    QUALIFIED_NAME: "a name like gpu or example.com/gpu",
    DNS_LABEL: "lower-case letters, digits and '-', with a letter or digit at both ends",
    LABEL_VALUE: "letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    ABSOLUTE_PATH: "a path that starts with / and has no colon",
    HTTP_URL: "a URL that starts with http:// or https://",
    RELATIVE_PATH: "a relative path; it begins in the volume, without /",
    IMAGE: "an image reference such as registry.example.com/team/image:tag",
    WHOLE_UNITS: "a duration in whole hours, minutes and seconds, for example 24h or 1h30m",
}
"""The patterns in words, for messages."""


@dataclass(frozen=True, slots=True)
class OrEmpty:
    """Marks an optional text of which an empty one counts as not given.

    The documented type of these fields is a plain string, and templates and Go clients write ``""`` for what
    they have no value for.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Turn the empty text into None before it is judged."""
        return core_schema.no_info_before_validator_function(_absent_if_empty, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> Any:
        """The schema with the empty text as a further alternative."""
        node = handler(schema)
        for item in (node, *node.get("anyOf", ())):
            item.pop("minLength", None)
            if "pattern" in item:
                item["pattern"] = f"^$|{item['pattern']}"
        return node


def _absent_if_empty(value: Any) -> Any:
    return None if value == "" else value


def _quantity(value: str | int) -> str | int:
    quantity.parse_quantity(value)
    return value


def _with_unit(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        message = f'expected a duration with a unit, got the number {value}; write "{value}s" or "{value}m"'
        raise ValueError(message)  # noqa: TRY004  pydantic makes a problem of this type only
    return value


def _duration(value: str) -> str:
    duration.parse_duration(value)
    return value


def _entrypoint(value: str) -> str:
    if ENTRYPOINT_LENGTH.violated(value):
        raise ValueError(ENTRYPOINT_LENGTH.message)
    return value


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count: TypeAlias = Annotated[int, Field(ge=0, le=INT32_MAX), BeforeValidator(_whole)]
"""A number of GPUs, nodes or pods, zero included; ``4.0`` is one, since the API server takes it as one."""

Positive: TypeAlias = Annotated[int, Field(ge=1, le=INT32_MAX), BeforeValidator(_whole)]
"""A number of which there is at least one."""

QuantityValue: TypeAlias = Annotated[
    str | int,
    AfterValidator(_quantity),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "pattern": quantity.PATTERN,
            "maxLength": quantity.MAX_LENGTH,
        }
    ),
]
"""A quantity as the user wrote it, a string or a whole number."""

QuantityText: TypeAlias = Annotated[
    str,
    AfterValidator(_quantity),
    WithJsonSchema({"type": "string", "pattern": quantity.PATTERN, "maxLength": quantity.MAX_LENGTH}),
]
"""A quantity where the documented type is a string."""

DurationText: TypeAlias = Annotated[
    str,
    BeforeValidator(_with_unit),
    AfterValidator(_duration),
    WithJsonSchema({"type": "string", "pattern": duration.PATTERN, "maxLength": duration.MAX_LENGTH}),
]
"""A Go duration as the user wrote it."""

WholeDurationText: TypeAlias = Annotated[
    str, Field(max_length=64, pattern=WHOLE_UNITS), AfterValidator(_duration)
]
"""A duration in whole hours, minutes and seconds."""

Entrypoint: TypeAlias = Annotated[
    str,
    AfterValidator(_entrypoint),
    WithJsonSchema({"type": "string", "maxLength": MAX_ARGUMENT_BYTES}),
]
"""A command or script that becomes one argument; the limit counts bytes of UTF-8."""

MountPath: TypeAlias = Annotated[str, Field(min_length=1, max_length=4096, pattern=ABSOLUTE_PATH)]
"""An absolute path inside a container; Kubernetes allows no colon in it."""

ObjectName: TypeAlias = Annotated[str, Field(min_length=1, max_length=253, pattern=SUBDOMAIN)]
"""The name of some other object in the cluster."""

ImageReference: TypeAlias = Annotated[str, Field(min_length=1, max_length=1024, pattern=IMAGE)]
"""A container image: optional registry, path, optional tag and digest."""

QueueName: TypeAlias = Annotated[str, Field(min_length=1, max_length=63, pattern=SUBDOMAIN)]
"""The name of a queue, which becomes the value of a label: at most 63 characters."""

Opaque: TypeAlias = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
"""An embedded object whose own kind's validation decides."""
