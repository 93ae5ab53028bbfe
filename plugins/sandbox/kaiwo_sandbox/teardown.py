"""Stop a sandbox and remove its files, by name; also one whose start failed."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from kaiwo_sandbox import lifecycle, state
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import state_dir, state_root
from kaiwo_sandbox.ports import release
from kaiwo_sandbox.real_node import node

if TYPE_CHECKING:
    from pathlib import Path


def lock_file(name: str) -> Path:
    """The lock file of the commands that start, reset or delete this sandbox."""
    return state_root() / f"{name}.lock"


def down(name: str) -> bool:
    """Delete the sandbox of that name; False if there was none.

    Raises:
        SandboxError: the name is invalid, or a program does not end.
    """
    directory = state_dir(name)
    with locked(lock_file(name)):
        existed = directory.is_dir()
        clear(name)
    return existed


def clear(name: str) -> None:
    """Delete the sandbox and its lock file, which the caller holds.

    Raises:
        SandboxError: a program does not end.
    """
    remove(state_dir(name))
    lock_file(name).unlink(missing_ok=True)
    for parent in (state_root(), state_root().parent):
        with contextlib.suppress(OSError):  # it contains another sandbox
            parent.rmdir()


def remove(directory: Path) -> None:
    """Stop the programs, release the ports and remove the directory of a sandbox.

    Raises:
        SandboxError: a program does not end.
    """
    lifecycle.stop(directory)
    loaded = state.load(directory)
    if loaded is not None:
        release(loaded.ports.values())
        if loaded.real_node:
            node.remove_remains(loaded.name)
    shutil.rmtree(directory, ignore_errors=True)
