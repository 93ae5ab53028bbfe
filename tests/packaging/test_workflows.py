"""What runs on a forge has no rights there and asks about known vulnerabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCAFFOLD = (
    ROOT / "kaiwo" / "cli" / "plugin_scaffold" / "templates" / "common" / "workflows" / "test.yaml.tmpl"
)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


def read(path: Path) -> dict[Any, Any]:
    """A workflow. PyYAML reads the key ``on`` as True."""
    found: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8").replace("@@workflow_steps@@", ""))
    return found


@pytest.mark.parametrize("path", [*WORKFLOWS, SCAFFOLD], ids=lambda path: path.name)
def test_a_workflow_has_a_read_only_token_and_no_secrets(path: Path) -> None:
    """A pull request of a stranger runs code with them, and must gain nothing."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert not [job for job in workflow["jobs"].values() if "permissions" in job]
    assert not {"pull_request_target", "workflow_run"} & set(workflow[True])
    assert "secrets." not in path.read_text(encoding="utf-8")


def test_known_vulnerabilities_are_asked_for_on_every_change() -> None:
    """Where a vulnerability service can be reached, which is not so everywhere."""
    workflow = read(ROOT / ".github" / "workflows" / "wheels.yml")
    assert "pull_request" in workflow[True]
    assert {"run": "make audit"} in workflow["jobs"]["wheels"]["steps"]
