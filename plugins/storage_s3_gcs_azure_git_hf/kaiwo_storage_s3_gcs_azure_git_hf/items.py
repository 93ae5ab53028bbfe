"""Download items: one model per source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from kaiwo.plugin.kit.errors import Problem
from kaiwo.plugin.kit.fields import Model, Sha256, TargetFile, TargetPath, Url, ValueReference
from kaiwo_storage_s3_gcs_azure_git_hf import globs
from kaiwo_storage_s3_gcs_azure_git_hf.fields import (
    BucketName,
    Commit,
    GitRef,
    Glob,
    ObjectPath,
    Path,
    Prefix,
    Region,
    RepoId,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_WILDCARD = re.compile(r"[*?\[]|\{[^{}]*,[^{}]*\}")

MAX_BUCKETS = 1024
"""Buckets or containers of one item."""

MAX_FILES = 10_000
"""Files or folders that are listed one by one; a folder brings any number."""


class CloudDownloadFile(Model):
    """One object of a bucket or container."""

    path: Annotated[ObjectPath, Field(description="Key of the object.")]
    target_path: Annotated[
        TargetFile, Field(min_length=1, description="File to write, relative to the data volume.")
    ]
    sha256: Annotated[
        Sha256 | None,
        Field(description="SHA-256 of the content in hexadecimal; a download that differs fails."),
    ] = None


class CloudDownloadFolder(Model):
    """All objects of a bucket or container under a prefix."""

    path: Annotated[Prefix, Field(description='Prefix of the objects; empty or "." for the whole bucket.')]
    target_path: Annotated[TargetPath, Field(description="Folder to write to, relative to the data volume.")]
    glob: Annotated[
        Glob | None,
        Field(description='Only objects that match, relative to the prefix; by default "**/*".'),
    ] = None


class CloudDownloadBucket(Model):
    """What to fetch from one bucket or container."""

    name: Annotated[BucketName, Field(description="Name of the bucket or container.")]
    files: Annotated[
        tuple[CloudDownloadFile, ...] | None,
        Field(strict=False, max_length=MAX_FILES, description="Single objects to fetch."),
    ] = None
    folders: Annotated[
        tuple[CloudDownloadFolder, ...] | None,
        Field(strict=False, max_length=MAX_FILES, description="Prefixes to fetch."),
    ] = None

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if not self.files and not self.folders:
            raise ValueError("expected files or folders; use a folder with path '.' for everything")
        return self


class S3DownloadItem(Model):
    """Downloads from one S3-compatible store."""

    endpoint_url: Annotated[
        Url, Field(description='URL of the S3 endpoint, for example "https://s3.us-east-1.amazonaws.com".')
    ]
    region: Annotated[Region | None, Field(description="Region that requests are signed for.")] = None
    access_key_id: Annotated[
        ValueReference | None,
        Field(
            description="Access key ID; without keys those of the namespace's defaults for this endpoint are "
            "used, and without these access is anonymous."
        ),
    ] = None
    secret_key: Annotated[ValueReference | None, Field(description="Secret access key.")] = None
    buckets: Annotated[
        tuple[CloudDownloadBucket, ...],
        Field(
            strict=False,
            min_length=1,
            max_length=MAX_BUCKETS,
            description="Buckets, and what to fetch from each.",
        ),
    ]

    @model_validator(mode="after")
    def _check_key_pair(self) -> Self:
        if (self.access_key_id is None) != (self.secret_key is None):
            raise ValueError("expected both accessKeyId and secretKey; remove both for anonymous access")
        return self


class GCSDownloadItem(Model):
    """Downloads from Google Cloud Storage."""

    application_credentials: Annotated[
        ValueReference | None,
        Field(
            description="JSON key of a service account; without it that of the namespace's defaults is used, "
            "and without this access is anonymous."
        ),
    ] = None
    buckets: Annotated[
        tuple[CloudDownloadBucket, ...],
        Field(
            strict=False,
            min_length=1,
            max_length=MAX_BUCKETS,
            description="Buckets, and what to fetch from each.",
        ),
    ]


class AzureBlobStorageDownloadItem(Model):
    """Downloads from Azure Blob Storage."""

    connection_string: Annotated[
        ValueReference | None,
        Field(
            description="Connection string of the storage account; without it that of the namespace's "
            "defaults is used. One of them is required."
        ),
    ] = None
    containers: Annotated[
        tuple[CloudDownloadBucket, ...],
        Field(
            strict=False,
            min_length=1,
            max_length=MAX_BUCKETS,
            description="Containers, and what to fetch from each.",
        ),
    ]


class GitDownloadItem(Model):
    """A git repository, or a part of it."""

    repository: Annotated[
        Url, Field(description='URL of the repository, for example "https://github.com/user/repo.git".')
    ]
    branch: Annotated[
        GitRef | None,
        Field(description="Branch to take; by default the repository's own. It wins over commit."),
    ] = None
    commit: Annotated[
        Commit | None,
        Field(description="Full hash of the commit to check out; ignored when branch is given."),
    ] = None
    username: Annotated[ValueReference | None, Field(description="User name for private repositories.")] = (
        None
    )
    token: Annotated[
        ValueReference | None, Field(description="Token or password for private repositories.")
    ] = None
    path: Annotated[
        TargetPath | None, Field(description="Only this path of the repository; by default all of it.")
    ] = None
    target_path: Annotated[TargetPath, Field(description="Folder to write to, relative to the data volume.")]
    lfs: Annotated[
        bool | None,
        Field(description="Download the files of Git LFS; by default their pointers are left as they are."),
    ] = None

    @property
    def part(self) -> str | None:
        """The normalised path; None when all of the repository is wanted."""
        names = [name for name in (self.path or "").split("/") if name not in ("", ".")]
        return "/".join(names) or None

    @property
    def exact_commit(self) -> str | None:
        """The commit to check out and verify; None when a branch decides."""
        return None if self.branch else self.commit


def git_warnings(item: Mapping[str, Any]) -> Iterator[Problem]:
    """Warn about a commit that is ignored because a branch is set."""
    if item.get("branch") and item.get("commit"):
        yield Problem(
            "commit", "is ignored: the branch decides", "remove branch to check out exactly this commit"
        )


def object_warnings(item: Mapping[str, Any]) -> Iterator[Problem]:
    """Warn about globs that look like those of another program: they match other objects, mostly none."""
    for field in ("buckets", "containers"):
        for place, bucket in enumerate(item.get(field) or ()):
            for number, folder in enumerate(bucket.get("folders") or ()):
                if advice := globs.advice(folder.get("glob")):
                    yield Problem(f"{field}[{place}].folders[{number}].glob", advice)


def hub_warnings(item: Mapping[str, Any]) -> Iterator[Problem]:
    """Warn about files that look like patterns: the Hub has hardly a file of such a name."""
    for number, name in enumerate(item.get("files") or ()):
        if _WILDCARD.search(name):
            yield Problem(
                f"files[{number}]",
                "is the name of one file: no character stands for others",
                "name each file, or remove files for the whole repository",
            )


class HuggingFaceDownloadItem(Model):
    """A repository of the Hugging Face Hub, fetched into the cache volume."""

    repo_id: Annotated[
        RepoId, Field(description='The repository, for example "meta-llama/Llama-2-7b-chat-hf".')
    ]
    files: Annotated[
        tuple[Path, ...] | None,
        Field(
            strict=False,
            max_length=MAX_FILES,
            description="Only these files; by default the whole repository.",
        ),
    ] = None
    revision: Annotated[
        GitRef | None, Field(description="Branch, tag or commit; by default the repository's main branch.")
    ] = None
