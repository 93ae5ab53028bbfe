"""Workload backends: the declaration of what a backend is and which objects it works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kaiwo.api.plugin_fields import Field
from kaiwo.plugin.backend_base import BackendBase
from kaiwo.plugin.declaration import Declaration

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.adoption import Adoption
    from kaiwo.plugin.rbac import PolicyRule

__all__ = ["Backend", "Field"]


@dataclass(frozen=True, slots=True)
class Backend(Declaration):
    """A workload backend: data that the host reads, and one class with its code.

    Attributes:
        name: short name (``batch_job``).
        kind: the kind it serves.
        child: the kind of object it creates, named like the workload.
        fields: spec fields it owns; the first is its own block.
        implementation: the subclass of :class:`kaiwo.plugin.backend_base.BackendBase`, usually as
            ``Lazy("kaiwo_batch_job.backend:BatchJobBackend")`` so that it is imported on first use. None for
            a backend that is declared and not built yet: its fields are in the CRDs, nothing runs it.
        max_name_length: longest legal workload name.
        name_pattern: ``dns1123`` (label) or ``dns1035`` (label that starts with a letter).
        write: ``create`` (POST, then merge patches of named keys) or ``apply`` (server-side apply).
        patch_paths: paths in the child that may be patched on a live child; only for ``write="create"``.
        mutable: spec paths (dotted, below ``spec``) that may change while a child exists. ``*`` for all.
        requires: kinds that must be served by the cluster.
        pod_templates: paths below ``spec`` at which users embed pod templates, each from the backend's own
            block on; ``*`` stands for every item of a list, at most once in a path. What these templates
            may ask for is limited by the admission policy for workloads.
        owned_paths: child paths whose field owner matters (``spec.suspend``, ``spec.replicas``); with
            ``write="apply"``, one that another field manager owns is not sent.
        secondary: kinds of objects beside the child that are named like the workload: what ``render`` makes,
            and what the child's own controller makes and ``observe`` or ``tune_secondary`` reads.
        pod_owners: kinds of the controllers between the child and its pods that are neither the child nor
            secondary (``ReplicaSet`` of a Deployment). A pod counts only where the child controls it,
            directly or through objects of these kinds. They are watched by the label
            ``kaiwo.silogen.ai/run-id``, which such objects take over from the child or from its pod
            template; Jobs need no label.
        urgent: types of the child's ``status.conditions`` that are reconciled at once when they appear or
            disappear. Other changes of the child are collected for half a second. Empty: every change is
            reconciled at once.
        reads: fields of the child's status that ``observe`` reads beside ``conditions``. A change of other
            fields of the status alone is ignored. Empty: every field counts.
        reads_conditions: types of the child's ``status.conditions`` that ``observe`` reads, where it has
            ``reads``. Empty: every condition counts.
        reads_without_pods: further fields that it reads only while no pods of the workload are known, because
            a user or another controller made them. A child without known pods of which these stay the same
            is given two seconds in place of half a second: its pods come next.
        absent_at_zero: a workload with ``replicas: 0`` has no child at all.
        variants: other forms in which the same workloads can run, with the same fields and a name of their
            own. ``select_variant`` selects one for a new child; a child stays in the form it was made in.
        rules: what it needs of the cluster.
        takes: what else of KaiwoConfig a new child is made with, as names of fields of
            :class:`kaiwo.plugin.kit.workload.ResolvedConfig`. The values stay with the child
            (``inp.resolved.taken``); an edit of KaiwoConfig changes no running one.
        adoption: how labelled objects of the child kind that users made are adopted; None for a backend that
            adopts none. Its rules then hold the rights to create and delete workloads of its kind.
    """

    name: str
    kind: WorkloadKind
    child: Resource
    fields: tuple[Field, ...]
    implementation: Callable[[str], BackendBase] | None = None
    max_name_length: int = 63
    name_pattern: Literal["dns1123", "dns1035"] = "dns1123"
    write: Literal["create", "apply"] = "create"
    patch_paths: tuple[tuple[str, ...], ...] = ()
    mutable: tuple[str, ...] = ()
    requires: tuple[Resource, ...] = ()
    pod_templates: tuple[tuple[str, ...], ...] = ()
    owned_paths: tuple[tuple[str, ...], ...] = ()
    secondary: tuple[Resource, ...] = ()
    pod_owners: tuple[Resource, ...] = ()
    urgent: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    reads_conditions: tuple[str, ...] = ()
    reads_without_pods: tuple[str, ...] = ()
    absent_at_zero: bool = False
    variants: tuple[Backend, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    takes: tuple[str, ...] = ()
    adoption: Adoption | None = None

    @property
    def built(self) -> bool:
        """Whether it can run workloads; a backend may be declared (fields only) before it is built."""
        return self.implementation is not None

    @property
    def block(self) -> str:
        """Name of its own block, the first of its fields; empty without fields."""
        return self.fields[0].path[0] if self.fields else ""

    def load(self) -> BackendBase:
        """An instance of its class, which is imported on first use.

        Raises:
            TypeError: it is declared and not built, or what it names is no subclass of BackendBase.
            Exception: whatever importing or creating the class raises.
        """
        if self.implementation is None:
            raise TypeError(f"backend {self.name} is declared, but not built")
        loaded = self.implementation(self.block)
        if not isinstance(loaded, BackendBase):
            raise TypeError(f"expected a subclass of BackendBase, got {type(loaded).__name__}")
        return loaded
