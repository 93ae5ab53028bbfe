"""Renders CustomResourceDefinitions from the models; names the kinds."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import yaml

from kaiwo.api import kaiwoconfig, spec_rules, workload
from kaiwo.api.crd_compat import keep_known
from kaiwo.api.crd_versions import VERSION as VERSION_ANNOTATION
from kaiwo.api.crd_versions import own_version
from kaiwo.api.kind_models import KINDS, Kind, compose_spec, status_model
from kaiwo.api.schema import structural
from kaiwo.engine.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic import BaseModel

    from kaiwo.api.plugin_fields import Field, WorkloadKind
    from kaiwo.engine.resource import Object

VERSION = "v1alpha1"

KAIWO_JOB: Final = Resource(workload.GROUP, VERSION, "KaiwoJob", "kaiwojobs")
KAIWO_SERVICE: Final = Resource(workload.GROUP, VERSION, "KaiwoService", "kaiwoservices")
KAIWO_CONFIG: Final = Resource(kaiwoconfig.GROUP, VERSION, "KaiwoConfig", "kaiwoconfigs", namespaced=False)

WORKLOADS: Final[Mapping[WorkloadKind, Resource]] = MappingProxyType(
    {"KaiwoJob": KAIWO_JOB, "KaiwoService": KAIWO_SERVICE}
)
"""The kinds of workloads, by name."""


def workload_kind(name: str) -> WorkloadKind | None:
    """The kind of workloads with a name, None where there is no such; records may have any text."""
    return next((kind for kind in WORKLOADS if kind == name), None)


_RESOURCES: Final[dict[Kind, Resource]] = {
    "KaiwoJob": KAIWO_JOB,
    "KaiwoService": KAIWO_SERVICE,
    "KaiwoConfig": KAIWO_CONFIG,
}
_SHORT_NAMES: Final[dict[Kind, tuple[str, ...]]] = {
    "KaiwoJob": ("kj",),
    "KaiwoService": ("ks",),
    "KaiwoConfig": (),
}
_DESCRIPTIONS: Final[dict[Kind, str]] = {
    "KaiwoJob": "KaiwoJob is an AI workload that runs to its end, as a batch Job or as a RayJob.",
    "KaiwoService": "KaiwoService is an AI workload that serves, as a Deployment or as a RayService.",
    "KaiwoConfig": "KaiwoConfig is the operator's configuration; only the one named kaiwo counts.",
}


def _column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> Object:
    return {"name": name, "type": kind, "jsonPath": path, **({"priority": 1} if wide else {})}


_AGE = _column("Age", ".metadata.creationTimestamp", "date")
_WORKLOAD_COLUMNS = (
    _column("Status", ".status.status"),
    _column("Reason", ".status.reason"),
    _column("GPUs", ".status.allocation.gpus", "integer"),
    _column("Queue", ".status.allocation.queue"),
    _column("User", ".spec.user", wide=True),
    _column("Start", ".status.startTime", "date"),
)
_COLUMNS: Final[dict[Kind, tuple[Object, ...]]] = {
    "KaiwoJob": (*_WORKLOAD_COLUMNS, _column("Completion", ".status.completionTime", "date"), _AGE),
    "KaiwoService": (*_WORKLOAD_COLUMNS, _AGE),
    "KaiwoConfig": (_column("Ready", '.status.conditions[?(@.type=="Ready")].status'), _AGE),
}


@dataclass(frozen=True, slots=True)
class CrdKind:
    """A kind to render a CustomResourceDefinition for.

    Attributes:
        resource: group, version, kind, plural and scope.
        spec: model of ``spec``.
        status: model of ``status``.
        description: for ``kubectl explain``.
        short_names: for kubectl.
        columns: as in ``additionalPrinterColumns``.
        object_rules: CEL rules at the root of the object.
        spec_rules: CEL rules of ``spec``.
    """

    resource: Resource
    spec: type[BaseModel]
    status: type[BaseModel]
    description: str = ""
    short_names: tuple[str, ...] = ()
    columns: tuple[Mapping[str, Any], ...] = ()
    object_rules: tuple[Object, ...] = ()
    spec_rules: tuple[Object, ...] = ()


def render_crds(
    fields: Iterable[Field],
    settings: Mapping[str, type[BaseModel]] | None = None,
    previous: Sequence[Object] | None = None,
    kinds: Iterable[CrdKind] = (),
) -> list[Object]:
    """The definitions (CRDs) of the host and of plugins, in the order of their names.

    What ``previous`` declares is never taken out: a field that nobody contributes any more stays as an
    opaque value, and a definition of Kaiwo's groups that is not rendered any more is returned as it was.
    The API server would otherwise prune the data of live objects at their next write.

    Args:
        fields: what plugins contribute to the host's kinds.
        settings: plugin name to the model of its section in KaiwoConfig.
        previous: definitions that are live in the cluster or were rendered before.
        kinds: kinds of plugins' own.

    Raises:
        kaiwo.api.kind_models.FieldConflict: two contributions declare the same field.
    """
    contributions = tuple(fields)
    rendered = [render_crd(host_kind(kind, contributions, settings)) for kind in KINDS]
    rendered += [render_crd(kind) for kind in kinds]
    return keep_known(rendered, previous or ())


def host_kind(
    kind: Kind, fields: Iterable[Field], settings: Mapping[str, type[BaseModel]] | None = None
) -> CrdKind:
    """One of the host's kinds with what plugins contribute to it."""
    contributions = [field for field in fields if field.kind == kind]
    blocks = sorted({field.path[0] for field in contributions if len(field.path) == 1})
    is_workload = kind != "KaiwoConfig"
    return CrdKind(
        resource=_RESOURCES[kind],
        spec=compose_spec(kind, contributions, settings),
        status=status_model(kind),
        description=_DESCRIPTIONS[kind],
        short_names=_SHORT_NAMES[kind],
        columns=_COLUMNS[kind],
        object_rules=tuple(spec_rules.object_validations(blocks)) if is_workload else (),
        spec_rules=tuple(spec_rules.spec_validations(blocks)) if is_workload else (),
    )


def render_crd(kind: CrdKind) -> Object:
    """The CustomResourceDefinition of one kind."""
    resource = kind.resource
    spec = {**structural(kind.spec), "default": {}}
    if kind.spec_rules:
        spec["x-kubernetes-validations"] = list(kind.spec_rules)
    status = structural(kind.status, defaults=False)
    schema: Object = {
        "description": kind.description,
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "description": f"{resource.api_version}"},
            "kind": {"type": "string", "description": resource.kind},
            # Naming the name lets a rule say that it is the name that is wrong.
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": spec,
            "status": status,
        },
    }
    if kind.object_rules:
        schema["x-kubernetes-validations"] = list(kind.object_rules)
    version: Object = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    if kind.columns:
        version["additionalPrinterColumns"] = [dict(column) for column in kind.columns]
    names: Object = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "categories": ["kaiwo"],
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "annotations": {VERSION_ANNOTATION: own_version()},
        },
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Writes no anchors: readers of CustomResourceDefinitions expect none."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (signature of PyYAML)
        return True


def dump(crds: Iterable[Object]) -> str:
    """Definitions as YAML documents, stable to the byte for equal input."""
    return "".join(
        "---\n" + yaml.dump(crd, Dumper=_Dumper, sort_keys=True, width=110, allow_unicode=True)
        for crd in crds
    )
