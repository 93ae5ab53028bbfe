"""The CRDs of the addons in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox.addon_crds import addon_crd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CRD = "rayjobs.ray.io"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    addon_crd.cache_clear()
    yield tmp_path / "kaiwo" / "sandbox"
    addon_crd.cache_clear()


def keep(cache: Path, folder: str, version: str) -> None:
    """Put the CRD of a release into a folder of the cache."""
    manifests = cache / folder / "manifests" / "kuberay"
    manifests.mkdir(parents=True)
    (manifests / "crds.yaml").write_text(
        f"kind: CustomResourceDefinition\nmetadata:\n  name: {CRD}\n  labels: {{version: {version}}}\n"
    )


@pytest.mark.parametrize("folder", ["older-kuberay-0123", "module-older-kuberay-kuberay-0123"])
def test_the_crd_of_an_older_release_does_not_take_the_place_of_the_newer_one(
    cache: Path, folder: str
) -> None:
    """Whether it was built or downloaded, and also where the newer release is not in the cache."""
    keep(cache, folder, "older")
    assert addon_crd(CRD) is None
    addon_crd.cache_clear()
    keep(cache, "zzz-kuberay-0123", "newer")
    found = addon_crd(CRD)
    assert found is not None
    assert found["metadata"]["labels"] == {"version": "newer"}
