"""Names and label values: what Kubernetes takes, and how ours are made."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from kaiwo.api.names import ON_RAY, PLAIN, NameRule

if TYPE_CHECKING:
    from collections.abc import Mapping

NamePattern = Literal["dns1123", "dns1035"]

MAX_LABEL = 63
"""Longest label value and longest DNS label (RFC 1123)."""

_RULES: Mapping[NamePattern, NameRule] = {"dns1123": PLAIN, "dns1035": ON_RAY}
_OUTSIDE_LABEL = re.compile(r"[^a-z0-9.-]+")
_RUNS = re.compile(r"[-.]{2,}")


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


def name_problem(name: str, limit: int = MAX_LABEL, pattern: NamePattern = "dns1123") -> str | None:
    """What is wrong with a workload's name, with the limit and a legal one; None when nothing is."""
    return replace(_RULES[pattern], limit=limit).problem(name)
