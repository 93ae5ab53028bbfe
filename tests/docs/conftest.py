"""Pages of the documentation and the code blocks in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from docs.generate.blocks import first_party
from docs.generate.pages import DOCS, pages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kaiwo.plugin.registry import Plugins

ROOT = DOCS.parent
PAGES = sorted(DOCS.rglob("*.md"))
PLUGIN_READMES = sorted(ROOT.glob("plugins/*/README.md"))
READMES = [
    *sorted(ROOT.glob("*.md")),
    *PLUGIN_READMES,
    *sorted(ROOT.glob("examples/*/README.md")),
    *(ROOT / folder / "README.md" for folder in ("bench", "campaign", "charts/kaiwo")),
]
_FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A code block: its page, its first line, its text."""

    page: str
    line: int
    text: str

    @property
    def name(self) -> str:
        """Where it stands, as page and line."""
        return f"{self.page}:{self.line}"


def _blocks(language: str, pages: Sequence[Path] = PAGES) -> list[Block]:
    found = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            if match[2] == language:
                line = text[: match.start(3)].count("\n") + 1
                found.append(Block(str(page.relative_to(ROOT)), line, match[3]))
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes a block or a page once for each there is."""
    if "readme_block" in metafunc.fixturenames:
        blocks = _blocks("yaml", [ROOT / "README.md", *PLUGIN_READMES])
        metafunc.parametrize("readme_block", blocks, ids=[block.name for block in blocks])
    if "any_page" in metafunc.fixturenames:
        every = [*PAGES, *READMES]
        metafunc.parametrize("any_page", every, ids=[str(page.relative_to(ROOT)) for page in every])
    for language in ("yaml", "console"):
        if f"{language}_block" in metafunc.fixturenames:
            blocks = _blocks(language)
            metafunc.parametrize(f"{language}_block", blocks, ids=[block.name for block in blocks])
    if "page" in metafunc.fixturenames:
        found = pages()
        metafunc.parametrize("page", found, ids=[str(page.relative_to(DOCS.parent)) for page in found])


@pytest.fixture(scope="session")
def yaml_blocks() -> list[Block]:
    """All YAML blocks."""
    return _blocks("yaml")


@pytest.fixture(scope="session")
def plugins() -> Plugins:
    """All first-party plugins."""
    return first_party()
