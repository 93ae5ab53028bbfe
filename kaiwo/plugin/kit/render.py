"""Rendering: pod templates, metadata and origins, as ``render`` of a backend needs them."""

from kaiwo.workload.metadata import child_metadata, owned, system_labels
from kaiwo.workload.pods.contributions import contributed
from kaiwo.workload.pods.entrypoint import ENTRYPOINT, command, entrypoint_text
from kaiwo.workload.pods.list_merge import merged
from kaiwo.workload.pods.origins import Origins
from kaiwo.workload.pods.resources import completed
from kaiwo.workload.pods.security import identity, restricted_container, restricted_pod
from kaiwo.workload.pods.template import PodRole, pod_template, set_metadata

__all__ = [
    "ENTRYPOINT",
    "Origins",
    "PodRole",
    "child_metadata",
    "command",
    "completed",
    "contributed",
    "entrypoint_text",
    "identity",
    "merged",
    "owned",
    "pod_template",
    "restricted_container",
    "restricted_pod",
    "set_metadata",
    "system_labels",
]
