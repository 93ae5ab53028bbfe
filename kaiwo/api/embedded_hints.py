"""Where fields of Kubernetes' own objects belong, which users write directly below ``spec``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.name_rules import is_ray_block

if TYPE_CHECKING:
    from collections.abc import Iterable

_PODS = (
    "affinity",
    "containers",
    "hostIPC",
    "hostNetwork",
    "initContainers",
    "nodeName",
    "nodeSelector",
    "resourceClaims",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
)
_CONTAINERS = (
    "envFrom",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "startupProbe",
    "volumeMounts",
    "workingDir",
)
_JOBS = (
    "activeDeadlineSeconds",
    "backoffLimit",
    "completionMode",
    "completions",
    "parallelism",
    "podFailurePolicy",
    "ttlSecondsAfterFinished",
)
_OWNERS = {
    **dict.fromkeys(map(str.lower, _PODS), "pods"),
    **dict.fromkeys(map(str.lower, _CONTAINERS), "containers"),
    **dict.fromkeys(map(str.lower, _JOBS), "Jobs"),
}


def embedded_hint(name: str, kind: str, blocks: Iterable[str], *, ray: bool) -> str:
    """In which embedded object a field of Kubernetes belongs; empty for other names.

    Args:
        name: of a field that ``spec`` does not have.
        kind: of the workload.
        blocks: fields for embedded objects that this kind has (``job``, ``rayJob``).
        ray: whether the workload runs on Ray, whose objects have no fields of Jobs.
    """
    owner = _OWNERS.get(name.lower())
    block = next((block for block in blocks if is_ray_block(block) == ray), None)
    if owner is None or block is None:
        return ""
    if owner != "Jobs":
        return f"a field of {owner}: write it in the pod template of spec.{block}"
    return f"a field of Jobs: write it below spec.{block}.spec" if kind == "KaiwoJob" and not ray else ""
