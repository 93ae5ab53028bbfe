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


def tidy(container: Object, path: str) -> None:
    """Remove repetition from the keyed lists of a container, in place.

    Raises:
        SpecError: one of them is no list of objects.
    """
    for name, keys in _KEYS.items():
        if name in container and len(items := as_maps(container[name], f"{path}.{name}")) != 1:
            container[name] = merged(items, keys)
