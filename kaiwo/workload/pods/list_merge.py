"""Lists that Kubernetes merges by a key: each key once, the last one wins.

A second item of the same key makes server-side apply fail, so none leaves this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.workload.json_access import as_maps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.resource import Object

_KEYS: dict[str, tuple[str, ...]] = {
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "protocol"),
}
_ABSENT = {"protocol": "TCP"}


def merged(items: Iterable[Object], keys: tuple[str, ...]) -> list[Object]:
    """The items without repetition: a later one takes the place of an earlier one with equal keys.

    Items whose keys are no plain values are kept as they are; the API server judges them.
    """
    kept: dict[object, Object] = {}
    for position, item in enumerate(items):
        identity = tuple(item.get(key, _ABSENT.get(key)) for key in keys)
        plain = all(isinstance(part, str | int) for part in identity)
        kept[identity if plain else ("", position)] = item
    return list(kept.values())


def tidy(container: Object, path: str) -> list[str]:
    """Remove repetition from the keyed lists of a container, in place.

    Returns:
        Warnings about mounts and ports that were left out. That a variable replaces another is documented.

    Raises:
        SpecError: one of them is no list of objects.
    """
    warnings = []
    for name, keys in _KEYS.items():
        if name not in container or len(items := as_maps(container[name], f"{path}.{name}")) == 1:
            continue
        container[name] = kept = merged(items, keys)
        if name == "env" or len(kept) == len(items):
            continue
        for position, item in enumerate(items):
            if item not in kept:
                other = " ".join(str(item.get(key, _ABSENT.get(key))) for key in keys)
                named = f" ({item['name']})" if item.get("name") else ""
                warnings.append(
                    f"{path}.{name}[{position}]{named} is not used: a later one has {keys[0]} {other}, too"
                )
    return warnings
