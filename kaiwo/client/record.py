"""The base of everything that the client returns and a command prints as JSON."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """A documented, immutable result; its JSON has the field names in camel case.

    Subclasses describe each field in their docstring: meaning, type and unit.
    """
