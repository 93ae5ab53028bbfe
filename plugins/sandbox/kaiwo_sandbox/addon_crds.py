"""The CRDs of the addons, for tests that check objects against them without a sandbox."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kaiwo_sandbox import objects
from kaiwo_sandbox.binaries import module_archives
from kaiwo_sandbox.generations import NEWER, OLDER
from kaiwo_sandbox.paths import cache_dir

if TYPE_CHECKING:
    from kaiwo_sandbox.api import Object


@cache
def addon_crd(name: str) -> Object | None:
    """Return the CRD of this name (``rayjobs.ray.io``); None where no addon in the cache has it."""
    older = tuple(
        start
        for binary_set in OLDER.addons.values()
        for start in (
            f"{binary_set.name}-",
            *(module_archives.prefix(binary_set, source) for source in binary_set.manifests),
        )
    )
    marker = f"name: {name}\n".encode()
    for addon in NEWER.addons:
        for folder in sorted(cache_dir().glob(f"*/manifests/{addon}")):
            if folder.parents[1].name.startswith(older):
                continue
            for file in sorted(folder.glob("*.yaml")):
                text = file.read_bytes()
                if marker in text:
                    return next((crd for crd in objects.parse(text) if crd["metadata"]["name"] == name), None)
    return None
