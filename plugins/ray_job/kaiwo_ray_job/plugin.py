"""The backend ``ray_job``: its name, its fields, the objects it works with and the rights it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import Backend, Field
from kaiwo.plugin.kit.kinds import JOB
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.rbac import PolicyRule
from kaiwo_ray_job.kinds import RAY_CLUSTER, RAY_JOB

if TYPE_CHECKING:
    from kaiwo_ray_job.backend import RayJobBackend

KAIWO_API = 1

BACKEND: Lazy[RayJobBackend] = Lazy("kaiwo_ray_job.backend:RayJobBackend")

MAX_NAME_LENGTH = 47
"""KubeRay appends its own suffixes; a RayJob with a longer name never gets a status."""


@hookimpl
def kaiwo_backends() -> list[Backend]:
    """The backend."""
    from kaiwo.plugin.kit.fields import Opaque

    field = Field(
        "KaiwoJob",
        ("rayJob",),
        Opaque,
        "A whole ray.io/v1 RayJob to start from: its spec is used, the common fields are merged into it, and "
        "its labels and annotations are merged onto the created object. If it is given, a RayJob is created "
        "even when ray is false.",
    )
    return [
        Backend(
            name="ray_job",
            kind="KaiwoJob",
            child=RAY_JOB,
            fields=(field,),
            implementation=BACKEND,
            max_name_length=MAX_NAME_LENGTH,
            name_pattern="dns1035",
            write="create",
            patch_paths=(("spec", "activeDeadlineSeconds"), ("spec", "ttlSecondsAfterFinished")),
            mutable=(
                "duration",
                "rayJob.metadata",
                "rayJob.spec.activeDeadlineSeconds",
                "rayJob.spec.ttlSecondsAfterFinished",
            ),
            pod_templates=(
                ("rayJob", "spec", "rayClusterSpec", "headGroupSpec", "template"),
                ("rayJob", "spec", "rayClusterSpec", "workerGroupSpecs", "*", "template"),
                ("rayJob", "spec", "submitterPodTemplate"),
            ),
            owned_paths=(("spec", "suspend"),),
            pod_owners=(RAY_CLUSTER, JOB),
            requires=(RAY_JOB,),
            takes=("head_pod_memory",),
            rules=(
                PolicyRule(
                    groups=("ray.io",),
                    resources=("rayjobs",),
                    verbs=("get", "list", "watch", "create", "patch", "delete"),
                    why="KaiwoJobs on Ray run as RayJobs",
                    own_objects=True,
                ),
                PolicyRule(
                    ("ray.io",), ("rayclusters",), ("list", "watch"), "pods of a RayJob belong to its cluster"
                ),
                PolicyRule(
                    ("batch",), ("jobs",), ("list", "watch"), "the pod that submits a RayJob belongs to a Job"
                ),
            ),
        )
    ]
