"""A workload as the cluster returns it, and the time at which it is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def now() -> datetime:
    """90 seconds after the workload's start."""
    return datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def workload() -> Callable[..., dict[str, Any]]:
    """Build a KaiwoJob that is running; arguments replace its top-level fields."""

    def build(**over: Any) -> dict[str, Any]:
        return {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": "KaiwoJob",
            "metadata": {
                "name": "train",
                "namespace": "team",
                "creationTimestamp": "2026-01-31T11:58:00Z",
                "managedFields": [{"manager": "x"}],
            },
            "spec": {"gpus": 4, "user": "jane@example.org", "clusterQueue": "blue"},
            "status": {
                "status": "RUNNING",
                "reason": "JobRunning",
                "message": "one pod runs",
                "startTime": "2026-01-31T11:58:30Z",
            },
        } | over

    return build
