"""Shell patterns over object keys: ``*`` stays inside a folder, ``**`` crosses folders."""

from __future__ import annotations

import re
from functools import lru_cache

DEFAULT = "**/*"


@lru_cache(maxsize=256)
def compiled(glob: str) -> re.Pattern[str]:
    """A pattern that matches whole relative keys.

    Raises:
        ValueError: a bracket is not closed, or holds no valid range.
    """
    out, index = [], 0
    while index < len(glob):
        rest = glob[index:]
        if rest.startswith("**/"):
            out.append("(?:.*/)?")
            index += 3
        elif rest.startswith("**"):
            out.append(".*")
            index += 2
        elif rest[0] == "*":
            out.append("[^/]*")
            index += 1
        elif rest[0] == "?":
            out.append("[^/]")
            index += 1
        elif rest[0] == "[":
            end = glob.find("]", index + 2 + (rest[1:2] == "!"))
            if end < 0:
                raise ValueError(f"glob {glob!r} has a '[' that is not closed; write [[] for the character")
            inside = glob[index + 1 : end].replace("\\", "\\\\").replace("[", "\\[").replace("&", "\\&")
            negated = inside.startswith("!")
            out.append(f"(?!/)[{'^' if negated else ''}{_escaped(inside[negated:])}]")
            index = end + 1
        else:
            out.append(re.escape(rest[0]))
            index += 1
    try:
        return re.compile("".join(out), re.DOTALL)
    except re.error:
        raise ValueError(f"glob {glob!r} is no pattern; check its brackets") from None


def _escaped(inside: str) -> str:
    return "\\" + inside if inside.startswith(("^", "]")) else inside


def prefix_of(path: str) -> str:
    """The listing prefix of a folder: empty for the whole bucket, else without slashes around it."""
    stripped = path.strip("/")
    return "" if stripped == "." else stripped.removeprefix("./")
