"""Finding entries by a word: an owner's uid, a label's value."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaiwo.engine.entry import Entry


class Index:
    """Entries by a word.

    Most words name one entry (a uid owns one Job), which then costs nothing but its place; a word that names
    thousands costs constant time per change.
    """

    def __init__(self) -> None:
        self._found: dict[str, Entry | dict[int, Entry]] = {}

    def add(self, word: str, entry: Entry) -> None:
        """Add an entry under a word."""
        known = self._found.get(word)
        if known is None:
            self._found[word] = entry
        elif isinstance(known, dict):
            known[id(entry)] = entry
        else:
            self._found[word] = {id(known): known, id(entry): entry}

    def remove(self, word: str, entry: Entry) -> None:
        """Remove an entry from a word; nothing happens when it is not there."""
        known = self._found.get(word)
        if isinstance(known, dict):
            known.pop(id(entry), None)
            if not known:
                del self._found[word]
        elif known is entry:
            del self._found[word]

    def get(self, word: str) -> list[Entry]:
        """Entries under a word, in the order in which they came."""
        known = self._found.get(word)
        if known is None:
            return []
        return list(known.values()) if isinstance(known, dict) else [known]
