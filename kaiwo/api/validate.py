"""Validation of user input without a cluster, for the command line, the webhook and the controller alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from kaiwo.api.embedded_hints import embedded_hint
from kaiwo.api.errors import UNKNOWN_FIELD, Problem, join_path, shorten
from kaiwo.api.field_hints import field_hint
from kaiwo.api.kind_models import KINDS, Kind, compose, known_fields
from kaiwo.api.metadata_checks import check_metadata
from kaiwo.api.name_rules import runs_on_ray
from kaiwo.api.scalars import Opaque
from kaiwo.api.spec_checks import check_config, check_workload
from kaiwo.api.spec_size import size_problem
from kaiwo.api.suggestion import did_you_mean
from kaiwo.api.validation_errors import explain
from kaiwo.engine.field_paths import parse_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pydantic import BaseModel

    from kaiwo.api.base_model import Model
    from kaiwo.api.plugin_fields import Field

_OTHER_KIND: Final[Mapping[Kind, Kind]] = {"KaiwoJob": "KaiwoService", "KaiwoService": "KaiwoJob"}


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of validating an object.

    Attributes:
        problems: why it would be rejected; empty when it is valid.
        warnings: what is ignored or probably not meant.
    """

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the object is valid."""
        return not self.problems


class Validator:
    """Validates objects of Kaiwo's kinds against the host's fields and those of plugins.

    Making one is cheap; the model of a kind is composed when the first object of that kind is seen.
    """

    def __init__(
        self,
        fields: Iterable[Field] = (),
        settings: Mapping[str, type[BaseModel]] | None = None,
        elsewhere: Callable[[str, str], str] | None = None,
    ) -> None:
        """Nothing is composed yet.

        Args:
            fields: those of plugins.
            settings: models of plugins' settings, by plugin name.
            elsewhere: who would serve an unknown field, from the kind and the path; empty for nobody.
        """
        self._elsewhere: Final = elsewhere or (lambda _kind, _path: "")
        self._fields: Final = tuple(fields)
        self._settings: Final = dict(settings or {})
        self._models: dict[Kind, type[Model]] = {}

    def model(self, kind: Kind) -> type[Model]:
        """The composed model of a whole object of a kind."""
        if kind not in self._models:
            self._models[kind] = compose(kind, self._fields, self._settings)
        return self._models[kind]

    def validate(self, obj: object, *, defaulted: bool = False) -> Validation:
        """Check one object; nothing in it makes this raise.

        Args:
            obj: the object as read from YAML or JSON.
            defaulted: whether it went through the API server's defaulting, after which it is unknown
                which fields the user gave.
        """
        if not isinstance(obj, dict):
            return Validation((Problem("", "is not a mapping", "an object starts with apiVersion and kind"),))
        kind = _kind(obj.get("kind"))
        if isinstance(kind, Problem):
            return Validation((kind,))
        if kind != "KaiwoConfig" and (too_large := size_problem(obj.get("metadata"), obj.get("spec"))):
            return Validation((too_large,))
        model = self.model(kind)
        problems: list[Problem] = []
        try:
            model.parse({key: value for key, value in obj.items() if key != "status"})
        except ValidationError as error:
            problems += explain(error, (), lambda location: known_fields(model, location))
        spec = obj.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        blocks = [key for key, value in spec.items() if isinstance(key, str) and value is not None]
        ray = runs_on_ray(spec, blocks) if kind != "KaiwoConfig" else None
        problems += check_metadata(obj.get("metadata"), ray=ray)
        if kind == "KaiwoConfig":
            found, warnings = check_config(obj, self._settings)
        else:
            found, warnings = check_workload(kind, spec, on_ray=bool(ray), defaulted=defaulted)
            if not problems:
                warnings += self._warned(kind, spec)
        hinted = [self._hinted(problem, kind, model, ray=bool(ray)) for problem in (*problems, *found)]
        return Validation(_unique(hinted), _unique(warnings))

    def _hinted(self, problem: Problem, kind: Kind, model: type[Model], *, ray: bool) -> Problem:
        """A problem about an unknown field with who serves it, or the field that was probably meant."""
        if problem.message != UNKNOWN_FIELD:
            return problem
        path = parse_path(problem.path)
        hint = self._elsewhere(kind, problem.path)
        if path and not hint:
            hint = self._other_kind(kind, path) or self._embedded(kind, path, ray=ray)
            hint = hint or field_hint(model, path)
        return replace(problem, hint=hint) if hint else problem

    def _other_kind(self, kind: Kind, path: Sequence[str | int]) -> str:
        """That the other kind of workload has a field directly below spec; empty when it does not."""
        other = _OTHER_KIND.get(kind)
        if other is None or len(path) != 2 or path[1] not in known_fields(self.model(other), path[:1]):  # noqa: PLR2004
            return ""
        return f"{other} has this field, {kind} does not"

    def _embedded(self, kind: Kind, path: Sequence[str | int], *, ray: bool) -> str:
        """Where in an embedded object a field directly below spec belongs; empty when it is of none."""
        if len(path) != 2 or path[0] != "spec":  # noqa: PLR2004
            return ""
        own = (field for field in self._fields if field.kind == kind and field.annotation is Opaque)
        blocks = [field.path[0] for field in own if len(field.path) == 1]
        return embedded_hint(str(path[1]), kind, blocks, ray=ray)

    def _warned(self, kind: Kind, spec: Mapping[str, Any]) -> Iterator[Problem]:
        """Warnings about valid values from the plugins that declare the fields."""
        for field in self._fields:
            value: Any = spec
            for name in field.path:
                value = value.get(name) if isinstance(value, dict) else None
            if field.kind == kind and field.warn is not None and value is not None:
                for problem in _said(field.warn, value):
                    yield replace(problem, path=join_path(("spec", *field.path)) + problem.path)


def _said(warn: Callable[[object], Iterable[Problem]], value: object) -> tuple[Problem, ...]:
    try:
        return tuple(warn(value))
    except Exception as error:  # noqa: BLE001 - a plugin's defect does not make an object invalid
        return (Problem("", f"was not checked: its plugin failed ({type(error).__name__}: {error})"),)


def validate(
    obj: object,
    fields: Iterable[Field] = (),
    settings: Mapping[str, type[BaseModel]] | None = None,
    *,
    defaulted: bool = False,
) -> Validation:
    """Check one object once; for many objects keep a :class:`Validator`."""
    return Validator(fields, settings).validate(obj, defaulted=defaulted)


def _kind(value: Any) -> Kind | Problem:
    for kind in KINDS:
        if value == kind:
            return kind
    if value is None:
        return Problem("kind", "is required", f"one of {', '.join(KINDS)}")
    hint = did_you_mean(str(value), KINDS) or f"known: {', '.join(KINDS)}"
    return Problem("kind", f"unknown kind {shorten(value)}", hint)


def _unique(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Without what the model and a check both found: the first at a path stays."""
    kept: dict[tuple[str, str], Problem] = {}
    paths: set[str] = set()
    for problem in problems:
        if problem.path not in paths or (problem.path, problem.message) in kept:
            kept.setdefault((problem.path, problem.message), problem)
        paths.add(problem.path)
    return tuple(kept.values())
