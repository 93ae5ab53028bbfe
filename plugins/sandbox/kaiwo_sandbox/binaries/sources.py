"""Tells where a program came from, by the records that lie beside it in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from kaiwo_sandbox.builds.binary_sets import SETS, Program
from kaiwo_sandbox.paths import cache_dir

if TYPE_CHECKING:
    from pathlib import Path

IMAGE_RECORD = "image.yaml"
"""The record of a program from an image, in the format of a list of images."""


def image_record(program: str, path: Path) -> dict[str, Any] | None:
    """Return the entry of a program in a list of images; None if it did not come from an image."""
    try:
        document = yaml.safe_load((path.parents[1] / IMAGE_RECORD).read_text())
        entry: dict[str, Any] = document["programs"][program]
    except (OSError, yaml.YAMLError, KeyError, TypeError, IndexError):
        return None
    return entry


def describe(program: str, path: Path) -> str:
    """Say in a few words where a program came from."""
    entry = image_record(program, path)
    if entry is not None:
        return f"image {entry.get('image')}"
    directory = path.parents[1]
    if directory.parent == cache_dir():
        name = directory.name.rpartition("-")[0]
        packages = {each.name: each.package for each in _programs(name)}
        if program in packages:
            return f"built with Go from {packages[program]}"
    return f"directory {path.parent}"


def _programs(set_name: str) -> tuple[Program, ...]:
    return next((each.programs for each in SETS if each.name == set_name), ())
