"""Checks that the fields, kinds and settings of a plugin can be rendered beside Kaiwo's own.

What cannot be rendered would otherwise break the definitions of all plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from kaiwo.api.suggestion import did_you_mean
from kaiwo.plugin.checks import InvalidPlugin

if TYPE_CHECKING:
    from pydantic import BaseModel

    from kaiwo.api.plugin_fields import Field
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.registry import LoadedPlugin


def check_contributed(plugin: LoadedPlugin) -> None:
    """Check every contributed field and the settings model.

    Raises:
        InvalidPlugin: a field is the host's, a type has no JSON schema, a backend takes from KaiwoConfig what
            is not there, or a rule depends on a setting that is not there.
    """
    for field in plugin.fields():
        if _is_hosts(field):
            raise InvalidPlugin(
                f"{_where(field)} belongs to kaiwo itself; {plugin.distribution} must use another name"
            )
    for field in (field for backend in plugin.backends for field in backend.fields):
        _check_type(_where(field), field.annotation)
    for backend in plugin.backends:
        for form in (backend, *backend.variants):
            _check_taken(form)
    for source in plugin.sources:
        _check_type(f"download source {source.name}", source.item)
    for kind in (kind for controller in plugin.controllers for kind in controller.kinds):
        _check_type(f"kind {kind.resource}: spec", kind.spec)
        _check_type(f"kind {kind.resource}: status", kind.status)
    settings = plugin.settings_model()
    if settings is not None:
        _check_type("settings", settings)
        _check_defaults(settings)
        _check_rule_settings(plugin, settings)


def _check_taken(backend: Backend) -> None:
    if not backend.takes:
        return
    from kaiwo.api.resolved_config import ResolvedConfig

    known = [name for name in ResolvedConfig.__dataclass_fields__ if name != "plugins"]
    for name in backend.takes:
        if name not in known:
            advice = did_you_mean(name, known) or "expected the name of one of its fields"
            raise InvalidPlugin(f"backend {backend.name}: takes: ResolvedConfig has no {name!r}; {advice}")


def _check_rule_settings(plugin: LoadedPlugin, settings: type[BaseModel]) -> None:
    """Check that rules name settings as KaiwoConfig has them: the role is rendered by their values."""
    known = [info.alias or name for name, info in settings.model_fields.items()]
    for rule in plugin.rules():
        if rule.setting and rule.setting not in known:
            advice = did_you_mean(rule.setting, known) or f"expected one of {', '.join(known)}"
            raise InvalidPlugin(
                f"rule for {', '.join(rule.resources)}: the settings have no {rule.setting!r}; {advice}"
            )


def _where(field: Field) -> str:
    return f"field {field.kind}.{'.'.join(field.path)}"


def _check_type(where: str, annotation: Any) -> None:
    from pydantic import TypeAdapter

    try:
        TypeAdapter(annotation).json_schema()
    except Exception as error:  # a plugin's own types may raise anything
        reason = " ".join(str(error).split())
        raise InvalidPlugin(f"{where}: its type has no JSON schema: {reason}") from error


def _check_defaults(settings: type[BaseModel]) -> None:
    """Check that the defaults are complete, and can be read from JSON, as a child's record has them."""
    try:
        defaults = settings()
    except Exception as error:  # a plugin's own validators may raise anything
        reason = " ".join(str(error).split())
        raise InvalidPlugin(f"settings: every field needs a default: {reason}") from error
    try:
        settings.model_validate(defaults.model_dump(mode="json", by_alias=True))
    except Exception as error:  # likewise
        reason = " ".join(str(error).split())
        raise InvalidPlugin(f"settings: the defaults cannot be read from JSON: {reason}") from error


def _is_hosts(field: Field) -> bool:
    """Whether a field of the host is at the path, or on the way to it and no section of fields."""
    from kaiwo.api.plugin_fields import Contributed
    from kaiwo.api.workload import SPECS

    model: type[BaseModel] | None = SPECS[field.kind]
    for position, name in enumerate(field.path):
        if model is None:
            return True
        info = next((info for own, info in model.model_fields.items() if name in (info.alias, own)), None)
        if info is None:
            return False
        if any(isinstance(mark, Contributed) for mark in info.metadata):
            return False
        if position == len(field.path) - 1:
            return True
        model = _section(info.annotation)
    return False


def _section(annotation: Any) -> type[BaseModel] | None:
    """The model in ``Model | None``; None for any other type."""
    from pydantic import BaseModel

    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
