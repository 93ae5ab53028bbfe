"""The declaration of the backend: its name, its field, the objects it works with and the rights it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import Backend, Field
from kaiwo.plugin.kit.kinds import JOB, Resource
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.rbac import PolicyRule

if TYPE_CHECKING:
    from kaiwo_backend_jobset.backend import JobSetBackend

KAIWO_API = "1.0"

BACKEND: Lazy[JobSetBackend] = Lazy("kaiwo_backend_jobset.backend:JobSetBackend")

JOB_SET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")


@hookimpl
def kaiwo_backends() -> list[Backend]:
    """The backend ``jobset``; users write ``spec.jobSet``."""
    from kaiwo.plugin.kit.fields import Opaque

    field = Field(
        "KaiwoJob",
        ("jobSet",),
        Opaque,
        "A whole jobset.x-k8s.io/v1alpha2 JobSet to start from: its spec is used, the common fields are "
        "merged into its pods, and its labels and annotations are merged onto the created object. An empty "
        "object creates a JobSet with spec.replicas workers.",
    )
    return [
        Backend(
            name="jobset",
            kind="KaiwoJob",
            child=JOB_SET,
            fields=(field,),
            implementation=BACKEND,
            name_pattern="dns1035",
            write="create",
            patch_paths=(("spec", "ttlSecondsAfterFinished"),),
            mutable=("duration", "jobSet.metadata", "jobSet.spec.ttlSecondsAfterFinished"),
            pod_templates=(("jobSet", "spec", "replicatedJobs", "*", "template", "spec", "template"),),
            owned_paths=(("spec", "suspend"),),
            pod_owners=(JOB,),
            urgent=("Completed", "Failed", "Suspended"),
            requires=(JOB_SET,),
            rules=(
                PolicyRule(
                    groups=("jobset.x-k8s.io",),
                    resources=("jobsets",),
                    verbs=("get", "list", "watch", "create", "patch", "delete"),
                    why="KaiwoJobs with a jobSet run as JobSets",
                    own_objects=True,
                ),
                PolicyRule(("batch",), ("jobs",), ("list", "watch"), "pods of a JobSet belong to its Jobs"),
            ),
        )
    ]
