"""Finds syntax of bash in scripts that ``/bin/sh`` runs, and first lines that were meant to name a shell."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<![\w$])#[^\n]*|\\.", re.DOTALL)
"""What a shell does not read as syntax: quoted text, comments, quoted characters."""

_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w+)\1")
"""Where a here document begins: the word that ends it is the second group."""

_BASH = (
    (re.compile(r"(?<!\S)\[\[(?=\s)"), "[["),
    (re.compile(r"\bset\s{1,9}(?:-\S{1,40}\s{1,9}){0,9}-\w{0,40}o\s{1,9}pipefail\b"), "pipefail"),
    (re.compile(r"(?:^|[\s;])\w+\+?=\(", re.MULTILINE), "an array"),
    (
        re.compile(r"(?:^|[\s;])(?:declare|typeset|mapfile|readarray|shopt)\s", re.MULTILINE),
        "a command of bash",
    ),
    (re.compile(r"(?:^|[;&|]|\bthen|\bdo)[ \t]*source\s", re.MULTILINE), "source"),
    (re.compile(r"(?:^|[\s;])function\s+\w+", re.MULTILINE), "function"),
    (re.compile(r"[<>]\("), "a process substitution"),
    (re.compile(r"<<<"), "<<<"),
    (re.compile(r"&>"), "&>"),
    (re.compile(r"(?:^|[\s;])\(\("), "(("),
    (re.compile(r"\{\d+\.\.\d+\}"), "a {1..9} range"),
    (re.compile(r"\$\{\w+(?:\[|,,|\^\^|//)"), "an expansion of bash"),
)

_ALMOST = re.compile(r"#\s*/(?:usr/)?bin/\w+|!#\s*/|#\s+!\s*/")
"""A first line that was meant as ``#!/bin/...``."""


def almost_shebang(script: str) -> str:
    """What is wrong with the line of a script that should name its interpreter; empty when nothing is."""
    lines = script.strip().splitlines()
    if not lines or lines[0].startswith("#!"):
        return ""
    if _ALMOST.match(lines[0]):
        wanted = lines[0][lines[0].index("/") :]
        return f'"{lines[0].strip()[:60]}" names no interpreter: write "#!{wanted.strip()[:60]}"'
    for line in lines[1:]:
        if line.lstrip().startswith("#!/"):
            return f'"{line.strip()[:60]}" counts only in the first line: move it there'
    return ""


def bash_syntax(script: str) -> tuple[int, str] | None:
    """The first thing in a script that bash knows and ``/bin/sh`` need not know.

    Args:
        script: its text.

    Returns:
        the line, counted from 1, and the words for it; None when nothing was found.
    """
    text = _QUOTED.sub(_blank, _without_here_documents(script))
    found = sorted(_first(text))
    return found[0] if found else None


def _first(text: str) -> Iterator[tuple[int, str]]:
    for pattern, words in _BASH:
        if match := pattern.search(text):
            start = match.start() + len(match.group()) - len(match.group().lstrip())
            yield text.count("\n", 0, start) + 1, words


def _without_here_documents(script: str) -> str:
    """The same number of lines without the content of here documents.

    Text of anybody is read in one pass: a webhook does it, too, and no other request is answered meanwhile.
    """
    lines = script.split("\n")
    ends: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        ends.setdefault(line.lstrip().rstrip(" \t"), []).append(number)
    kept: list[str] = []
    while len(kept) < len(lines):
        number = len(kept)
        kept.append(lines[number])
        for begin in _HERE_DOCUMENT.finditer(lines[number]):
            later = ends.get(begin[2], [])
            if (at := bisect_right(later, number)) < len(later):
                kept[number] = lines[number][: begin.start()] + '""'
                kept += [""] * (later[at] - number)
                break
    return "\n".join(kept)


def _blank(match: re.Match[str]) -> str:
    """The same number of lines without their content."""
    return '""' + "\n" * match.group().count("\n")
