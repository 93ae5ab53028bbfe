"""What a misspelt word probably means: one rule and one phrase for every list of known words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHORTEST_PART = 3
"""Letters from which a part counts: ``queue`` of ``clusterQueue``, ``acme`` of ``kaiwo-acme``."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, None if none is near; case and ``-`` for ``_`` do not count."""
    # The command line must start quickly and rarely needs this.
    import difflib

    forms = {_form(other): other for other in known}
    form = _form(word)
    if found := difflib.get_close_matches(form, forms, n=1):
        return forms[found[0]]
    parts = (
        other
        for other in forms
        if (form in other or other in form) and min(len(form), len(other)) >= _SHORTEST_PART
    )
    return forms.get(next(parts, ""))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean "gpus"?``, empty if no known word is near."""
    found = nearest(word, known)
    return f'did you mean "{found}"?' if found else ""


def _form(word: str) -> str:
    return word.lower().replace("-", "_")
