"""The record of a sandbox: a JSON file in its directory that later commands read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from kaiwo_sandbox.generations import NEWER

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.api import Object

_FILE = "sandbox.json"


@dataclass(frozen=True, slots=True)
class SandboxState:
    """What a sandbox was started with.

    Attributes:
        name: its name.
        ports: port by name.
        addons: names of its addons.
        programs: path by program name.
        manifests: directory of manifests by addon name.
        template: path of the etcd template that a reset restores.
        nodes: the nodes that `up` and a reset create.
        generation: generation of its addons.
        real_node: whether it has a real node.
    """

    name: str
    ports: dict[str, int]
    addons: list[str]
    programs: dict[str, str]
    manifests: dict[str, str]
    template: str
    nodes: list[Object] = field(default_factory=list)
    generation: str = NEWER.name
    real_node: bool = False

    def save(self, directory: Path) -> None:
        """Write the file atomically."""
        fresh = directory / f"{_FILE}.new"
        fresh.write_text(json.dumps(asdict(self)))
        fresh.rename(directory / _FILE)


def load(directory: Path) -> SandboxState | None:
    """Read the file; None when `directory` holds no sandbox or an incomplete one."""
    try:
        return SandboxState(**json.loads((directory / _FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
