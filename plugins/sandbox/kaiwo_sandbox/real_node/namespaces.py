"""Start the namespaces of the real node, and run programs in them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox import process, readiness
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.real_node import init
from kaiwo_sandbox.real_node.requirements import PATH, path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo_sandbox.process import Process

INIT = "real-node"
"""Name of the init process among the programs of the sandbox."""

_FORK_SECONDS = 20.0


def start(directory: Path, files: Path) -> Process:
    """Start the namespaces and return their init process, when their mounts are ready.

    Args:
        directory: the sandbox's directory.
        files: the node's directory in it.

    Raises:
        SandboxError: the kernel allows no namespaces, or a mount failed.
    """
    files.mkdir(mode=0o755)
    command = [
        path_of("unshare"), "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child",
        "--mount-proc", sys.executable, "-m", init.__name__, str(files),
    ]  # fmt: skip
    # util-linux forks into the new process namespace; the init process is the child.
    started = _child(process.start(INIT, command, directory=directory, environment={"PATH": PATH}), directory)
    readiness.wait_until(
        "the real node's namespaces",
        (files / init.READY_FILE).exists,
        directory=directory,
        program=started,
        hint="the real node needs CAP_SYS_ADMIN, overlayfs and the mount, network and process namespaces",
    )
    return started


def command(pid: int, arguments: Sequence[str]) -> list[str]:
    """The command that runs a program in the namespaces of the init process `pid`."""
    return [path_of("nsenter"), "--target", str(pid), "--mount", "--net", "--pid", "--", *arguments]


def run(pid: int, arguments: Sequence[str], *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a program in the namespaces to its end.

    Raises:
        SandboxError: it failed, and `check` is true.
    """
    environment = {"PATH": PATH}
    completed = subprocess.run(
        command(pid, arguments), capture_output=True, text=True, check=False, env=environment
    )
    if check and completed.returncode != 0:
        raise SandboxError(
            f"{' '.join(arguments)} failed in the real node with exit code {completed.returncode}",
            detail=(completed.stderr or completed.stdout).strip(),
        )
    return completed


def start_program(name: str, pid: int, arguments: Sequence[str], *, directory: Path) -> Process:
    """Start a program in the namespaces, with a log and a pid file as `process.start` does.

    Raises:
        SandboxError: the program cannot be executed.
    """
    entered = process.start(name, command(pid, arguments), directory=directory, environment={"PATH": PATH})
    return _child(entered, directory)


def _child(parent: Process, directory: Path) -> Process:
    """Record the only child of a process instead of it; the parent only waits for the child."""
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    deadline = time.monotonic() + _FORK_SECONDS
    while parent.alive() and time.monotonic() < deadline:
        found = children.read_text(encoding="ascii").split()
        if found:
            return process.record(parent.name, int(found[0]), directory=directory)
        time.sleep(0.01)
    raise SandboxError(
        f"{parent.name} exited at its start",
        detail=process.log_tail(directory, parent.name) or "its log is empty",
        hint="run as root on a machine whose kernel allows namespaces",
    )
