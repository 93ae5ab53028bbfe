"""Workload backends: how one kind of workload becomes a Kubernetes object and what its state means.

Every callable here is pure: no I/O, no clock (time is a fact), no globals. The operator, ``kaiwo plan``,
validation and the tests call the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from kaiwo.api.plugin_fields import Field, WorkloadKind
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.facts import Allocation, Blocked
    from kaiwo.plugin.observation import Observation, Outcome
    from kaiwo.plugin.rbac import PolicyRule
    from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput


@dataclass(frozen=True, slots=True)
class VariantInput:
    """What the choice between the forms of a backend may depend on.

    Attributes:
        settings: the backend's settings from KaiwoConfig, or None.
        queue_manages: whether the queue system in force queues objects of a kind by itself.
    """

    settings: BaseModel | None
    queue_manages: Callable[[Resource], bool]


@dataclass(frozen=True, slots=True)
class Backend:
    """A workload backend.

    Attributes:
        name: short name (``batch_job``).
        kind: the kind it serves.
        child: the kind of object it creates, named like the workload.
        fields: spec fields it owns; the first is its embedded block.
        chosen: pure function: whether this backend serves that workload.
        max_name_length: longest legal workload name.
        name_pattern: ``dns1123`` (label) or ``dns1035`` (label that starts with a letter).
        check: pure function: what is wrong with this workload for this backend, as (field path, message)
            pairs.
        allocate: pure function: how GPUs are split, or why it cannot run now. None while only declared.
        render: pure function: the child. None while only declared.
        observe: pure function: what a live child means. None while only declared.
        write: ``create`` (POST, then merge patches of named keys) or ``apply`` (server-side apply).
        patch_paths: paths in the child that may be patched on a live child; only for ``write="create"``.
        mutable: spec paths (dotted, below ``spec``) that may change while a child exists. ``*`` for all.
        requires: kinds that must be served by the cluster.
        owned_paths: child paths whose field owner matters (``spec.suspend``, ``spec.replicas``); with
            ``write="apply"``, one that another field manager owns is not sent.
        secondary: kinds of objects beside the child that are named like the workload: what ``render`` makes,
            and what the child's own controller makes and ``observe`` or ``tune`` reads.
        frozen: pure function: the part of a child, rendered or live, that cannot change while it exists. A
            change of it replaces the child: it is deleted, waited for and created again. None where
            nothing is to be replaced.
        tune: pure function: from the workload and the live companions that the child's own controller made
            to merge patches of these; None for none.
        urgent: types of the child's ``status.conditions`` whose coming or going people wait for, beside what
            its pods do. Other changes of the child are looked at half a second later, together. Empty where
            every change may be one that people wait for.
        reads: fields of the child's status that `observe` reads beside ``conditions``. A change of nothing
            but other fields of its status is not looked at. Empty where all of them count.
        absent_at_zero: a workload with ``replicas: 0`` has no child at all.
        merge: pure function: the rendered child with what others own inside lists that are replaced as a
            whole, taken from the live child; only for ``write="apply"``. None where there are no such.
        variants: other forms in which the same workloads can run, with the same fields and a name of their
            own; a child stays with the form it was made in.
        select: pure function: the name of the form for a new child, this one's or a variant's; None where
            there is one form.
        rules: what it needs of the cluster.
        settings: model of ``spec.plugins.<plugin name>`` in KaiwoConfig.
    """

    name: str
    kind: WorkloadKind
    child: Resource
    fields: tuple[Field, ...]
    chosen: Callable[[Workload], bool]
    max_name_length: int = 63
    name_pattern: Literal["dns1123", "dns1035"] = "dns1123"
    check: Callable[[Workload], tuple[tuple[str, str], ...]] | None = None
    allocate: Callable[[AllocationInput], Allocation | Blocked] | None = None
    render: Callable[[RenderInput], Rendered] | None = None
    observe: Callable[[Observation], Outcome] | None = None
    write: Literal["create", "apply"] = "create"
    patch_paths: tuple[tuple[str, ...], ...] = ()
    mutable: tuple[str, ...] = ()
    requires: tuple[Resource, ...] = ()
    owned_paths: tuple[tuple[str, ...], ...] = ()
    secondary: tuple[Resource, ...] = ()
    frozen: Callable[[Object], object] | None = None
    tune: Callable[[Workload, Mapping[Resource, Object]], Mapping[Resource, Object]] | None = None
    urgent: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    absent_at_zero: bool = False
    merge: Callable[[Object, Object], Object] | None = None
    variants: tuple[Backend, ...] = ()
    select: Callable[[VariantInput], str] | None = None
    rules: tuple[PolicyRule, ...] = ()
    settings: type[BaseModel] | None = None

    @property
    def built(self) -> bool:
        """Whether it can run workloads; a backend may be declared (fields only) before it is built."""
        return self.allocate is not None and self.render is not None and self.observe is not None
