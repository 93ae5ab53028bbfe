"""The cgroup of the real node: below it the kubelet creates those of the pods."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from kaiwo_sandbox.errors import SandboxError

ROOT = Path("/sys/fs/cgroup")
_CPUSET = ("cpuset.cpus", "cpuset.mems")
_GONE_SECONDS = 20.0


def name(sandbox: str) -> str:
    """The cgroup of a sandbox's real node."""
    return f"kaiwo-sandbox-{sandbox}"


def _is_v2(root: Path) -> bool:
    return (root / "cgroup.controllers").is_file()


def _hierarchies(root: Path) -> list[Path]:
    """The root directories of all hierarchies: one for cgroup v2, one per mounted controller for v1."""
    return [root] if _is_v2(root) else [each for each in root.iterdir() if (each / "cgroup.procs").is_file()]


def create(cgroup: str, root: Path = ROOT) -> None:
    """Create the cgroup in every hierarchy, because the kubelet creates no parent of its own cgroups.

    Raises:
        OSError: the kernel rejected it.
    """
    for hierarchy in _hierarchies(root):
        directory = hierarchy / cgroup
        directory.mkdir(exist_ok=True)
        if (directory / _CPUSET[0]).is_file() and not _is_v2(
            root
        ):  # v1 starts with none, and then no process fits
            for file in _CPUSET:
                (directory / file).write_text((hierarchy / file).read_text())
    if _is_v2(root):
        controllers = (root / "cgroup.controllers").read_text().split()
        for parent in (root, root / cgroup):
            for controller in controllers:
                with contextlib.suppress(OSError):
                    (parent / "cgroup.subtree_control").write_text(f"+{controller}")


def remove(cgroup: str, root: Path = ROOT) -> None:
    """Remove the cgroup and all below it; the kernel allows it once their processes have ended.

    Raises:
        SandboxError: a cgroup remains.
    """
    if not root.is_dir():
        return
    deadline = time.monotonic() + _GONE_SECONDS
    while True:
        remaining = [
            directory
            for hierarchy in _hierarchies(root)
            if (hierarchy / cgroup).is_dir()
            for directory in _deepest_first(hierarchy / cgroup)
            if not _removed(directory)
        ]
        if not remaining:
            return
        if time.monotonic() > deadline:
            raise SandboxError(
                f"cgroup {remaining[0]} still has processes",
                hint=f"end the processes in {remaining[0]}/cgroup.procs, then run kaiwo sandbox down again",
            )
        time.sleep(0.05)


def _deepest_first(directory: Path) -> list[Path]:
    found = []
    for child in directory.iterdir():
        if child.is_dir():
            found += _deepest_first(child)
    return [*found, directory]


def _removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
