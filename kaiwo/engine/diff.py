"""Whether a live object already is as wanted, by meaning and not by spelling.

The API server fills in defaults, normalises quantities and drops what is empty; other controllers add
labels, environment variables and volumes. None of that is a difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.engine.quantity import NANO, Quantity, quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.engine.resource import Object

_QUANTITY_MAPS = frozenset(
    {
        "requests",
        "limits",
        "capacity",
        "allocatable",
        "hard",
        "overhead",
        "default",
        "defaultRequest",
        "max",
        "min",
    }
)
"""Fields whose values are quantities by resource name (core/v1, also where CRDs embed pods)."""

_QUANTITY_FIELDS = frozenset({"sizeLimit", "divisor"})
"""Fields that are quantities themselves (core/v1 volumes and downward API)."""

_FREE_MAPS = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "data", "selector"})
"""Maps whose keys are the user's: a key with an empty value is there, or it is not."""

_MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "schedulingGates": ("name",),
    "resourceClaims": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
}
"""List fields whose items are identified by keys: ``x-kubernetes-list-map-keys`` of the core API."""


def contains(live: Any, desired: Any) -> bool:
    """Whether everything in `desired` is in `live`.

    * null, and an empty map or list, mean absent;
    * so do an empty text, 0 and false where `live` has nothing: the API server drops them from most fields
      (in the few that keep them, a removal by another client is not seen), but not from labels and the like;
    * maps may hold further keys in `live`;
    * quantities are compared as numbers, in the fields that hold quantities;
    * lists with merge keys (containers, env, volumes, ...) are compared item by item of the same key, further
      items and another order in `live` are no difference; other lists must agree in length and position.
    """
    return _contains(live, desired, "", "", by_key=True)


def would_change(live: Object, patch: Object) -> bool:
    """Whether a merge patch (RFC 7386: null removes, lists are replaced whole) would change an object."""
    return not _contains(live, patch, "", "", by_key=False)


def difference(live: Object, desired: Object) -> Object:
    """The merge patch that turns one map into another: changed keys, and null for keys that go.

    A null in `desired` means absent; equal maps give an empty patch.
    """
    patch: Object = {
        key: None for key, value in live.items() if value is not None and desired.get(key) is None
    }
    for key, value in desired.items():
        known = live.get(key)
        if value is None:
            continue
        if isinstance(value, dict) and isinstance(known, dict):
            deeper = difference(known, value)
            if deeper:
                patch[key] = deeper
        else:
            stored = _without_null(value)
            if stored != _without_null(known) or isinstance(stored, bool) != isinstance(known, bool):
                patch[key] = stored
    return patch


def with_canonical_quantities(value: Any) -> Any:
    """The same data with equal quantities written equally, in the fields that hold quantities."""
    return _canonical(value, "", "")


def _canonical(value: Any, key: str, parent: str) -> Any:
    if isinstance(value, dict):
        return {name: _canonical(item, name, key) for name, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item, "", key) for item in value]
    amount = quantity(value) if parent in _QUANTITY_MAPS or key in _QUANTITY_FIELDS else None
    if amount is None or isinstance(value, bool):
        return value
    # The form that people write most amounts of that size in.
    return str(Quantity(amount.nano, "decimal" if amount.nano % (1024 * NANO) else "binary"))


def _without_null(value: Any) -> Any:
    """A value as the API server stores it: keys of maps that are null are absent."""
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value


def _contains(live: Any, desired: Any, key: str, parent: str, *, by_key: bool) -> bool:
    if desired is None:
        return live is None
    if isinstance(desired, dict):
        if live is None:
            return all(_contains(None, value, name, key, by_key=by_key) for name, value in desired.items())
        return isinstance(live, dict) and all(
            _contains(live.get(name), value, name, key, by_key=by_key) for name, value in desired.items()
        )
    if isinstance(desired, list):
        return _contains_list(live, desired, key, by_key=by_key)
    if by_key and live is None and not desired and not _free_key(key, parent):
        return True
    if isinstance(desired, bool) or isinstance(live, bool):
        return desired is live
    if desired == live:
        return True
    if parent in _QUANTITY_MAPS or key in _QUANTITY_FIELDS:
        wanted = quantity(desired)
        return wanted is not None and wanted == quantity(live)
    return False


def _free_key(key: str, parent: str) -> bool:
    """Whether a key is the user's own: fields of the API are letters and digits only."""
    return parent in _FREE_MAPS or not (key.isalnum() or not key)


def _contains_list(live: Any, desired: list[Any], key: str, *, by_key: bool) -> bool:
    if live is None:
        return not desired
    if not isinstance(live, list):
        return False
    if by_key:
        verdict = _by_key(live, desired, key)
        if verdict is not None:
            return verdict
    # An item cannot be absent: null in its place is something else than an empty map or list there.
    return len(live) == len(desired) and all(
        (there is None) == (wanted is None) and _contains(there, wanted, "", key, by_key=by_key)
        for there, wanted in zip(live, desired, strict=True)
    )


def _by_key(live: Sequence[Any], desired: Sequence[Any], field: str) -> bool | None:
    """Compare items of equal merge keys; None when the field has none or the items lack or repeat them."""
    keys = _keys_of(field, desired)
    if keys is None:
        return None
    there = _keyed(live, keys)
    wanted = _keyed(desired, keys)
    if there is None or wanted is None:
        return None
    return all(
        name in there and _contains(there[name], item, "", field, by_key=True)
        for name, item in wanted.items()
    )


def _keys_of(field: str, items: Sequence[Any]) -> tuple[str, ...] | None:
    if field == "ports":
        first = items[0] if items and isinstance(items[0], dict) else {}
        if "containerPort" in first:
            return ("containerPort", "protocol")
        return ("port", "protocol") if "port" in first else None
    return _MERGE_KEYS.get(field)


def _keyed(items: Sequence[Any], keys: tuple[str, ...]) -> Mapping[tuple[Any, ...], Any] | None:
    found: dict[tuple[Any, ...], Any] = {}
    for item in items:
        if not isinstance(item, dict):
            return None
        name = tuple(item.get(key, "TCP" if key == "protocol" else None) for key in keys)
        if name in found or None in name or any(isinstance(part, dict | list) for part in name):
            return None
        found[name] = item
    return found
