"""What git's own words mean."""

from __future__ import annotations

import re
from typing import TypeAlias

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import (
    UNTRUSTED,
    ConfigError,
    DiskFullError,
    NotAvailableError,
)

Kind: TypeAlias = type[ConfigError | NotAvailableError | DiskFullError]

_REFUSED = r"unadvertised|not our ref|upload-pack|promisor"
"""How git says that a server does not serve objects by hash."""

_UNREACHED = r"unable to access|rpc failed|timed? ?out|too slow"
"""How git says that it did not reach a server, or lost it."""

_LONGEST = 200
"""Characters of git's own words in a message: one line of a terminal or two."""

_REASONS: tuple[tuple[str, Kind, str, str], ...] = (
    (r"certificate (problem|verification failed)|ssl: no alternative certificate", ConfigError, *UNTRUSTED),
    (
        r"authentication failed|could not read (user|pass)|error: 40[13]|access denied",
        NotAvailableError,
        "access was refused",
        "check username and token, and what they may read",
    ),
    (
        r"not found|error: 404",
        NotAvailableError,
        "the repository does not exist",
        "check the URL, or give a token",
    ),
    (
        (
            r"remote ref|not our ref|unadvertised|not a tree|unknown revision|did not match|"
            r"unable to read tree|invalid reference|is not a commit|cannot switch branch|does not take a path"
        ),
        NotAvailableError,
        "the branch or commit does not exist",
        "check branch and commit",
    ),
    (r"no space left|disk quota", DiskFullError, "no room left", "make the volume larger"),
)


def reason(said: str) -> tuple[Kind, str, str] | None:
    """The kind of a failure, what is wrong and the next step; None where git's words are not known."""
    for pattern, kind, what, step in _REASONS:
        if re.search(pattern, said, re.IGNORECASE):
            return kind, what, step
    return None


def whole_may_help(said: str) -> bool:
    """Whether a server may give whole objects where it gave no single ones: it said so, or nothing known."""
    known = [_UNREACHED, *(pattern for pattern, *_ in _REASONS)]
    return bool(re.search(_REFUSED, said, re.IGNORECASE)) or not any(
        re.search(pattern, said, re.IGNORECASE) for pattern in known
    )


def last_line(said: str) -> str:
    """What git said last, without credentials that a server's redirect may have put into a URL."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else "it said nothing"
    return re.sub(r"(\w+://)[^/\s@]*@", r"\1", last)[:_LONGEST]
