"""Names that the client generates."""

from __future__ import annotations

import secrets

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of the API server's own generated names: no vowels, none that are easily confused."""


def random_suffix(length: int = 5) -> str:
    """The end of a generated name, as the API server makes it."""
    return "".join(secrets.choice(_LETTERS) for _ in range(length))
