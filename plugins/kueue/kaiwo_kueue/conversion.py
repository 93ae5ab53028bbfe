"""Conversion between the two generations of Kueue's API, and the normal form in which specs are compared.

The normal form is that of ``v1beta2`` with quantities as exact numbers and with the defaults of the CRD. A
cluster that stores ``v1beta2`` does not return a ``v1beta1`` object as it was sent, so a comparison of the
written values would find a difference in every reconciliation.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from kaiwo.plugin.kit.json_access import lenient_maps
from kaiwo.plugin.kit.values import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo.plugin.kit.kinds import Object, Resource

QUOTAS = ("nominalQuota", "borrowingLimit", "lendingLimit")
"""Fields of a flavor's resource that are quantities."""

_MAY_STOP = "MayStopSearch"
_V1BETA1_VALUES = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}
"""Values of v1beta1 in the older generation for MayStopSearch, the only value in the newer one."""

_DEFAULTS: Object = {
    "queueingStrategy": "BestEffortFIFO",
    "stopPolicy": "None",
    "flavorFungibility": {"whenCanBorrow": _MAY_STOP, "whenCanPreempt": "TryNextFlavor"},
    "preemption": {
        "reclaimWithinCohort": "Never",
        "withinClusterQueue": "Never",
        "borrowWithinCohort": {"policy": "Never"},
    },
}
"""Defaults of a ClusterQueue's spec in Kueue's CRD, the same in both generations."""


def to_v1beta2(kind: Resource, spec: Object) -> Object:
    """A spec in v1beta2 form, whichever form it is written in; nulls are absent.

    Args:
        kind: the kind; only a ClusterQueue's spec differs between the generations.
        spec: the spec; it is not changed.
    """
    copy: Object = _without_null(deepcopy(spec))
    if kind.kind != "ClusterQueue":
        return copy
    older, cohort = copy.pop("cohort", None), copy.pop("cohortName", None)
    if cohort or older:
        copy["cohortName"] = cohort or older
    checks = copy.get("admissionChecks")
    strategy = copy.get("admissionChecksStrategy")
    if not checks:
        copy.pop("admissionChecks", None)
    elif isinstance(checks, list) and not strategy:
        names = [{"name": name} for name in copy.pop("admissionChecks") if name is not None]
        copy["admissionChecksStrategy"] = {"admissionChecks": names}
    # Otherwise the field stays, and the API server says what is wrong: a queue must not lose its checks.
    fungibility = copy.get("flavorFungibility")
    if isinstance(fungibility, dict):
        for field, old in _V1BETA1_VALUES.items():
            if fungibility.get(field) == old:
                fungibility[field] = _MAY_STOP
    for holder, field in _quantities(copy):
        amount = quantity(holder[field]) if isinstance(holder[field], float) else None
        if amount is not None:
            # Kueue's schema takes whole numbers and texts; an administrator may well write 1.5.
            holder[field] = str(amount)
    return copy


def from_v1beta2(kind: Resource, spec: Object, version: str) -> Object:
    """A spec in v1beta2 form as a served version takes it."""
    if kind.kind != "ClusterQueue" or version != "v1beta1":
        return spec
    copy = deepcopy(spec)
    if cohort := copy.pop("cohortName", None):
        copy["cohort"] = cohort
    fungibility = copy.get("flavorFungibility")
    if isinstance(fungibility, dict):
        for field, old in _V1BETA1_VALUES.items():
            if fungibility.get(field) == _MAY_STOP:
                fungibility[field] = old
    return copy


def ordered(spec: Object) -> Object:
    """A ClusterQueue's spec with each flavor's resources in the order of ``coveredResources``.

    Kueue refuses another order.
    """
    copy = deepcopy(spec)
    for group in lenient_maps(copy.get("resourceGroups")):
        covered = group.get("coveredResources")
        names = covered if isinstance(covered, list) else []
        positions = {name: at for at, name in enumerate(names) if isinstance(name, str)}
        for flavor in lenient_maps(group.get("flavors")):
            resources = flavor.get("resources")
            if isinstance(resources, list):
                flavor["resources"] = sorted(resources, key=_by_position(positions))
    return copy


def _by_position(positions: dict[str, int]) -> Callable[[Any], int]:
    def position(item: Any) -> int:
        name = item.get("name") if isinstance(item, dict) else None
        return positions.get(name, len(positions)) if isinstance(name, str) else len(positions)

    return position


def normal_form(kind: Resource, spec: Object) -> Object:
    """The normal form of a spec of either generation."""
    form = to_v1beta2(kind, spec)
    if kind.kind == "ClusterQueue":
        form = _with_defaults(ordered(form), _DEFAULTS)
    for holder, field in _quantities(form):
        holder[field] = _exact(holder[field])
    return form


def _quantities(spec: Object) -> Iterator[tuple[Object, str]]:
    """Every quantity of a spec: what it stands in, and its field."""
    for group in lenient_maps(spec.get("resourceGroups")):
        for flavor in lenient_maps(group.get("flavors")):
            for resource in lenient_maps(flavor.get("resources")):
                yield from ((resource, field) for field in QUOTAS if field in resource)
    fair = spec.get("fairSharing")
    if isinstance(fair, dict) and "weight" in fair:
        yield fair, "weight"


def default_of(field: str) -> Any:
    """What the CRD makes of a field of a ClusterQueue's spec that is left out; None for nothing."""
    return deepcopy(_DEFAULTS.get(field))


def _exact(value: Any) -> Any:
    """A quantity as the text of its exact value; what is no quantity stays as it is."""
    parsed = quantity(value)
    return str(parsed.nano) if parsed is not None else value


def _with_defaults(spec: Object, defaults: Object) -> Object:
    result = dict(spec)
    for key, value in defaults.items():
        if isinstance(value, dict):
            current = result.get(key)
            if current is None or isinstance(current, dict):
                result[key] = _with_defaults(current or {}, value)
        else:
            result.setdefault(key, value)
    return result


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    return value


def contains(live: Any, wanted: Any) -> bool:
    """Whether everything in one normal form is in another; nothing and empty are the same."""
    if isinstance(wanted, dict):
        if live is None:
            return all(contains(None, value) for value in wanted.values())
        return isinstance(live, dict) and all(contains(live.get(k), v) for k, v in wanted.items())
    if isinstance(wanted, list):
        if live is None:
            return not wanted
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(contains(live_item, item) for live_item, item in zip(live, wanted, strict=True))
        )
    return type(live) is type(wanted) and bool(live == wanted)
