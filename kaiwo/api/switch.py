"""Settings that are on or off, in the words that environment variables and files use."""

from __future__ import annotations

from typing import Final

_WORDS: Final = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


def parse_switch(text: str) -> bool:
    """Read ``true``, ``1``, ``yes`` or ``on``, ``false``, ``0``, ``no`` or ``off`` in any case.

    Raises:
        ValueError: it is another word.
    """
    word = text.strip().lower()
    if word not in _WORDS:
        raise ValueError("is not true or false")
    return _WORDS[word]
