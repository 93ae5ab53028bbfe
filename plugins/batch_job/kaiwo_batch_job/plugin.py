"""The backend ``batch_job``: its name, its fields, the objects it works with and the rights it needs."""

from __future__ import annotations

from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import JOB
from kaiwo.plugin import hookimpl
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.rbac import PolicyRule

KAIWO_API = 1


@hookimpl
def kaiwo_backends() -> list[Backend]:
    """The backend."""
    from kaiwo.api.scalars import Opaque

    field = Field(
        "KaiwoJob",
        ("job",),
        Opaque,
        "A whole batch/v1 Job to start from: its spec is used, the common fields are merged into it, and its "
        "labels and annotations are merged onto the created object. Ignored when the job runs on Ray.",
    )
    return [
        Backend(
            name="batch_job",
            kind="KaiwoJob",
            child=JOB,
            fields=(field,),
            implementation=Lazy("kaiwo_batch_job.backend:BatchJobBackend"),
            write="create",
            patch_paths=(
                ("spec", "parallelism"),
                ("spec", "activeDeadlineSeconds"),
                ("spec", "ttlSecondsAfterFinished"),
            ),
            mutable=(
                "duration",
                "job.metadata",
                "job.spec.parallelism",
                "job.spec.activeDeadlineSeconds",
                "job.spec.ttlSecondsAfterFinished",
            ),
            pod_templates=(("job", "spec", "template"),),
            owned_paths=(("spec", "suspend"),),
            urgent=("SuccessCriteriaMet", "Complete", "Failed"),
            reads=("startTime", "completionTime", "ready"),
            requires=(JOB,),
            rules=(
                PolicyRule(
                    groups=("batch",),
                    resources=("jobs",),
                    verbs=("get", "list", "watch", "create", "patch", "delete"),
                    why="KaiwoJobs run as Jobs",
                    own_objects=True,
                ),
            ),
        )
    ]
