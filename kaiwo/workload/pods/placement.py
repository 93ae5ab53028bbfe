"""Where pods may run: tolerations and node affinity for GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.quantity import Quantity, quantity
from kaiwo.workload.gpus.resource_keys import is_gpu
from kaiwo.workload.json_access import as_map, as_maps, lenient_map
from kaiwo.workload.labels import GPU_MODEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import Resolved
    from kaiwo.workload.pods.origins import Origins


_NONE = Quantity(0)
_ZERO_IS_NONE_SINCE = 4
"""The first version of the generated templates in which a pod that requests 0 GPUs is none with GPUs."""


def requests_gpus(pod: Object, vendor_keys: Sequence[str], *, zero: bool = False) -> bool:
    """Whether any container of a pod spec, init containers included, requests a GPU.

    Args:
        pod: the pod spec.
        vendor_keys: resource keys that are GPUs.
        zero: whether a request of 0 GPUs counts as well.
    """
    for group in ("containers", "initContainers"):
        for container in pod.get(group) or ():
            resources = lenient_map(container.get("resources"))
            for side in ("requests", "limits"):
                for key, value in lenient_map(resources.get(side)).items():
                    if is_gpu(key, vendor_keys) and (zero or quantity(value) != _NONE):
                        return True
    return False


def place(pod: Object, resolved: Resolved, vendor_keys: Sequence[str], path: str, origins: Origins) -> bool:
    """Let a pod that requests GPUs run on GPU nodes, and only on the requested models, in place.

    Returns:
        Whether the pod requests GPUs; one that does not is left as it is.

    Raises:
        SpecError: the pod's own tolerations or affinity have an impossible shape.
    """
    if not requests_gpus(pod, vendor_keys, zero=resolved.template_version < _ZERO_IS_NONE_SINCE):
        return False
    if resolved.gpu_taint_key:
        wanted = {"key": resolved.gpu_taint_key, "operator": "Exists", "effect": "NoSchedule"}
        own = as_maps(pod.get("tolerations"), f"{path}.tolerations")
        if wanted not in own:
            pod["tolerations"] = [*own, wanted]
            origins.note(f"{path}.tolerations[{len(own)}]", "config", "KaiwoConfig nodes.defaultGpuTaintKey")
    if resolved.allocation.models:
        _require_models(pod, resolved.allocation.models, f"{path}.affinity")
        origins.note(f"{path}.affinity.nodeAffinity", "user", "spec.gpuModels")
    return True


def _require_models(pod: Object, models: Sequence[str], path: str) -> None:
    affinity = dict(as_map(pod.get("affinity"), path))
    node = dict(as_map(affinity.get("nodeAffinity"), f"{path}.nodeAffinity"))
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    required = dict(as_map(node.get(name), f"{path}.nodeAffinity.{name}"))
    wanted = {"key": GPU_MODEL, "operator": "In", "values": list(models)}
    where = f"{path}.nodeAffinity.{name}.nodeSelectorTerms"
    # Terms are alternatives, so the requirement goes into each of them.
    terms = []
    for position, term in enumerate(as_maps(required.get("nodeSelectorTerms"), where)):
        expressions = as_maps(term.get("matchExpressions"), f"{where}[{position}].matchExpressions")
        # A term without requirements matches no node, and must not begin to match any.
        empty = not expressions and not term.get("matchFields")
        terms.append(term if empty else {**term, "matchExpressions": [*expressions, wanted]})
    required["nodeSelectorTerms"] = terms or [{"matchExpressions": [wanted]}]
    node[name] = required
    affinity["nodeAffinity"] = node
    pod["affinity"] = affinity
