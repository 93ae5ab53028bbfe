"""The workload that a plugin gets, the configuration of the cluster, and conditions."""

from kaiwo.api.conditions import Condition, Truth, find_condition, merge_conditions
from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.api.status_words import TERMINAL
from kaiwo.api.workload import Workload

__all__ = [
    "KAIWO_JOB",
    "KAIWO_SERVICE",
    "TERMINAL",
    "Condition",
    "ResolvedConfig",
    "Truth",
    "Workload",
    "find_condition",
    "merge_conditions",
]
