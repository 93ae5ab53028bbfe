"""Pages with generated blocks: the text between two marker comments belongs to the generator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DOCS = Path(__file__).parents[1]
READMES = DOCS.parent / "plugins"

_BLOCK = re.compile(r"(?P<begin><!-- generated: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


class StaleReferenceError(Exception):
    """Code and reference do not fit each other in a way that only a person can mend."""


def pages() -> list[Path]:
    """Every page that may have generated blocks: the documentation, and the READMEs of plugins."""
    return [*sorted(DOCS.rglob("*.md")), *sorted(READMES.glob("*/README.md"))]


def renewed(page: Path, made: Mapping[str, str]) -> str:
    """The text of a page with its generated blocks as they are to be.

    Args:
        page: the page, which is not written.
        made: text of every block by name.

    Raises:
        StaleReferenceError: the page names a block that nobody makes.
    """

    def text(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in made:
            known = ", ".join(sorted(made))
            raise StaleReferenceError(f"{page}: no generated block is called {name}; known: {known}")
        return f"{match['begin']}\n{made[name].strip()}\n\n{match['end']}"

    return _BLOCK.sub(text, page.read_text(encoding="utf-8"))


def named_blocks(page: Path) -> list[str]:
    """Names of the generated blocks in a page."""
    return [match["name"] for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar in a cell is escaped, a line end becomes a blank."""
    lines = [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    clean = (" ".join(cell.split()).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(cell or '–' for cell in clean)} |"  # noqa: RUF001  an en dash stands for nothing
