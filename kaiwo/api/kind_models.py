"""Composes the model of a kind from the host's fields and those that plugins contribute."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as PydanticField

from kaiwo.api import kaiwoconfig, workload
from kaiwo.api.base_model import Model
from kaiwo.api.kaiwoconfig import KaiwoConfigSpec, KaiwoConfigStatus
from kaiwo.api.plugin_fields import Contributed
from kaiwo.api.scalars import Opaque
from kaiwo.api.status import WorkloadStatus
from kaiwo.api.workload_spec import JobSpec, ServiceSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic.fields import FieldInfo

    from kaiwo.api.plugin_fields import Field

Kind = Literal["KaiwoJob", "KaiwoService", "KaiwoConfig"]
KINDS: tuple[Kind, ...] = ("KaiwoJob", "KaiwoService", "KaiwoConfig")

_SPECS: Mapping[str, type[Model]] = {
    "KaiwoJob": JobSpec,
    "KaiwoService": ServiceSpec,
    "KaiwoConfig": KaiwoConfigSpec,
}
_API_VERSIONS = {
    "KaiwoJob": workload.API_VERSION,
    "KaiwoService": workload.API_VERSION,
    "KaiwoConfig": kaiwoconfig.API_VERSION,
}


class FieldConflict(ValueError):
    """Two contributions, or a contribution and the host, declare the same field."""


class _SettingsBase(Model):
    """Settings of plugins, by plugin name; those of plugins that are not loaded are kept as they are."""

    model_config = ConfigDict(extra="allow", alias_generator=None)
    __pydantic_extra__: dict[str, Opaque]


@dataclass
class _Branch:
    leaf: Field | None = None
    below: dict[str, _Branch] = field(default_factory=dict)


def compose(
    kind: Kind, fields: Iterable[Field] = (), settings: Mapping[str, type[BaseModel]] | None = None
) -> type[Model]:
    """The strict model of a whole object: ``apiVersion``, ``kind``, ``metadata``, ``spec`` and ``status``.

    Args:
        kind: one of :data:`KINDS`.
        fields: contributions; those to other kinds are skipped.
        settings: plugin name to the model of its section, for ``KaiwoConfig``.

    Raises:
        FieldConflict: two contributions declare the same field, or one declares a field of the host.
    """
    spec = compose_spec(kind, fields, settings)
    definitions: dict[str, Any] = {
        "api_version": (Literal[_API_VERSIONS[kind]], PydanticField(alias="apiVersion")),
        "kind": (Literal[kind], PydanticField()),
        "metadata": (Opaque, PydanticField()),
        "spec": (spec, PydanticField(default_factory=spec)),
        "status": (status_model(kind) | None, PydanticField(default=None)),
    }
    return create_model(kind, __base__=Model, **definitions)


def compose_spec(
    kind: Kind, fields: Iterable[Field] = (), settings: Mapping[str, type[BaseModel]] | None = None
) -> type[Model]:
    """The strict model of ``spec``; arguments and errors as for :func:`compose`."""
    root = _Branch()
    for contribution in fields:
        if contribution.kind != kind:
            continue
        branch = root
        for name in contribution.path:
            branch = branch.below.setdefault(name, _Branch())
            if branch.leaf:
                raise FieldConflict(f"{_where(contribution)} is contributed twice")
        if branch.below:
            raise FieldConflict(f"{_where(contribution)} holds fields of another contribution")
        branch.leaf = contribution
    overrides: dict[str, Any] = {}
    if kind == "KaiwoConfig":
        overrides["plugins"] = _settings_model(settings or {})
    return _extended(_SPECS[kind], root, overrides)


def status_model(kind: Kind) -> type[Model]:
    """The model of ``status``."""
    return KaiwoConfigStatus if kind == "KaiwoConfig" else WorkloadStatus


def known_fields(model: type[BaseModel], location: Sequence[str | int]) -> frozenset[str]:
    """JSON names of the fields at a location of a validation error; empty where any name may stand."""
    current: Any = model
    for part in location:
        if not _is_model(current):
            current = _item_of(current)
            if isinstance(part, int):
                continue
            if not _is_model(current):
                continue
        info = next((info for name, info in current.model_fields.items() if part in (info.alias, name)), None)
        if info is None:
            return frozenset()
        current = _unwrapped(info.annotation)
    current = current if _is_model(current) else _item_of(current)
    if not _is_model(current):
        return frozenset()
    return frozenset(info.alias or name for name, info in current.model_fields.items())


def sections(model: type[BaseModel], *path: str) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Path and field names of a section and of each section below it; those of list items are left out."""
    names = known_fields(model, path)
    if not names:
        return
    yield path, names
    current: Any = model
    for part in path:
        info = next(info for name, info in current.model_fields.items() if part in (info.alias, name))
        current = _unwrapped(info.annotation)
    for name, info in current.model_fields.items():
        if _is_model(_unwrapped(info.annotation)):
            yield from sections(model, *path, info.alias or name)


