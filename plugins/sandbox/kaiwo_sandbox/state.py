"""What is known of a sandbox between two commands: a small JSON file in its directory."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from kaiwo_sandbox.catalogue import NEWER

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.api import Object

_FILE = "sandbox.json"


@dataclass(frozen=True, slots=True)
class State:
    """One sandbox.

    Attributes:
        name: its name.
        ports: port per program.
        addons: controllers besides Kubernetes.
        programs: path per binary.
        manifests: directory of manifests per addon.
        template: the directory with the copy of etcd's data that a reset goes back to.
        nodes: the nodes it began with, made again by a reset.
        generation: of its addons.
    """

    name: str
    ports: dict[str, int]
    addons: list[str]
    programs: dict[str, str]
    manifests: dict[str, str]
    template: str
    nodes: list[Object] = field(default_factory=list)
    generation: str = NEWER.name

    def save(self, directory: Path) -> None:
        """Write the file in one step."""
        fresh = directory / f"{_FILE}.new"
        fresh.write_text(json.dumps(asdict(self)))
        fresh.rename(directory / _FILE)


def load(directory: Path) -> State | None:
    """Read the file; None when there is no sandbox, or an unfinished one, in `directory`."""
    try:
        return State(**json.loads((directory / _FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
