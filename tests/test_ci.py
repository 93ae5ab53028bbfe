"""The script that CI runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_slice_of_the_matrix_names_files_of_the_matrix() -> None:
    """A slow machine would be the first to notice a file that has moved or has lost its marker."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (block,) = re.findall(r"^slice=\((.*?)^\)", script, flags=re.MULTILINE | re.DOTALL)
    names = [line.strip() for line in block.splitlines() if line.strip() and "#" not in line]
    assert names
    assert [name for name in names if "mark.matrix" not in (ROOT / name).read_text(encoding="utf-8")] == []
