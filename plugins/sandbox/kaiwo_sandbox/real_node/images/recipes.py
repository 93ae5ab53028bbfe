"""The images that every real node can run, and how they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo_sandbox.real_node.images import build, machine, pause
from kaiwo_sandbox.real_node.images.layers import Text
from kaiwo_sandbox.real_node.images.store import Image

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.real_node.images.layers import Tree

REGISTRY = "registry.sandbox"
"""The registry's name in image references; containerd is configured to find it."""

PAUSE = f"{REGISTRY}/pause:1"
PYTHON = f"{REGISTRY}/python:3"


_VENV = "opt/kaiwo"


def operator(environment: Path, recipe: Path) -> Image:
    """The operator's image from an environment with Kaiwo and its plugins, started as its recipe says."""
    trees = [_base(), machine.environment(environment, _VENV)]
    return build.image_with(trees, "kaiwo-operator:1", recipe)


def downloader(environment: Path, recipe: Path) -> Image:
    """The image of download pods from an environment with the program, started as its recipe says."""
    trees = [_base() | machine.git(), machine.environment(environment, _VENV)]
    return build.image_with(trees, "kaiwo-downloader:1", recipe)


_WGET = b"""#!/bin/sh
# Print what a URL serves. KubeRay's probes pass GNU options, of which busybox cannot do the timeout.
for url; do :; done
exec busybox wget -q -O - "$url"
"""


def ray(environment: Path, files: Tree) -> Image:
    """What stands for Ray's own image: an environment with Ray, and what KubeRay's commands need.

    Args:
        environment: an environment with ``ray[default]``.
        files: the user's programs; modules below ``app`` can be imported.
    """
    return Image(
        "ray:1",
        [
            _base() | {"usr/local/bin/wget": Text(_WGET, 0o755)},
            machine.environment(environment, "opt/ray"),
            files,
        ],
        environment={
            "PATH": "/opt/ray/bin:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": "/app",
            "PYTHONUNBUFFERED": "1",
            "HOME": "/tmp",  # noqa: S108  a path in the image
        },
        user="1000:1000",
    )


def _base() -> Tree:
    """What stands for ``python:slim``."""
    return machine.system() | machine.busybox() | machine.programs(["/bin/bash"]) | machine.python()


def standard() -> list[Image]:
    """The images of every real node: pause, busybox, and python with bash."""
    return [
        Image("pause:1", [{"pause": Text(pause.program(), 0o755)}], entrypoint=("/pause",)),
        Image("busybox:1", [machine.system() | machine.busybox()], arguments=("sh",)),
        Image(
            "python:3",
            [_base()],
            arguments=("python3",),
            environment={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
        ),
    ]
