"""promtool, the checker of Prometheus."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_INSTALL = (
    "apt-get update && apt-get -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends prometheus"
)


@pytest.fixture(scope="session")
def promtool() -> Callable[..., None]:
    """Run promtool; a message of it fails the test.

    It comes with Debian's package prometheus, which is installed where that is possible.
    """
    if shutil.which("promtool") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["/bin/sh", "-c", _INSTALL], check=False, capture_output=True, timeout=300)
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed; it is in Debian's package prometheus")

    def run(*arguments: str | Path, stdin: bytes = b"") -> None:
        done = subprocess.run(
            [program, *map(str, arguments)], input=stdin, check=False, capture_output=True, timeout=60
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode()

    return run
