"""Glob patterns over object keys: ``*`` stays content a folder, ``**`` crosses folders."""

from __future__ import annotations

import re
from functools import lru_cache

DEFAULT = "**/*"

_LEADING = re.compile(r"^(\./|/)+")
_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}")


@lru_cache(maxsize=256)
def compile_glob(glob: str) -> re.Pattern[str]:
    """Compile a glob to a pattern that matches whole relative keys.

    Raises:
        ValueError: a bracket is not closed, or its range is invalid.
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
                raise ValueError(f"glob {glob!r} has an unclosed '['; write [[] for the character")
            content = glob[index + 1 : end]
            negated = content.startswith("!")
            out.append(f"(?!/)[{'^' if negated else ''}{_escape_set(content[negated:])}]")
            index = end + 1
        else:
            out.append(re.escape(rest[0]))
            index += 1
    try:
        return re.compile("".join(out), re.DOTALL)
    except re.error:
        raise ValueError(f"invalid glob {glob!r}; check its brackets") from None


def _escape_set(content: str) -> str:
    """Escape what has a meaning in a set of `re`, or may get one: ``--``, ``&&``, ``~~`` and ``||`` warn."""
    out = []
    for position, character in enumerate(content):
        first = position == 0 and character in "^]"
        doubled = character == "-" and position > 1 and content[position - 1] == "-"
        out.append("\\" + character if first or doubled or character in "\\[&~|" else character)
    return "".join(out)


def advice(glob: str | None) -> str:
    """What to write for a glob that looks like one of another program; empty where it does not."""
    glob = glob or DEFAULT
    if _BRACES.search(glob):
        return "braces stand for themselves; name the folder once for each alternative"
    if glob.startswith(("/", "./")):
        return f"the glob is relative to path; write {_LEADING.sub('', glob)!r}"
    if glob.endswith("/"):
        return f"a glob names files; write {glob + '**'!r} for all below that folder"
    if glob.startswith("!"):
        return "a glob cannot exclude; '!' stands for itself outside of brackets"
    return ""


def listing_prefix(path: str) -> str:
    """The listing prefix of a folder: empty for the whole bucket, else without slashes at its ends."""
    stripped = path.strip("/")
    return "" if stripped == "." else stripped.removeprefix("./")
