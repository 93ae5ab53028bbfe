"""The images that every real node can run, and how they are made."""

from __future__ import annotations

from kaiwo_sandbox.real_node.images import machine, pause
from kaiwo_sandbox.real_node.images.layers import Text
from kaiwo_sandbox.real_node.images.store import Image

REGISTRY = "registry.sandbox"
"""The registry's name in image references; containerd is configured to find it."""

PAUSE = f"{REGISTRY}/pause:1"
BUSYBOX = f"{REGISTRY}/busybox:1"
PYTHON = f"{REGISTRY}/python:3"


def standard() -> list[Image]:
    """The images of every real node: pause, busybox, and python with bash."""
    return [
        Image("pause:1", [{"pause": Text(pause.program(), 0o755)}], entrypoint=("/pause",)),
        Image("busybox:1", [machine.system() | machine.busybox()], arguments=("sh",)),
        Image(
            "python:3",
            [machine.system() | machine.busybox() | machine.programs(["/bin/bash"]), machine.python()],
            arguments=("python3",),
            environment={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
        ),
    ]
