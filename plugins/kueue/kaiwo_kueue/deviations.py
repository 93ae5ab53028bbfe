"""Fields of Kueue's objects that are not as they are listed, and the patch that sets them.

Server-side apply leaves what other field managers wrote, such as an entry of ``admissionChecks``, or a value
of a field that is not listed and has a default. Kueue acts on it all the same.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo_kueue.conversion import QUOTAS, contains, default_of, from_v1beta2, normal_form
from kaiwo_kueue.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object, Resource

_GROUPS: Final = "resourceGroups"
_CHECKS: Final = "admissionChecksStrategy"
_WHOLE: Final = {
    CLUSTER_QUEUE: (_GROUPS, "namespaceSelector"),
    RESOURCE_FLAVOR: ("nodeLabels", "nodeTaints", "tolerations"),
}
"""Fields to which nobody else adds anything where they are listed."""

_OWN: Final = {
    CLUSTER_QUEUE: ("cohortName", _CHECKS),
    RESOURCE_FLAVOR: ("nodeLabels", "nodeTaints", "tolerations"),
}
"""Fields that nobody else gives an object that Kaiwo created: quota, and what is let in, would be others."""


def deviations(kind: Resource, live: Object, wanted: Object, *, owned: bool = False) -> tuple[str, ...]:
    """The fields of a spec that are not as they are listed.

    Args:
        kind: of the object.
        live: its spec in normal form.
        wanted: the listed one in normal form.
        owned: Kaiwo created the object. Of any other, what is not listed is somebody else's.
    """
    fields = dict.fromkeys((*wanted, *(_OWN.get(kind, ()) if owned else ())))
    return tuple(field for field in fields if _deviates(kind, field, live.get(field), wanted.get(field)))


def _deviates(kind: Resource, field: str, live: Any, wanted: Any) -> bool:
    if wanted is None:
        return bool(live)
    if not contains(live, wanted):
        return True
    if live is None or field not in _WHOLE.get(kind, ()):
        return False
    # A later Kueue may fill in fields that are not known here; a limit is an administrator's.
    return not _limits(live) <= _limits(wanted) if field == _GROUPS else not contains(wanted, live)


def correction(kind: Resource, version: str, live: Object, wanted: Object, *, owned: bool) -> Object:
    """The merge patch of a spec by which the fields that deviate become as listed; empty for none.

    Args:
        kind: of the object.
        version: API version that the cluster serves.
        live: its spec as it is served.
        wanted: the listed spec in v1beta2 form.
        owned: Kaiwo created the object.
    """
    fields = deviations(kind, normal_form(kind, live), normal_form(kind, wanted), owned=owned)
    listed = {field: _listed(kind, field, wanted) for field in fields}
    given = from_v1beta2(kind, {key: value for key, value in listed.items() if value is not None}, version)
    absent = {key: None for key, value in listed.items() if value is None}
    if version == "v1beta1":
        if "cohortName" in absent:
            absent["cohort"] = absent.pop("cohortName")
        if _CHECKS in fields:
            absent["admissionChecks"] = None  # the older form; a queue has one of both
    return {**given, **absent}


def newer_checks(live: Object, wanted: Object) -> Object:
    """The merge patch that gives a queue its admission checks in the newer form; empty where it has no older.

    Kueue 0.12 refuses a queue with both, and server-side apply does not take the older one from its manager.

    Args:
        live: spec of the queue as it is served.
        wanted: the listed spec in v1beta2 form.
    """
    listed = wanted.get(_CHECKS)
    return {_CHECKS: listed, "admissionChecks": None} if listed and live.get("admissionChecks") else {}


def _limits(groups: Any) -> set[tuple[object, object, str]]:
    """The quotas and limits that are given: flavor, resource and field."""
    return {
        (flavor.get("name"), resource.get("name"), field)
        for group in lenient_maps(groups)
        for flavor in lenient_maps(group.get("flavors"))
        for resource in lenient_maps(flavor.get("resources"))
        for field in QUOTAS
        if field in resource
    }


def _listed(kind: Resource, field: str, wanted: Object) -> Any:
    """The value to write for a field: the listed one, with the defaults of what it leaves out."""
    value = deepcopy(wanted.get(field))
    default = default_of(field) if kind == CLUSTER_QUEUE else None
    if not isinstance(default, dict):
        return default if value is None else value
    return _filled(lenient_map(value), default)


def _filled(value: Object, default: Object) -> Object:
    filled = {
        key: _filled(lenient_map(value.get(key)), item) if isinstance(item, dict) else value.get(key, item)
        for key, item in default.items()
    }
    return {**value, **filled}
