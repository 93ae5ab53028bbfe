"""How much a workload becomes when it is rendered: what is given once is repeated in pods and containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kaiwo.api.spec_rules import RENDERED_SIZE
from kaiwo.api.spec_size import count_values
from kaiwo.plugin.facts import Blocked
from kaiwo.workload.json_access import lenient_map, lenient_maps, value_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backends import Backend

_AFFINITY = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)
_MOUNT = 5  # values of a mount: the item, name, mountPath, readOnly, subPath


class _Repeated(NamedTuple):
    """A field whose content stands in several places of the rendered object.

    Attributes:
        path: the field.
        values: how many values it has.
        size: its bytes, as far as they are the user's own texts.
        times: in how many places it stands.
    """

    path: str
    values: int
    size: int
    times: int


def repeated_too_often(workload: Workload, backend: Backend) -> Blocked | None:
    """Why a workload is too large to be rendered: before the first container is made.

    Args:
        workload: the workload.
        backend: its backend; it says where pod templates are embedded.
    """
    blocks = workload.blocks
    templates = (
        [template for path in backend.pod_templates for template in _at(blocks, path)] if blocks else []
    )
    pods = max(len(templates), len(backend.pod_templates), 1)
    fields = _fields(workload, templates, pods)
    values = size = 0
    for field in fields:
        values += field.values * field.times
        size += field.size * field.times
    if not RENDERED_SIZE.violated(values, size):
        return None
    worst = max(fields, key=lambda field: (field.values * field.times, field.size * field.times))
    return Blocked("SpecTooLarge", f"{worst.path}: {RENDERED_SIZE.message}")


def _fields(workload: Workload, templates: Sequence[Object], pods: int) -> list[_Repeated]:
    """The fields of a workload that are given; without an embedded object each pod has one container."""
    spec = workload.spec
    specs = [lenient_map(lenient_map(template).get("spec")) for template in templates]
    containers = pods + sum(
        len(lenient_maps(pod.get(group))) for pod in specs for group in ("containers", "initContainers")
    )
    found = [
        _texts(path, texts, pods)
        for path, texts in (
            ("metadata.labels", workload.labels),
            ("metadata.annotations", workload.annotations),
            ("spec.podTemplateSpecLabels", spec.pod_template_spec_labels),
        )
        if texts
    ]
    if env := spec.env:
        values = sum(3 + count_values(variable.value_from) for variable in env)
        found.append(_Repeated("spec.env", values, sum(len(variable.value or "") for variable in env), pods))
    if secrets := spec.image_pull_secrets:
        found.append(_Repeated("spec.imagePullSecrets", 2 * len(secrets), 0, pods))
    if models := spec.gpu_models:
        terms = sum(len(lenient_maps(value_at(pod, _AFFINITY))) for pod in specs)
        found.append(_Repeated("spec.gpuModels", len(models), 0, terms))
    if volumes := spec.secret_volumes:
        found.append(_Repeated("spec.secretVolumes", _MOUNT * len(volumes), 0, containers))
    if resources := spec.resources:
        parts = (resources.requests, resources.limits, resources.claims)
        found.append(_Repeated("spec.resources", sum(len(part or ()) for part in parts), 0, containers))
    return found


def _texts(path: str, texts: Any, times: int) -> _Repeated:
    return _Repeated(path, len(texts), sum(map(len, texts.values())), times)


def _at(value: object, path: Sequence[str]) -> Iterator[Any]:
    """The values at a path, of which ``*`` stands for every item of a list."""
    if not path:
        yield value
    elif path[0] == "*":
        for item in value if isinstance(value, list) else ():
            yield from _at(item, path[1:])
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _at(value[path[0]], path[1:])
