"""The table of tested versions names what the tests run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kaiwo.install.render import SCHEDULER_IMAGE
from kaiwo_sandbox import pytest_plugin
from kaiwo_sandbox.builds.binary_sets import KUBERNETES
from kaiwo_sandbox.generations import NEWER, OLDER

PAGE = Path(__file__).parents[2] / "docs" / "production.md"
SANDBOX = Path(__file__).parents[2] / "plugins" / "sandbox" / "README.md"


def row(start: str, page: Path = PAGE) -> list[str]:
    """The cells of the row of the table that starts with a text."""
    (line,) = [line for line in page.read_text().splitlines() if line.startswith(f"| {start}")]
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


def test_the_readme_of_the_sandbox_names_the_releases_that_it_runs() -> None:
    """Of the addons both generations, and the Kubernetes of both."""
    for component, addon in (("Kueue", "kueue"), ("KubeRay", "kuberay"), ("AppWrapper", "appwrapper")):
        found = row(f"{component} |", SANDBOX)
        assert found == [component, NEWER.versions[addon], OLDER.versions[addon]]
    assert f"\nKubernetes {KUBERNETES.removeprefix('v')}, etcd " in SANDBOX.read_text()


def test_the_readme_of_the_sandbox_lists_its_fixtures() -> None:
    """Whoever writes a test with it finds each fixture by its name."""
    section = SANDBOX.read_text().partition("\n## In tests\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\* `(\w+)`:", section, flags=re.MULTILINE)
    source = Path(pytest_plugin.__file__).read_text()
    defined = re.findall(r"^@pytest\.fixture.*\n(?:async )?def (\w+)\(", source, flags=re.MULTILINE)
    assert sorted(listed) == sorted(defined)
    assert len(listed) == 7
    assert "adds seven fixtures" in section
