"""Field types of download items, validated alike by the API server and the command line.

Every string has a maximum length, and patterns use only the syntax that Go and Rust share.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, StringConstraints

from kaiwo_storage_s3_gcs_azure_git_hf import globs

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


def _form(pattern: str, words: str) -> BeforeValidator:
    """A validator that says in words what a text has to be; the API server shows the pattern."""
    form = re.compile(pattern)

    def check(value: object) -> object:
        if isinstance(value, str) and not form.search(value):
            raise ValueError(f'"{value[:80]}" is not {words}')
        return value

    return BeforeValidator(check)


Path: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
"""A name inside a store; 1024 bytes is the longest object key of S3, GCS and Azure."""

ObjectPath: TypeAlias = Annotated[Path, AfterValidator(_check_file)]
"""A name of one object inside a store."""

Prefix: TypeAlias = Annotated[str, StringConstraints(max_length=1024)]
"""A folder inside a store; empty or ``.`` is the whole bucket."""


def _check_glob(glob: str) -> str:
    globs.compile_glob(glob)
    return glob


Glob: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_check_glob)
]
"""A shell pattern relative to a folder."""

BucketName: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=255), AfterValidator(_check_bucket)
]
"""A bucket or container; the longest (an old S3 bucket in us-east-1) has 255 characters."""


_REGION: Final = r"^[A-Za-z0-9-]+$"
_GIT_REF: Final = r"^[^-\s]\S*$"
_COMMIT: Final = r"^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$"
_REPO_ID: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$"

Region: TypeAlias = Annotated[
    str, StringConstraints(max_length=64, pattern=_REGION), _form(_REGION, "a region such as us-east-1")
]
"""The name of a region, as ``us-east-1``."""

_NO_REF: Final = re.compile(r"[~^:?*\[\\\x00-\x1f\x7f]|\.\.|@\{|//|/\.|^[/.]|[/.]$|\.lock(/|$)")
"""What no name of a branch or tag contains (git check-ref-format)."""


def _check_ref(name: str) -> str:
    if _NO_REF.search(name):
        raise ValueError(f'"{name[:80]}" is not the name of a branch, tag or commit')
    return name


GitRef: TypeAlias = Annotated[
    str,
    StringConstraints(max_length=255, pattern=_GIT_REF),
    AfterValidator(_check_ref),
    _form(_GIT_REF, "a branch, tag or commit: no blanks, and no '-' at the beginning"),
]
"""A branch, tag or revision; one that starts with ``-`` would be parsed as an option."""

Commit: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=_COMMIT),
    _form(_COMMIT, "a full commit hash of 40 or 64 hexadecimal digits"),
]
"""A full commit hash of SHA-1 or SHA-256; an abbreviated one may come to name another commit."""

RepoId: TypeAlias = Annotated[
    str,
    StringConstraints(max_length=96, pattern=_REPO_ID),
    _form(_REPO_ID, 'a repository of the Hub; write its name alone, such as "org/model"'),
]
"""A repository on the Hub; the Hub takes 96 characters."""
