"""Field types of download items, validated alike by the API server and the command line.

Every string has a maximum length, and patterns use only the syntax that Go and Rust share.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, StringConstraints

_BUCKET: Final = re.compile(r"[A-Za-z0-9_$][A-Za-z0-9._:-]*")
"""What any store allows: ``$`` begins system containers of Azure, ``:`` follows a tenant of Ceph."""


def _check_bucket(name: str) -> str:
    if not _BUCKET.fullmatch(name):
        raise ValueError("invalid bucket or container name; use letters, digits, '-', '_' and '.'")
    return name


def _check_file(path: str) -> str:
    if path.endswith("/"):
        raise ValueError("ends with '/' and names a folder; expected a file")
    return path


Path: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
"""A name inside a store; 1024 bytes is the longest object key of S3, GCS and Azure."""

ObjectPath: TypeAlias = Annotated[Path, AfterValidator(_check_file)]
"""A name of one object inside a store."""

Prefix: TypeAlias = Annotated[str, StringConstraints(max_length=1024)]
"""A folder inside a store; empty or ``.`` is the whole bucket."""


Glob: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
"""A shell pattern relative to a folder."""

BucketName: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=255), AfterValidator(_check_bucket)
]
"""A bucket or container; the longest (an old S3 bucket in us-east-1) has 255 characters."""


Region: TypeAlias = Annotated[str, StringConstraints(max_length=64, pattern=r"^[A-Za-z0-9-]+$")]
"""The name of a region, as ``us-east-1``."""

GitRef: TypeAlias = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^-\s]\S*$")]
"""A branch, tag or revision; one that starts with ``-`` would be parsed as an option."""

Commit: TypeAlias = Annotated[str, StringConstraints(pattern=r"^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$")]
"""A full commit hash of SHA-1 or SHA-256; an abbreviated one may come to name another commit."""

RepoId: TypeAlias = Annotated[
    str,
    StringConstraints(max_length=96, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$"),
]
"""A repository on the Hub; the Hub takes 96 characters."""
