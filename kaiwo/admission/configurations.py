"""Validation of KaiwoConfigs and of the kinds of plugins: values that their controllers could not use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from kaiwo.admission.answer import Answer
from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.api.errors import UNKNOWN_FIELD, Problem, describe, render
from kaiwo.api.validate import Validation
from kaiwo.api.validation_errors import explain

if TYPE_CHECKING:
    from kaiwo.admission.request import Request
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.controllers import CustomKind
    from kaiwo.plugin.registry import Plugins


class ConfigurationReviewer:
    """Validates KaiwoConfigs, and objects of plugins' kinds by the models that their controllers read."""

    def __init__(self, plugins: Plugins) -> None:
        """Prepare the models.

        Args:
            plugins: loaded plugins, with the models of their settings and of their kinds.
        """
        self._validator = plugins.validator()
        self._kinds = {
            (kind.resource.group, kind.resource.kind): kind
            for controller in plugins.controllers
            for kind in controller.kinds
        }

    def __call__(self, request: Request) -> Answer:
        """Whether its controller could use what is written."""
        if request.object is None or not request.changes_spec:
            return Answer(allowed=True)
        if request.unreadable:
            return Answer(allowed=False, message=f"{request.unreadable}; make it smaller")
        found = self._validated(request, request.object)
        problems, warnings = found.problems, list(found.warnings)
        if problems and request.old_object is not None:
            known = self._validated(request, request.old_object).problems
            problems, left = tuple(p for p in problems if p not in known), [p for p in problems if p in known]
            warnings = left + warnings
        if problems:
            return Answer(allowed=False, message=render(problems), warnings=tuple(map(str, warnings)))
        return Answer(allowed=True, warnings=tuple(map(str, warnings)))

    def _validated(self, request: Request, obj: Object) -> Validation:
        kind = self._kinds.get((request.group, request.kind))
        if kind is not None:
            return _custom(kind, obj)
        if (request.group, request.kind) != (KAIWO_CONFIG.group, KAIWO_CONFIG.kind):
            return Validation()
        found = self._validator.validate(obj, defaulted=True)
        # The API server drops unknown fields; the operator ignores those of other versions.
        unknown = tuple(problem for problem in found.problems if problem.message == UNKNOWN_FIELD)
        rest = tuple(problem for problem in found.problems if problem.message != UNKNOWN_FIELD)
        return Validation(rest, (*unknown, *found.warnings))


def _custom(kind: CustomKind, obj: Object) -> Validation:
    """An object of a plugin's kind, read as its controller reads it."""
    metadata, spec = obj.get("metadata"), obj.get("spec")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    warnings: tuple[Problem, ...] = ()
    if kind.singleton and isinstance(name, str) and name != kind.singleton:
        text = f'"{name}" is ignored; only "{kind.singleton}" counts'
        warnings = (Problem("metadata.name", text, f'name it "{kind.singleton}"'),)
    if spec is not None and not isinstance(spec, dict):
        return Validation((Problem("spec", f"expected a mapping, got {describe(spec)}"),), warnings)
    try:
        kind.spec.model_validate(spec or {}, by_alias=True, by_name=False, extra="ignore")
    except ValidationError as error:
        return Validation(tuple(explain(error, ("spec",))), warnings)
    return Validation(tuple(kind.check(spec or {})) if kind.check is not None else (), warnings)
