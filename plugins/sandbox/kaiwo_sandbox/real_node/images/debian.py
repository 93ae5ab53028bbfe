"""A plain Debian with Python as the base of images, for machines without a container registry."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import cache_dir, make_private
from kaiwo_sandbox.real_node.images import chroot

RELEASE: Final = "trixie"
PACKAGES: Final = ("ca-certificates", "python3", "python3-venv")
_FORMAT: Final = "1"
_PROGRAM: Final = "debootstrap"


def obstacle() -> str:
    """Why there can be no such base on this machine; empty if there can."""
    if reason := chroot.obstacle():
        return reason
    return "" if shutil.which(_PROGRAM) else f"{_PROGRAM} is not installed"


def base() -> Path:
    """The files of the base, in the cache.

    Raises:
        SandboxError: it cannot be made.
    """
    target = make_private(cache_dir()) / "images" / f"debian-{RELEASE}-{_FORMAT}"
    with locked(cache_dir() / "debian.lock"):
        if not target.is_dir():
            target.parent.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="new-", dir=target.parent) as temporary:
                fresh = Path(temporary, "root")
                _bootstrap(fresh)
                fresh.rename(target)
    return target


def _bootstrap(root: Path) -> None:
    command = [_PROGRAM, "--variant=minbase", f"--include={','.join(PACKAGES)}", RELEASE, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SandboxError(
            f"{_PROGRAM} failed with exit code {done.returncode}",
            detail="\n".join((done.stdout + done.stderr).splitlines()[-20:]),
            hint="check that Debian's packages can be reached",
        )
    # What belongs to the machine that made it, and what is only needed to install packages.
    for name in ("resolv.conf", "hostname"):
        (root / "etc" / name).write_text("", encoding="utf-8")
    for name in ("var/cache", "var/log", "var/lib/apt/lists"):
        shutil.rmtree(root / name)
        (root / name).mkdir()
    for compiled in root.rglob("__pycache__"):
        shutil.rmtree(compiled)
