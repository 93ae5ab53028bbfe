"""``python -m release.tools`` prints an environment with the release tools, which it makes if there is none.

The tools (twine, uv, pipx, pip-audit) are those of ``release/requirements.txt``, checked by their hashes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import cache_dir
from release.projects import ROOT

if TYPE_CHECKING:
    from pathlib import Path

REQUIREMENTS: Final = ROOT / "release" / "requirements.txt"
_SECONDS: Final = 500


def environment() -> Path:
    """The environment with the release tools.

    Raises:
        subprocess.SubprocessError: they cannot be installed.
    """
    made_of = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode() + REQUIREMENTS.read_bytes())
    target = cache_dir() / f"release-{made_of.hexdigest()[:16]}"
    done = target / "complete"
    with locked(cache_dir() / "release.lock"):
        if not done.exists():
            subprocess.run(
                [sys.executable, "-m", "venv", "--clear", "--without-pip", str(target)], check=True
            )
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
            python = ["--python", str(target / "bin" / "python")]
            flags = ["--quiet", "--require-hashes", "--only-binary", ":all:", "--no-deps"]
            command = [*pip, *python, "install", *flags, "--requirement", str(REQUIREMENTS)]
            subprocess.run(command, check=True, timeout=_SECONDS)
            done.touch()
    return target


if __name__ == "__main__":
    print(environment())
