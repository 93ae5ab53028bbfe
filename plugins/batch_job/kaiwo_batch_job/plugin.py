"""The backend ``batch_job``: its name, its fields, the objects it works with and the rights it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.adoption import Adoption
from kaiwo.plugin.backends import Backend, Field
from kaiwo.plugin.kit.kinds import JOB
from kaiwo.plugin.lazy import Lazy
from kaiwo.plugin.rbac import PolicyRule

if TYPE_CHECKING:
    from kaiwo_batch_job.backend import BatchJobBackend

KAIWO_API = 1

BACKEND: Lazy[BatchJobBackend] = Lazy("kaiwo_batch_job.backend:BatchJobBackend")

_LABELS = ("spec", "template", "metadata", "labels")

ADOPTION = Adoption(
    pod_template=("spec", "template"),
    pods=("spec", "parallelism"),
    held_by=("spec", "suspend"),
    pod_label="batch.kubernetes.io/controller-uid",
    left_out=(
        ("spec", "selector"),
        ("spec", "suspend"),
        ("spec", "template", "metadata", "creationTimestamp"),
        (*_LABELS, "controller-uid"),
        (*_LABELS, "job-name"),
        (*_LABELS, "batch.kubernetes.io/controller-uid"),
        (*_LABELS, "batch.kubernetes.io/job-name"),
    ),
)
"""How Jobs that users made are adopted."""


@hookimpl
def kaiwo_backends() -> list[Backend]:
    """The backend."""
    from kaiwo.plugin.kit.fields import Opaque

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
            implementation=BACKEND,
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
            reads=("startTime", "completionTime"),
            reads_conditions=("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed"),
            reads_without_pods=("active", "ready"),
            requires=(JOB,),
            adoption=ADOPTION,
            rules=(
                PolicyRule(
                    groups=("batch",),
                    resources=("jobs",),
                    verbs=("get", "list", "watch", "create", "patch", "delete"),
                    why="KaiwoJobs run as Jobs",
                    own_objects=True,
                    adopts=True,
                ),
                PolicyRule(
                    groups=("kaiwo.silogen.ai",),
                    resources=("kaiwojobs",),
                    verbs=("create", "delete"),
                    why="Jobs with the label managed get a KaiwoJob, which ends with its Job",
                ),
            ),
        )
    ]
