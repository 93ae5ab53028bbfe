"""Names and labels: what Kubernetes takes, and the keys that Kaiwo writes on what it makes."""

from kaiwo.api.config_names import SINGLETON
from kaiwo.workload.labels import (
    ADOPTED,
    DOWNLOADER,
    GPU_MODEL,
    MANAGER,
    NAME,
    RECORD,
    RUN_ID,
    TYPE,
    USER,
    WORKLOAD_TYPES,
)
from kaiwo.workload.metadata import MAX_LABEL, controller_of, derived_name, label_value, name_problem

__all__ = [
    "ADOPTED",
    "DOWNLOADER",
    "GPU_MODEL",
    "MANAGER",
    "MAX_LABEL",
    "NAME",
    "RECORD",
    "RUN_ID",
    "SINGLETON",
    "TYPE",
    "USER",
    "WORKLOAD_TYPES",
    "controller_of",
    "derived_name",
    "label_value",
    "name_problem",
]
