"""The directories of the sandbox: a cache that may be deleted, and one state directory per sandbox."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kaiwo_sandbox.errors import SandboxError

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def _xdg(variable: str, default: str) -> Path:
    """The base directory that `variable` names; a relative value counts as unset (XDG standard)."""
    value = os.environ.get(variable, "")
    base = Path(value) if Path(value).is_absolute() else Path.home() / default
    return base / "kaiwo" / "sandbox"


def cache_dir() -> Path:
    """Binaries, certificates and etcd templates: `$XDG_CACHE_HOME/kaiwo/sandbox` (default `~/.cache`)."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_root() -> Path:
    """Parent of all state directories: `$XDG_STATE_HOME/kaiwo/sandbox` (default `~/.local/state`)."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def state_dir(name: str) -> Path:
    """State directory of the sandbox `name`: its data, logs, pid files and kubeconfig.

    Raises:
        SandboxError: the name is invalid.
    """
    if not _NAME.fullmatch(name):
        raise SandboxError(
            f'invalid sandbox name "{name}": expected 1 to 40 lower-case letters, digits and inner dashes',
            hint="choose a name such as dev",
        )
    return state_root() / name


def make_private(directory: Path) -> Path:
    """Create `directory` readable by its owner alone (it holds keys) and return it."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory
