"""Requests and limits of containers.

What a container says itself is never overwritten, with one exception: GPUs of the primary container. Values
come in levels: the container's own, what follows from generated GPUs, ``spec.resources``, the default. Where
a request would exceed its limit, the value of the lower level gives way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from kaiwo.api.spec_rules import RESOURCE_NAME
from kaiwo.engine.quantity import InvalidQuantity, Quantity, parse_quantity
from kaiwo.workload.errors import SpecError
from kaiwo.workload.gpus.resource_keys import is_gpu
from kaiwo.workload.json_access import as_map, as_maps
from kaiwo.workload.pods.list_merge import merged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.api.core_types import ResourceRequirements
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import Origin
    from kaiwo.workload.pods.origins import Origins

CPU_PER_GPU = 4
MEMORY_PER_GPU_GIB = 32
"""CPU cores and memory per GPU of generated pods, as documented for ``spec.resources``."""

DEFAULT_CPU = "2"
DEFAULT_MEMORY = "16Gi"
"""What the primary container gets where nobody says anything."""

_SIDES = ("requests", "limits")

_PER_GPU = {"cpu": str(CPU_PER_GPU), "memory": f"{MEMORY_PER_GPU_GIB}Gi"}


class Level(IntEnum):
    """Who wrote a value; a higher one stays when two contradict each other."""

    DEFAULT = 0
    SPEC = 1
    CONFIG = 2
    GPUS = 3
    OWN = 4


_ORIGINS: dict[Level, tuple[Origin, str]] = {
    Level.DEFAULT: ("default", "built-in default of this container"),
    Level.SPEC: ("user", "spec.resources"),
    Level.GPUS: ("default", f"{CPU_PER_GPU} CPU and {MEMORY_PER_GPU_GIB}Gi per GPU"),
}


@dataclass(frozen=True, slots=True)
class Needs:
    """What a container's resources depend on beside itself.

    Attributes:
        defaults: ``spec.resources`` as maps, GPU keys left out.
        vendor_keys: resource keys that are GPUs.
        primary: whether it is the primary container of its pod.
        gpus: GPUs to set on the primary container; None leaves those that the container requests itself.
        gpu_key: the resource key of these.
        generated: the pod template is ours, so that CPU and memory follow from the GPUs.
        memory: memory that goes before ``spec.resources``, empty for none.
        memory_from: the setting that it comes from, in words.
        claims: ``spec.resources.claims``, devices that every container gets beside its own.
        of_pod: resources that the template gives to the pod as a whole. Its containers share them, and the
            API server takes no container that has more.
    """

    defaults: Mapping[str, Mapping[str, Any]]
    vendor_keys: tuple[str, ...]
    primary: bool = False
    gpus: int | None = None
    gpu_key: str = ""
    generated: bool = False
    memory: str = ""
    memory_from: str = ""
    claims: tuple[Object, ...] = ()
    of_pod: frozenset[str] = frozenset()


def spec_defaults(
    resources: ResourceRequirements | None, vendor_keys: tuple[str, ...]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """``spec.resources`` as maps of requests and limits without GPUs, and warnings about those left out.

    Raises:
        SpecError: a name that no resource of a container has.
    """
    sides: dict[str, dict[str, Any]] = {}
    ignored: set[str] = set()
    if resources is not None:
        for side, values in (("requests", resources.requests), ("limits", resources.limits)):
            sides[side] = {
                key: value for key, value in (values or {}).items() if not is_gpu(key, vendor_keys)
            }
            ignored |= (values or {}).keys() - sides[side].keys()
            if wrong := next(filter(RESOURCE_NAME.violated, sides[side]), None):
                raise SpecError(f"spec.resources.{side}.{wrong}", RESOURCE_NAME.message)
    return sides, [
        f"spec.resources: {key} is ignored; request GPUs with spec.gpus" for key in sorted(ignored)
    ]


def with_resources(container: Object, needs: Needs, path: str, origins: Origins) -> tuple[Object, list[str]]:
    """The container's complete ``resources``, and warnings.

    Args:
        container: the container.
        needs: see :class:`Needs`.
        path: its path in the rendered object, for origins and errors.
        origins: where to note what came from where.

    Raises:
        SpecError: the container's own resources have an impossible shape.
    """
    own, values = _own(container, path)
    warnings = _set_gpus(values, needs, path) if needs.primary and needs.gpus is not None else []
    warnings += _replaced_by_gpus(values, needs)
    for key, value, level in _offers(needs):
        if level is Level.CONFIG and key in needs.of_pod:
            continue
        for side in _SIDES:
            values[side].setdefault(key, (value, level))
    for side in _SIDES:
        for key, value in needs.defaults.get(side, {}).items():
            values[side].setdefault(key, (value, Level.SPEC))
    if needs.primary:
        for key, default in (("cpu", DEFAULT_CPU), ("memory", DEFAULT_MEMORY)):
            for side in () if key in needs.of_pod else _SIDES:
                values[side].setdefault(key, (default, Level.DEFAULT))
    _clamp(values, path)
    own = _with_claims(own, needs.claims, path)
    return _result(own, values, path, origins, needs.memory_from), warnings


def resources_of_pod(pod: Object, path: str) -> frozenset[str]:
    """The resources that a pod spec gives to the pod as a whole.

    Raises:
        SpecError: they have an impossible shape.
    """
    own = as_map(pod.get("resources"), f"{path}.resources")
    return frozenset(key for side in _SIDES for key in as_map(own.get(side), f"{path}.resources.{side}"))


def completed(
    container: Object, defaults: Mapping[str, Mapping[str, str]], path: str, origins: Origins
) -> Object:
    """The container's ``resources`` with what they lack of our own defaults.

    Args:
        container: the container.
        defaults: requests and limits; one that contradicts a value of the container's own gives way.
        path: its path in the rendered object, for origins and errors.
        origins: where to note what came from where.

    Raises:
        SpecError: the container's own resources have an impossible shape.
    """
    own, values = _own(container, path)
    for side in _SIDES:
        for key, value in defaults.get(side, {}).items():
            values[side].setdefault(key, (value, Level.DEFAULT))
    _clamp(values, path)
    return _result(own, values, path, origins)


def _own(container: Object, path: str) -> tuple[Object, dict[str, dict[str, tuple[Any, Level]]]]:
    own = as_map(container.get("resources"), f"{path}.resources")
    return own, {
        side: {
            key: (value, Level.OWN)
            for key, value in as_map(own.get(side), f"{path}.resources.{side}").items()
        }
        for side in _SIDES
    }


def _with_claims(own: Object, claims: tuple[Object, ...], path: str) -> Object:
    if not claims:
        return own
    given = as_maps(own.get("claims"), f"{path}.resources.claims")
    return {**own, "claims": merged([*(dict(claim) for claim in claims), *given], ("name",))}


def _offers(needs: Needs) -> list[tuple[str, str, Level]]:
    """Values that go before ``spec.resources``, as request and limit alike."""
    offers = []
    if needs.memory:
        offers.append(("memory", needs.memory, Level.CONFIG))
    if needs.primary and needs.generated and needs.gpus:
        offers.append(("cpu", str(CPU_PER_GPU * needs.gpus), Level.GPUS))
        offers.append(("memory", f"{MEMORY_PER_GPU_GIB * needs.gpus}Gi", Level.GPUS))
    return offers


def _replaced_by_gpus(values: Mapping[str, Mapping[str, object]], needs: Needs) -> list[str]:
    """A warning for each value of ``spec.resources`` that the primary container does not get for its GPUs."""
    return [
        f"spec.resources.{side}.{key}: {given} is not used, the container with GPUs gets {value} "
        f"({_PER_GPU[key]} for each GPU); an embedded pod template can set another value"
        for key, value, level in _offers(needs)
        for side in _SIDES
        if level is Level.GPUS
        and key not in values[side]
        and (given := needs.defaults.get(side, {}).get(key)) is not None
        and not _equal(given, value)
    ]


def _equal(given: Any, value: str) -> bool:
    try:
        return parse_quantity(given) == parse_quantity(value)
    except InvalidQuantity:
        return False


def _set_gpus(values: dict[str, dict[str, tuple[Any, Level]]], needs: Needs, path: str) -> list[str]:
    wanted, changed = str(needs.gpus), False
    for side in _SIDES:
        for key in [key for key in values[side] if is_gpu(key, needs.vendor_keys) or key == needs.gpu_key]:
            before = values[side].pop(key)[0]
            changed |= key != needs.gpu_key or str(before) != wanted
        if needs.gpus:
            values[side][needs.gpu_key] = (wanted, Level.OWN)
    if not changed:
        return []
    if not needs.gpus:
        return [f"{path}.resources: the GPUs written there are left out; a Ray head gets none"]
    return [
        f"{path}.resources: the GPUs written there are replaced by {wanted} {needs.gpu_key} from spec.gpus"
    ]


def _clamp(values: dict[str, dict[str, tuple[Any, Level]]], path: str) -> None:
    requests, limits = values["requests"], values["limits"]
    for key in requests.keys() & limits.keys():
        (request, asked_by), (limit, capped_by) = requests[key], limits[key]
        if asked_by == capped_by or request == limit:
            continue
        if _quantity(request, f"{path}.resources.requests.{key}") <= _quantity(
            limit, f"{path}.resources.limits.{key}"
        ):
            continue
        if asked_by > capped_by:
            limits[key] = (request, capped_by)
        else:
            requests[key] = (limit, asked_by)


def _quantity(value: Any, path: str) -> Quantity:
    try:
        return parse_quantity(value)
    except InvalidQuantity as error:
        raise SpecError(path, str(error)) from None


def _result(
    own: Object,
    values: dict[str, dict[str, tuple[Any, Level]]],
    path: str,
    origins: Origins,
    setting: str = "",
) -> Object:
    result = dict(own)
    origins_by_level = {**_ORIGINS, Level.CONFIG: ("config", setting)}
    for side in _SIDES:
        if not values[side]:
            continue
        result[side] = {key: value for key, (value, _) in values[side].items()}
        for key, (_, level) in values[side].items():
            if level is not Level.OWN:
                origin, words = origins_by_level[level]
                origins.note(f"{path}.resources.{side}.{key}", origin, words)
    return result
