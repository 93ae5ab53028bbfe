"""``python -m docs.generate`` writes the generated blocks of all pages anew; ``--check`` only compares."""

from __future__ import annotations

import sys

from docs.generate.blocks import blocks
from docs.generate.pages import DOCS, StaleReferenceError, pages, renewed


def main(arguments: list[str]) -> int:
    """Renew or check every page; exit code 1 when ``--check`` finds a stale one."""
    check = arguments == ["--check"]
    if arguments and not check:
        sys.stderr.write("usage: python -m docs.generate [--check]\n")
        return 2
    try:
        made = blocks()
        texts = {page: renewed(page, made) for page in pages()}
    except StaleReferenceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    stale = [page for page, text in texts.items() if page.read_text(encoding="utf-8") != text]
    for page in stale:
        if check:
            sys.stderr.write(f"{page.relative_to(DOCS.parent)}: is stale; run python -m docs.generate\n")
        else:
            page.write_text(texts[page], encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(DOCS.parent)}: written\n")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
