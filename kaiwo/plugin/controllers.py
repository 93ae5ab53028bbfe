"""Controllers that a plugin brings along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel

    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.rbac import PolicyRule


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
    """

    resource: Resource
    spec: type[BaseModel]
    status: type[BaseModel]
    short_names: tuple[str, ...] = ()
    printer_columns: tuple[dict[str, str | int], ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class ExtraController:
    """A controller run by the host's engine.

    Attributes:
        name: short name, unique among all controllers.
        build: ``module:function``; called with the host's :class:`kaiwo.engine.engine.Engine` and the
            plugin's settings, registers an engine controller.
        kinds: kinds of the plugin's own.
        rules: what it needs of the cluster.
        settings: model of ``spec.plugins.<plugin name>`` in KaiwoConfig.
    """

    name: str
    build: str
    kinds: tuple[CustomKind, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    settings: type[BaseModel] | None = None
