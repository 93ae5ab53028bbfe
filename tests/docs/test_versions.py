"""The table of tested versions names what the tests run."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaiwo.install.render import SCHEDULER_IMAGE
from kaiwo_sandbox.builds.binary_sets import KUBERNETES
from kaiwo_sandbox.generations import NEWER, OLDER

PAGE = Path(__file__).parents[2] / "docs" / "production.md"


def row(start: str) -> list[str]:
    """The cells of the row of the table that starts with a text."""
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("component", "addon"), [("Kueue", "kueue"), ("KubeRay", "kuberay"), ("AppWrapper", "appwrapper")]
)
def test_the_page_names_both_tested_releases_of_a_controller(component: str, addon: str) -> None:
    """The newer one first, as the page says."""
    assert row(component)[1] == f"{NEWER.versions[addon]}, {OLDER.versions[addon]}"


def test_the_page_names_the_tested_kubernetes() -> None:
    """The API server of the tests, and the scheduler that is rendered."""
    version = KUBERNETES.removeprefix("v")
    assert row("Kubernetes")[1] == version
    assert row("kube-scheduler of")[1] == version
    assert SCHEDULER_IMAGE.endswith(f":{KUBERNETES}")
