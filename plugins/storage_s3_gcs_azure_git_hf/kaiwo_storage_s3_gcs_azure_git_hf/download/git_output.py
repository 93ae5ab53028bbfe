"""The meaning of what git writes to standard error."""

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

_NO_SINGLE_OBJECTS = r"unadvertised|not our ref|upload-pack|promisor"
"""What git writes when a server does not serve objects by their hash."""

_UNREACHABLE = r"unable to access|rpc failed|timed? ?out|too slow"
"""What git writes when it cannot reach a server, or lost the connection."""

_MAX_LINE = 200
"""Characters of git's output in a message: one or two lines of a terminal."""

_REASONS: tuple[tuple[str, Kind, str, str], ...] = (
    (r"certificate (problem|verification failed)|ssl: no alternative certificate", ConfigError, *UNTRUSTED),
    (
        r"authentication failed|could not read (user|pass)|error: 40[13]|access denied",
        NotAvailableError,
        "access denied",
        "check username and token, and their permissions",
    ),
    (
        r"error: (410|451)",
        NotAvailableError,
        "the server no longer gives the repository",
        "choose another one",
    ),
    (
        r"not found|error: 404",
        NotAvailableError,
        "repository not found",
        "check the URL, or set a token",
    ),
    (
        (
            r"remote ref|not our ref|unadvertised|not a tree|unknown revision|did not match|"
            r"unable to read tree|invalid reference|is not a commit|cannot switch branch|"
            r"does not take a path|mismatched algorithms"
        ),
        NotAvailableError,
        "branch or commit not found",
        "check branch and commit",
    ),
    (r"no space left|disk quota", DiskFullError, "no space left on the volume", "increase storageSize"),
)


def find_reason(output: str) -> tuple[Kind, str, str] | None:
    """The kind of a failure, its message and the next step; None when the output is not known."""
    for pattern, kind, message, next_step in _REASONS:
        if re.search(pattern, output, re.IGNORECASE):
            return kind, message, next_step
    return None


def server_has_sha256(output: str) -> bool:
    """Whether git could not fetch into a repository with SHA-1 hashes because the server's are SHA-256."""
    return "mismatched algorithms" in output and "server sha256" in output


def full_fetch_may_help(output: str) -> bool:
    """Whether fetching whole packs may help: no single objects are served, or the cause is unknown."""
    known = [_UNREACHABLE, *(pattern for pattern, *_ in _REASONS)]
    return bool(re.search(_NO_SINGLE_OBJECTS, output, re.IGNORECASE)) or not any(
        re.search(pattern, output, re.IGNORECASE) for pattern in known
    )


def last_line(output: str) -> str:
    """The last line of git's output, without credentials that a redirect may have put into a URL."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    return re.sub(r"(\w+://)[^/\s@]*@", r"\1", last)[:_MAX_LINE]