def _settings_model(settings: Mapping[str, type[BaseModel]]) -> Any:
    definitions: dict[str, Any] = {
        name: (
            model | None,
            PydanticField(default=None, alias=name, description=f"Settings of plugin {name}."),
        )
        for name, model in sorted(settings.items())
    }
    return create_model("PluginSettings", __base__=_SettingsBase, **definitions) | None


def _extended(base: type[BaseModel], branch: _Branch, overrides: Mapping[str, Any]) -> type[Model]:
    """A model like ``base`` with the contributions below it, and without places nobody contributes to."""
    definitions: dict[str, Any] = {}
    waiting = dict(branch.below)
    for name, info in base.model_fields.items():
        alias = info.alias or name
        contributed = any(isinstance(mark, Contributed) for mark in info.metadata)
        below = waiting.pop(alias, None)
        if name in overrides:
            definitions[name] = (overrides[name], _like(info))
        elif below is None and contributed:
            continue
        elif below is None and not _has_places(info.annotation):
            definitions[name] = (_with_metadata(info), _like(info))
        elif below and below.leaf:
            if not contributed:
                raise FieldConflict(f"{_where(below.leaf)} is a field of the host")
            definitions[name] = _contribution(below.leaf, alias)
        else:
            inner = _unwrapped(info.annotation)
            inner = inner if _is_model(inner) else Model
            deeper = _extended(inner, below or _Branch(), {})
            definitions[name] = (
                deeper | None,
                PydanticField(default=None, alias=alias, description=info.description),
            )
    for alias, below in waiting.items():
        python_name = f"contributed_{alias}"
        if below.leaf:
            definitions[python_name] = _contribution(below.leaf, alias)
        else:
            deeper = _extended(Model, below, {})
            definitions[python_name] = (deeper | None, PydanticField(default=None, alias=alias))
    return create_model(base.__name__, __base__=Model, __doc__=base.__doc__, **definitions)


def _has_places(annotation: Any) -> bool:
    """Whether somewhere in a model there is a field that exists only as far as plugins contribute to it."""
    model = _unwrapped(annotation)
    return _is_model(model) and any(
        any(isinstance(mark, Contributed) for mark in info.metadata) or _has_places(info.annotation)
        for info in model.model_fields.values()
    )


def _contribution(contribution: Field, alias: str) -> tuple[Any, Any]:
    optional = contribution.annotation | None
    return (optional, PydanticField(default=None, alias=alias, description=contribution.description))


def _with_metadata(info: FieldInfo) -> Any:
    """The annotation with the constraints that pydantic had split off from it."""
    annotation: Any = info.annotation
    for mark in info.metadata:
        annotation = typing.Annotated[annotation, mark]
    return annotation


def _like(info: FieldInfo) -> Any:
    return PydanticField(
        default=info.default,
        alias=info.alias,
        description=info.description,
        json_schema_extra=info.json_schema_extra,
    )


def _where(contribution: Field) -> str:
    return f"{contribution.kind}.spec.{'.'.join(contribution.path)}"


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _unwrapped(annotation: Any) -> Any:
    """Without ``None`` and ``Annotated``: ``Annotated[X | None, ...]`` gives ``X``."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif origin in (typing.Union, types.UnionType):
            rest = [item for item in typing.get_args(annotation) if item is not type(None)]
            if len(rest) != 1:
                return annotation
            annotation = rest[0]
        else:
            return annotation


def _item_of(annotation: Any) -> Any:
    """The type of a list's or mapping's items, None for anything else."""
    annotation = _unwrapped(annotation)
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin in (list, tuple) and arguments:
        return _unwrapped(arguments[0])
    if origin is dict:
        return _unwrapped(arguments[1])
    return None
