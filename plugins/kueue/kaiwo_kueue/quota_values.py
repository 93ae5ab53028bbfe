"""Quotas that are no quantities; Kueue's error message does not name the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaiwo.plugin.kit.errors import Problem
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo.plugin.kit.values import quantity
from kaiwo_kueue.conversion import QUOTAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.kit.kinds import Object

EXAMPLES = 'write quantities as 4, "500m" or "16Gi"'


class InvalidQuota(NamedTuple):
    """A quota that is no quantity.

    Attributes:
        positions: of the resource group, of the flavor in it, and of the resource in that.
        flavor: name of the flavor.
        resource: name of the resource.
        field: ``nominalQuota``, ``borrowingLimit`` or ``lendingLimit``.
        value: what is written there.
    """

    positions: tuple[int, int, int]
    flavor: object
    resource: object
    field: str
    value: object


def invalid_quotas(spec: Object) -> Iterator[InvalidQuota]:
    """The quotas in the spec of a ClusterQueue that are no quantities."""
    for group_at, group in enumerate(lenient_maps(spec.get("resourceGroups"))):
        for flavor_at, flavor in enumerate(lenient_maps(group.get("flavors"))):
            for at, resource in enumerate(lenient_maps(flavor.get("resources"))):
                for field in QUOTAS:
                    value = resource.get(field)
                    if value is not None and quantity(value) is None:
                        positions = (group_at, flavor_at, at)
                        yield InvalidQuota(positions, flavor.get("name"), resource.get("name"), field, value)


def quantity_problems(spec: Object) -> tuple[Problem, ...]:
    """The quotas in the spec of a KaiwoQueueConfig that are no quantities, with their fields."""
    return tuple(
        Problem(
            "spec.clusterQueues[{}].spec.resourceGroups[{}].flavors[{}].resources[{}].{}".format(
                number, *item.positions, item.field
            ),
            f"{item.value!r} is not a quantity",
            EXAMPLES,
        )
        for number, queue in enumerate(lenient_maps(spec.get("clusterQueues")))
        for item in invalid_quotas(lenient_map(queue.get("spec")))
    )
