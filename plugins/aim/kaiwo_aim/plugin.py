"""The plugin ``aim``: defaults for a namespace from AIMNamespaceConfig."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.controllers import CustomKind, ExtraController
from kaiwo.plugin.namespace_defaults import NamespaceDefaults
from kaiwo.plugin.rbac import PolicyRule
from kaiwo_aim.kinds import HTTP_ROUTE, NAMESPACE_CONFIG

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.namespace_defaults import DefaultValues

KAIWO_API = "1.0"

_READ = ("get", "list", "watch")
_CONFIGS = PolicyRule(
    (NAMESPACE_CONFIG.group,),
    (NAMESPACE_CONFIG.plural,),
    _READ,
    "defaults for the workloads of a namespace",
    namespaced=True,
)
_RULES = (
    _CONFIGS,
    PolicyRule(
        (NAMESPACE_CONFIG.group,),
        (f"{NAMESPACE_CONFIG.plural}/status",),
        ("patch",),
        "its status says whether it is in use and valid",
        namespaced=True,
    ),
    PolicyRule(
        (HTTP_ROUTE.group,),
        (HTTP_ROUTE.plural,),
        (*_READ, "create", "patch", "delete"),
        "KaiwoServices are reached through a Gateway",
        own_objects=True,
        namespaced=True,
    ),
    PolicyRule(("",), ("services",), _READ, "a route needs the port of a Service", namespaced=True),
)


def read_defaults(obj: Object) -> DefaultValues:
    """The defaults of an AIMNamespaceConfig."""
    from kaiwo_aim.defaults import default_values

    return default_values(obj)


@hookimpl
def kaiwo_namespace_defaults() -> list[NamespaceDefaults]:
    """What workloads get of it."""
    return [NamespaceDefaults(name="aim", kind=NAMESPACE_CONFIG, read=read_defaults, rules=(_CONFIGS,))]


@hookimpl
def kaiwo_controllers() -> list[ExtraController]:
    """The kind with its status, and the routes."""
    from kaiwo_aim.models import NamespaceConfigSpec, NamespaceConfigStatus

    in_use = '.status.conditions[?(@.type=="InUse")].status'
    valid = '.status.conditions[?(@.type=="Valid")].status'
    kind = CustomKind(
        resource=NAMESPACE_CONFIG,
        spec=NamespaceConfigSpec,
        status=NamespaceConfigStatus,
        short_names=("aimns",),
        printer_columns=(
            {"name": "In Use", "type": "string", "jsonPath": in_use},
            {"name": "Valid", "type": "string", "jsonPath": valid},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ),
        description="Credentials, pull secrets and a Gateway for the workloads of its namespace.",
    )
    return [ExtraController(name="aim", build="kaiwo_aim.controllers:build", kinds=(kind,), rules=_RULES)]
