"""The status words of a workload. No model is imported here, so that a command can read one quickly."""

from __future__ import annotations

from typing import Literal, TypeAlias

Status: TypeAlias = Literal[
    "", "PENDING", "STARTING", "RUNNING", "READY", "COMPLETE", "FAILED", "ERROR", "TERMINATING", "TERMINATED"
]
"""The empty status belongs to a workload that no operator has seen yet."""

TERMINAL: frozenset[Status] = frozenset({"COMPLETE", "FAILED", "TERMINATED"})
"""A workload with one of these never runs again."""
