"""What a user writes: one file of a web server."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from kaiwo.plugin.kit.fields import Model, Sha256, TargetFile


class HttpDownloadItem(Model):
    """One file of a web server."""

    url: Annotated[
        str,
        StringConstraints(max_length=2048, pattern=r"^https?://[^\s/?#@]+/[^\s?#]+$"),
        Field(description='URL of the file, without a query, for example "https://example.com/model.bin".'),
    ]
    sha256: Annotated[
        Sha256 | None,
        Field(description="SHA-256 of the content in hexadecimal; a download that differs fails."),
    ] = None
    target_path: Annotated[
        TargetFile, Field(min_length=1, description="File to write, relative to the data volume.")
    ]
