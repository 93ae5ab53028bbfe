"""The status of a sandbox and of its processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """The status of one process: its pid, whether it runs, and its resident memory in bytes."""

    name: str
    pid: int
    alive: bool
    memory: int


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """The status of a sandbox; `ready` if all processes run and the API server is ready.

    `sources` tells for each program where it came from.
    """

    name: str
    ready: bool
    url: str
    kubeconfig: Path
    directory: Path
    addons: tuple[str, ...]
    generation: str
    processes: tuple[ProcessStatus, ...]
    sources: dict[str, str]
