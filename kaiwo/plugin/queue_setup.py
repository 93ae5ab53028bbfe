"""The default set-up of a queue system: what ``kaiwo init`` shows and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.vendors import GpuVendor


@dataclass(frozen=True, slots=True)
class SetupFacts:
    """What a set-up is planned from.

    Attributes:
        nodes: all nodes, with the labels that a loaded plugin is going to write on those without a pool.
        vendors: loaded GPU vendors.
        config: KaiwoConfig in force, or the defaults.
        objects: live objects of the kinds in `QueueSetup.reads`; a kind that is not served is not in it.
    """

    nodes: tuple[Object, ...]
    vendors: tuple[GpuVendor, ...]
    config: ResolvedConfig
    objects: Mapping[Resource, tuple[Object, ...]]


@dataclass(frozen=True, slots=True)
class SetupChange:
    """One object of the set-up, before and after.

    Attributes:
        resource: its kind.
        name: its name.
        before: its spec as it is; None where the object does not exist.
        after: its spec as it should be.
        by_operator: the operator makes it of the others, so it is only shown.
    """

    resource: Resource
    name: str
    before: Object | None
    after: Object
    by_operator: bool = False


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """The default set-up.

    Attributes:
        changes: all its objects, also those that are as they should be, in the order of writing.
        notes: sentences for the administrator.
        field_manager: in whose name the objects are written.
    """

    changes: tuple[SetupChange, ...]
    notes: tuple[str, ...] = ()
    field_manager: str = "kaiwo"


@dataclass(frozen=True, slots=True)
class QueueSetup:
    """How a queue system is set up.

    Attributes:
        plan: pure function from facts to the set-up. An object that somebody else wrote stays as it is; a
            second call after the set-up was written changes nothing.
        reads: cluster-scoped kinds that it needs.
    """

    plan: Callable[[SetupFacts], SetupPlan]
    reads: tuple[Resource, ...] = ()
