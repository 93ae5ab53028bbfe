"""Names and label values: what Kubernetes takes, and how ours are made."""

from __future__ import annotations

import hashlib
import re
from typing import Literal

NamePattern = Literal["dns1123", "dns1035"]

MAX_LABEL = 63
"""Longest label value and longest DNS label (RFC 1123)."""

_PATTERNS: dict[str, re.Pattern[str]] = {
    "dns1123": re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    "dns1035": re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?"),
}
_RULES = {
    "dns1123": "lower-case letters, digits and '-', starting and ending with a letter or digit",
    "dns1035": "lower-case letters, digits and '-', starting with a letter and ending with a letter or digit",
}
_OUTSIDE_LABEL = re.compile(r"[^a-z0-9.-]+")
_RUNS = re.compile(r"[-.]{2,}")
_OUTSIDE_NAME = re.compile(r"[^a-z0-9]+")


def label_value(text: str) -> str:
    """A legal label value that still reads like the text: ``jane.doe+x@Amd.com`` is ``jane.doe-x-amd.com``.

    Lower case; runs of other characters become ``-``; ``-`` and ``.`` are trimmed and never repeat;
    at most 63 characters. May be empty.
    """
    value = _OUTSIDE_LABEL.sub("-", text.lower()).strip("-.")
    return _RUNS.sub("-", value)[:MAX_LABEL].strip("-.")


def derived_name(base: str, suffix: str, limit: int = MAX_LABEL) -> str:
    """The name of an object that belongs to another: ``<base><suffix>``, at most ``limit`` characters.

    A longer one is cut and carries a hash of the whole, so that two long names never share it.
    """
    whole = base + suffix
    if len(whole) <= limit:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    kept = base[: limit - len(suffix) - len(digest) - 1].rstrip("-.")
    return f"{kept}-{digest}{suffix}"


def legal_name(text: str, limit: int = MAX_LABEL, pattern: NamePattern = "dns1123") -> str:
    """The nearest legal name to a text; never empty."""
    name = _OUTSIDE_NAME.sub("-", text.lower()).strip("-")
    if not name or (pattern == "dns1035" and not name[0].isalpha()):
        name = f"w-{name}".strip("-")
    return name[:limit].rstrip("-")


def name_problem(name: str, limit: int = MAX_LABEL, pattern: NamePattern = "dns1123") -> str | None:
    """What is wrong with a workload's name, with the limit and a legal one; None when nothing is."""
    advice = f"; for example {legal_name(name, limit, pattern)!r}"
    if len(name) > limit:
        return f"{name!r} has {len(name)} characters, at most {limit} are possible{advice}"
    if not _PATTERNS[pattern].fullmatch(name):
        return f"{name!r} may hold only {_RULES[pattern]} (at most {limit}){advice}"
    return None
