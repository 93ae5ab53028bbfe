"""Every line of the operator's log about a workload has its key as fields."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

_TEXT = re.compile(r" kind=(?P<kind>\S+) namespace=(?P<namespace>\S+) name=(?P<name>\S+)$")


@pytest.mark.parametrize("form", ["json", "text"])
async def test_every_line_about_a_workload_has_its_key(operator: Start, lab: Any, form: str) -> None:
    """Of jobs that complete, that cannot run, and that the API server rejects."""
    process = await operator(args=("--log-format", form))
    names = ("completes", "cannot-run", "rejected")
    await lab.submit("completes", pods={"kaiwo-sandbox/run-time": "100ms"})
    await lab.submit("cannot-run", gpus=1, gpuVendor="nobody")
    await lab.submit(
        "rejected", env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "no"}}}]
    )
    await lab.reaches("completes", "COMPLETE")
    for name in names[1:]:
        await lab.reaches(name, "ERROR")

    about: dict[str, int] = dict.fromkeys(names, 0)
    for line in process.lines:
        found = next((name for name in names if f"{lab.namespace}/{name}" in line), None)
        if found is None:
            continue
        about[found] += 1
        assert key_of(line, form) == ("KaiwoJob", lab.namespace, found), line
    assert all(about.values()), about


def key_of(line: str, form: str) -> tuple[str, str, str] | None:
    """Kind, namespace and name from the fields of a line."""
    if form == "json":
        fields = json.loads(line)
        return fields.get("kind"), fields.get("namespace"), fields.get("name")
    match = _TEXT.search(line)
    return (match["kind"], match["namespace"], match["name"]) if match else None
