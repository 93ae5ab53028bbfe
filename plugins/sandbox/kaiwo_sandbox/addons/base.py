"""What an addon is to the sandbox: objects to create, a program to start, and how to know that it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.control_plane import Layout


@dataclass(frozen=True, slots=True)
class Addon:
    """One controller.

    Attributes:
        name: what `--with` calls it.
        program: its binary.
        port_names: the ports it needs, keys of `Layout.ports`.
        objects: objects that stay the same for every sandbox (CRDs, namespaces), made from its manifests.
        wiring: objects that hold this sandbox's ports, server-side applied when they changed.
        configure: writes its configuration files.
        command: its command line.
        environment: variables it needs.
        companions: command lines of programs by name that it needs beside it, started before it.
        ready: whether its health and webhooks answer.
    """

    name: str
    program: str
    port_names: tuple[str, ...]
    objects: Callable[[Path], list[Object]]
    wiring: Callable[[Path, Layout], list[Object]]
    configure: Callable[[Layout], None]
    command: Callable[[Path, Layout], list[str]]
    environment: Callable[[Layout], dict[str, str]]
    ready: Callable[[Path, Layout], bool]
    companions: Callable[[Layout], dict[str, list[str]]] = lambda _layout: {}
