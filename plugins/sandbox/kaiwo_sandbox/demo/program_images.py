"""The images of the demo's workloads on a real node: this machine's Python with a program of the demo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.real_node.images import recipes
from kaiwo_sandbox.real_node.images.layers import Text

if TYPE_CHECKING:
    from kaiwo_sandbox.real_node.images.layers import Tree
    from kaiwo_sandbox.real_node.images.store import Image

_PROGRAMS = Path(__file__).parent / "programs"
_DIRECTORY = "srv"


def program_images() -> list[Image]:
    """The images `demo-train:1` and `demo-chat:1`."""
    return [_image("demo-train:1", "train.py"), _image("demo-chat:1", "serve.py")]


def _image(name: str, program: str) -> Image:
    [python] = [image for image in recipes.standard() if f"{recipes.REGISTRY}/{image.name}" == recipes.PYTHON]
    layer: Tree = {f"{_DIRECTORY}/{program}": Text((_PROGRAMS / program).read_bytes())}
    return replace(python, name=name, trees=[*python.trees, layer], directory=f"/{_DIRECTORY}")
