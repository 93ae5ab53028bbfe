"""Other `kaiwo` commands, run as the user would run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo.cli import kit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import CompletedProcess


def executable() -> Path:
    """The program `kaiwo` of this Python environment, else the one on the PATH.

    Raises:
        Failure: there is none.
    """
    local = Path(sys.executable).with_name("kaiwo")
    if local.exists():
        return local
    found = shutil.which("kaiwo")
    if found is None:
        raise kit.Failure(
            f"program kaiwo not found (searched {local.parent} and PATH)",
            "install it again with pip install --force-reinstall kaiwo",
        )
    return Path(found)


def name_in_shell() -> str:
    """What the user types to run `kaiwo`; its environment may not be on the PATH."""
    program = executable()
    found = shutil.which("kaiwo")
    if found and Path(found).resolve() == program.resolve():
        return "kaiwo"
    return shell_path(program)


def shell_path(path: Path) -> str:
    """The path relative to the current directory if it is below it, else the absolute path."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def environment() -> dict[str, str]:
    """The user's environment without the settings of Kaiwo and the choice of a cluster."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("KAIWO", "KUBECONFIG"))}


def run(arguments: Sequence[str], variables: Mapping[str, str]) -> CompletedProcess[str]:
    """Run a `kaiwo` command to its end.

    Args:
        arguments: the arguments after `kaiwo`.
        variables: environment variables in addition to `environment()`.

    Raises:
        Failure: it failed; the message contains the end of its standard error.
    """
    done = subprocess.run(
        [executable(), *arguments],
        env={**environment(), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        errors = "\n".join(done.stderr.splitlines()[-20:])
        raise kit.Failure(f"kaiwo {' '.join(arguments)}: exit code {done.returncode}:\n{errors}")
    return done
