"""Controllers that a plugin brings along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaiwo.plugin.declaration import Declaration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from pydantic import BaseModel

    from kaiwo.api.errors import Problem
    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.rbac import PolicyRule
    from kaiwo.plugin.vendors import GpuVendor

    NodeLabels: TypeAlias = Callable[
        [Sequence[Object], Sequence[GpuVendor], ResolvedConfig], Mapping[str, Mapping[str, str]]
    ]


@dataclass(frozen=True, slots=True)
class CustomKind:
    """A kind of a plugin's own; its CRD is rendered with the host's.

    Attributes:
        resource: group, version, kind and plural.
        spec: pydantic model of ``spec``.
        status: pydantic model of ``status``.
        short_names: for kubectl.
        printer_columns: as in a CRD's ``additionalPrinterColumns``.
        description: for ``kubectl explain``.
        singleton: the only name of an object that counts; empty where all do.
        check: what its controller could not use of a ``spec`` that fits the model, with paths from the root
            of the object; the admission webhook refuses it. None for nothing.
    """

    resource: Resource
    spec: type[BaseModel]
    status: type[BaseModel]
    short_names: tuple[str, ...] = ()
    printer_columns: tuple[dict[str, str | int], ...] = ()
    description: str = ""
    singleton: str = ""
    check: Callable[[Object], Sequence[Problem]] | None = None


@dataclass(frozen=True, slots=True)
class ControllerHost:
    """What the host gives to a plugin's controller.

    Attributes:
        manager: reads, writes, and runs what is added to it.
        vendors: loaded GPU vendors; their code is under a time limit and may raise.
        config: KaiwoConfig in force.
        settings: the plugin's settings in force, None when it has none.
        on_config_change: registers a listener that is called whenever either of the two changed.
        namespaces: the only namespaces whose workloads are reconciled, empty for all. Watches of kinds with
            namespaces must name them, because the operator may have rights in these alone.
        nodes_labelled: whether a loaded plugin labels nodes with their pool and GPU model.
        endings: the one place where workloads are ended early, a ``kaiwo.plugin.kit.endings.EndingService``.
        gpu_samples: what is read of GPUs, a ``kaiwo.plugin.kit.monitoring.GpuSamples``.
        quota: what the queue system says of quota, a ``kaiwo.plugin.kit.endings.QuotaService``.
    """

    manager: Manager
    vendors: tuple[GpuVendor, ...]
    config: Callable[[], ResolvedConfig]
    settings: Callable[[], BaseModel | None]
    on_config_change: Callable[[Callable[[], None]], None]
    namespaces: tuple[str, ...] = ()
    nodes_labelled: bool = False
    endings: Any = None
    gpu_samples: Any = None
    quota: Any = None


@dataclass(frozen=True, slots=True)
class ExtraController(Declaration):
    """A controller run by the host's manager.

    Attributes:
        name: short name, unique among all controllers.
        build: ``module:function``; called once with a :class:`ControllerHost` before the manager runs, adds
            watches and controllers to it.
        kinds: kinds of the plugin's own.
        rules: what it needs of the cluster.
        labels_nodes: it labels nodes with their pool and GPU model, and taints GPU nodes where KaiwoConfig
            asks for that. Without such a controller the host says which settings have no effect.
        node_labels: pure function from nodes, GPU vendors and KaiwoConfig to the labels by which the nodes
            are going to be in a pool, by the name of the node; None for a controller that labels none.
        removals: ``module:function``, called by ``kaiwo uninstall`` when no operator runs any more. It takes
            a :class:`kaiwo.plugin.kit.controllers.Client` and returns, awaited, a list of
            :class:`kaiwo.plugin.removals.Removal` in their order: what the controller made, and what it wrote
            on objects of others. None for a controller that leaves nothing behind.
    """

    name: str
    build: str
    kinds: tuple[CustomKind, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    labels_nodes: bool = False
    node_labels: NodeLabels | None = None
    removals: str | None = None
