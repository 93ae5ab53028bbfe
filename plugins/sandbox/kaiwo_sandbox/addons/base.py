"""The declaration of an addon: its objects, its program, and its readiness check."""

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
        name: its name in `--with`.
        program: name of its binary.
        port_names: the ports that it needs, keys of `Layout.ports`.
        static_objects: builds the objects that are the same in every sandbox (CRDs, namespaces) from its
            manifests.
        webhook_objects: builds the objects that contain ports of this sandbox. They are applied again when
            the ports change.
        write_files: writes its configuration files.
        command: builds its command line.
        environment: builds its environment variables.
        ready: checks its health endpoint and its webhooks.
        sidecars: builds the command lines, by name, of programs that it needs. They start before it.
    """

    name: str
    program: str
    port_names: tuple[str, ...]
    static_objects: Callable[[Path], list[Object]]
    webhook_objects: Callable[[Path, Layout], list[Object]]
    write_files: Callable[[Layout], None]
    command: Callable[[Path, Layout], list[str]]
    environment: Callable[[Layout], dict[str, str]]
    ready: Callable[[Path, Layout], bool]
    sidecars: Callable[[Layout], dict[str, list[str]]] = lambda _layout: {}
