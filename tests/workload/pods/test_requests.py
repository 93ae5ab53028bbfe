"""What a pod needs of a node is counted as the scheduler does."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo.workload.pods.requests import pod_requests


def container(cpu: str, **more: Any) -> dict[str, Any]:
    """A container with a request."""
    return {"resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("500m")]}, "1500m"),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, "2"),
        ({"containers": [container("1")], "initContainers": [container("3")]}, "3"),
        ({"containers": [container("1")], "initContainers": [container("3", restartPolicy="Always")]}, "4"),
        ({"containers": [container("1")], "overhead": {"cpu": "1"}}, "2"),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, "4"),
        ({"containers": [container("1")], "resources": {"limits": {"cpu": "4"}}}, "1"),
        ({"containers": [{}], "resources": {"limits": {"cpu": "4"}}, "overhead": {"cpu": "1"}}, "5"),
    ],
)
def test_the_requests_of_a_pod_are_those_of_the_scheduler(spec: dict[str, Any], cpu: str) -> None:
    """Containers add up, init containers run before them, and what the pod has as a whole counts first."""
    assert str(pod_requests(spec)["cpu"]) == cpu
