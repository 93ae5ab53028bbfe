"""Label selectors: told to the API server as text, evaluated here for own writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_TERM = re.compile(
    r"""\s*(?:
        (?P<absent>!\s*(?P<no>[\w./-]+))
      | (?P<key>[\w./-]+)\s*(?:(?P<op>==|=|!=)\s*(?P<value>[\w.-]*)
                             | \s(?P<set>in|notin)\s*\(\s*(?P<values>[\w.,\s-]*)\))?
    )\s*(?:,|$)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector.

    Attributes:
        text: as kubectl writes it; empty selects everything.
        terms: key, operator (exists, !, in, notin) and values of each requirement.
    """

    text: str
    terms: tuple[tuple[str, str, frozenset[str]], ...]

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Read a selector such as ``team=a,tier in (x,y),!old``.

        Raises:
            ValueError: the text is no selector.
        """
        source = (text or "").strip()
        terms: list[tuple[str, str, frozenset[str]]] = []
        at = 0
        while at < len(source):
            match = _TERM.match(source, at)
            if match is None:
                raise ValueError(f"label selector {source!r}: cannot be read at {source[at:]!r}")
            at = match.end()
            if match["absent"]:
                terms.append((match["no"], "!", frozenset()))
            elif match["set"]:
                values = frozenset(value.strip() for value in match["values"].split(","))
                terms.append((match["key"], match["set"], values))
            elif match["op"]:
                operator = "notin" if match["op"] == "!=" else "in"
                terms.append((match["key"], operator, frozenset({match["value"]})))
            else:
                terms.append((match["key"], "exists", frozenset()))
        return cls(source, tuple(terms))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil all requirements; notin is also fulfilled by a missing label."""
        for key, operator, values in self.terms:
            value = labels.get(key)
            if operator == "in":
                fulfilled = value in values
            elif operator == "notin":
                fulfilled = value is None or value not in values
            else:
                fulfilled = (value is not None) == (operator == "exists")
            if not fulfilled:
                return False
        return True
