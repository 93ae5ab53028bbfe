"""Tiny real distributions: a module, its metadata, on ``sys.path``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path


class Install(Protocol):
    """Make a distribution that brings one plugin."""

    def __call__(
        self,
        plugin: str,
        source: str,
        *,
        distribution: str | None = None,
        version: str = "1.2.3",
        fields: tuple[str, ...] = (),
    ) -> str:
        """Install it and return its distribution's name."""


PREAMBLE = "from kaiwo.plugin import hookimpl\nKAIWO_API = 1\n"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install distributions for the length of a test; a source that begins with ``# bare`` stays as it is."""

    def make(
        plugin: str,
        source: str,
        *,
        distribution: str | None = None,
        version: str = "1.2.3",
        fields: tuple[str, ...] = (),
    ) -> str:
        name = distribution or f"kaiwo-{plugin.replace('_', '-')}"
        # A module name of its own for every test, since Python remembers modules by name.
        package = f"plugin_{abs(hash((str(tmp_path), name, plugin)))}"
        site = tmp_path / package
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        text = textwrap.dedent(source)
        bare = text.startswith("# bare")
        (site / f"{package}.py").write_text(text if bare else PREAMBLE + text, encoding="utf-8")
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
        )
        announced = "".join(f"{field} = {package}\n" for field in fields)
        (info / "entry_points.txt").write_text(
            f"[kaiwo.plugins]\n{plugin} = {package}\n\n[kaiwo.fields]\n{announced}", encoding="utf-8"
        )
        monkeypatch.syspath_prepend(str(site))
        return name

    return make
