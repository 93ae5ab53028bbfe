"""Golden files: expected output kept beside the tests, reviewed like code."""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "KAIWO_GOLDEN"
"""Set to ``write`` to write golden files instead of comparing; read the diff before committing it."""


def assert_golden(text: str, path: Path) -> None:
    """Compare text with a file.

    Raises:
        AssertionError: they differ, or there is no such file; with the difference and how to write it.
    """
    if os.environ.get(VARIABLE) == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    advice = f"if this is what you want, run the test once with {VARIABLE}=write and read the diff"
    if not path.exists():
        raise AssertionError(f"{path} does not exist; {advice}")
    expected = path.read_text(encoding="utf-8")
    if text != expected:
        lines = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), str(path), "what the test got", lineterm=""
        )
        raise AssertionError("\n".join([f"{path} differs; {advice}", *lines]))
