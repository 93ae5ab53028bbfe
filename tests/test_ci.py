"""The script that CI runs."""

from __future__ import annotations

import re
from pathlib import Path

from kaiwo_sandbox.real_node.requirements import PACKAGES

ROOT = Path(__file__).parents[1]


def test_the_slice_of_the_matrix_names_files_of_the_matrix() -> None:
    """A slow machine would be the first to notice a file that has moved or has lost its marker."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (block,) = re.findall(r"^slice=\((.*?)^\)", script, flags=re.MULTILINE | re.DOTALL)
    names = [line.strip() for line in block.splitlines() if line.strip() and "#" not in line]
    assert names
    assert [name for name in names if "mark.matrix" not in (ROOT / name).read_text(encoding="utf-8")] == []


def test_ci_installs_every_package_that_a_real_node_needs() -> None:
    """A package that is missing in the script would be missing on a machine that starts from nothing."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (block,) = re.findall(r"^packages=\((.*?)^\)", script, flags=re.MULTILINE | re.DOTALL)
    assert sorted(block.split()) == sorted(PACKAGES)
