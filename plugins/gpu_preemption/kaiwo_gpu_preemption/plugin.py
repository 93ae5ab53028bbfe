"""The plugin ``gpu_preemption``: tracks the use of GPUs of any workload, and takes idle ones back."""

from __future__ import annotations

from kaiwo.plugin import hookimpl
from kaiwo.plugin.controllers import CustomKind, ExtraController
from kaiwo.plugin.rbac import PolicyRule
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD

KAIWO_API = 1

_READ = ("get", "list", "watch")
_WHY_OWNERS = "the root owner of a pod with GPUs is found"
_WHY_DELETE = "a workload with idle GPUs is deleted where its annotations ask for that"
_RULES = (
    PolicyRule(("",), ("namespaces",), _READ, "annotations of a namespace hold for its workloads"),
    PolicyRule(("",), ("nodes",), _READ, "free GPUs count before idle ones are taken back"),
    PolicyRule(("",), ("pods",), _READ, "pods with GPUs are tracked", namespaced=True),
    PolicyRule(("",), ("pods",), ("delete",), _WHY_DELETE, namespaced=True),
    PolicyRule(("apps",), ("replicasets",), ("get",), _WHY_OWNERS, namespaced=True),
    PolicyRule(("apps",), ("deployments", "statefulsets"), ("get", "delete"), _WHY_DELETE, namespaced=True),
    PolicyRule(("batch",), ("jobs",), ("get", "delete"), _WHY_DELETE, namespaced=True),
    PolicyRule(("batch",), ("cronjobs",), ("get",), _WHY_OWNERS, namespaced=True),
    PolicyRule(("jobset.x-k8s.io",), ("jobsets",), ("get",), _WHY_OWNERS, namespaced=True),
    PolicyRule(
        ("ray.io",), ("rayclusters", "rayjobs", "rayservices"), ("get", "delete"), _WHY_DELETE,
        namespaced=True,
    ),
    PolicyRule(("workload.codeflare.dev",), ("appwrappers",), ("get",), _WHY_OWNERS, namespaced=True),
    PolicyRule(
        ("kaiwo.silogen.ai",),
        ("gpuworkloads",),
        (*_READ, "create", "patch", "delete"),
        "the use of GPUs is recorded",
        namespaced=True,
    ),
    PolicyRule(
        ("kaiwo.silogen.ai",), ("gpuworkloads/status",), ("patch",), "the use of GPUs is recorded",
        namespaced=True,
    ),
)  # fmt: skip


@hookimpl
def kaiwo_controllers() -> list[ExtraController]:
    """The controller that tracks workloads with GPUs, and the kind of its records."""
    from kaiwo_gpu_preemption.models import GpuWorkloadSpec, GpuWorkloadStatus

    kind = CustomKind(
        resource=GPU_WORKLOAD,
        spec=GpuWorkloadSpec,
        status=GpuWorkloadStatus,
        short_names=("gpuwl",),
        printer_columns=(
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Utilization", "type": "number", "jsonPath": ".status.aggregatedUtilization"},
            {"name": "Idle Since", "type": "date", "jsonPath": ".status.idleSince"},
            {"name": "Owner", "type": "string", "jsonPath": ".spec.workloadRef.kind"},
            {"name": "OwnerName", "type": "string", "jsonPath": ".spec.workloadRef.name"},
        ),
        description="GpuWorkload says how a workload uses its GPUs, and what became of it when they were "
        "idle; the operator writes it.",
    )
    return [
        ExtraController(
            name="gpu-preemption",
            build="kaiwo_gpu_preemption.controller:build",
            kinds=(kind,),
            rules=_RULES,
        )
    ]
