"""The Helm chart is generated from what ``kaiwo manifests`` renders."""

from __future__ import annotations

import pytest

from charts.generate.__main__ import main


@pytest.mark.timeout(600)  # it renders the manifests of every combination of options
def test_the_chart_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    """A change of the rendered objects reaches the chart in the same commit."""
    assert main(["--check"]) == 0, capsys.readouterr().err
