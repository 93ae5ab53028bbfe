"""What a user writes: one file of a web server."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from kaiwo.plugin.kit.fields import Model


def _inside(path: str) -> str:
    if ".." in path.split("/"):
        raise ValueError("leaves the volume; write a path without '..'")
    return path


class HttpDownloadItem(Model):
    """One file of a web server."""

    url: Annotated[
        str,
        StringConstraints(max_length=2048, pattern=r"^https?://[^\s/?#@]+/[^\s?#]+$"),
        Field(description='URL of the file, without a query, for example "https://example.com/model.bin".'),
    ]
    sha256: Annotated[
        str | None,
        StringConstraints(pattern=r"^[0-9a-fA-F]{64}$"),
        Field(description="SHA-256 of the content in hexadecimal; a download that differs fails."),
    ] = None
    target_path: Annotated[
        str,
        StringConstraints(min_length=1, max_length=1024, pattern=r"^[^/].*$"),
        AfterValidator(_inside),
        Field(description="File to write, relative to the data volume."),
    ]
