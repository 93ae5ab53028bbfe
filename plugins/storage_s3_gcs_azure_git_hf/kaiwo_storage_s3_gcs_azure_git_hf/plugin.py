"""The five download sources: the field that each owns and the model of its items."""

from __future__ import annotations

from kaiwo.plugin import hookimpl
from kaiwo.plugin.sources import DownloadSource

KAIWO_API = 1

DOWNLOADERS = "kaiwo_storage_s3_gcs_azure_git_hf.download"
"""Package of the download program; never imported by the operator."""


@hookimpl
def kaiwo_download_sources() -> list[DownloadSource]:
    """The sources, and the function of the download program that serves each."""
    from kaiwo_storage_s3_gcs_azure_git_hf import items

    return [
        DownloadSource(
            name="s3",
            path=("data", "download", "s3"),
            item=items.S3DownloadItem,
            description="Downloads from S3-compatible stores.",
            downloader=f"{DOWNLOADERS}.objects:s3",
            warnings=items.object_warnings,
            credentials=("accessKeyId", "secretKey"),
        ),
        DownloadSource(
            name="gcs",
            path=("data", "download", "gcs"),
            item=items.GCSDownloadItem,
            description="Downloads from Google Cloud Storage.",
            downloader=f"{DOWNLOADERS}.objects:gcs",
            warnings=items.object_warnings,
            credentials=("applicationCredentials",),
        ),
        DownloadSource(
            name="azure_blob",
            path=("data", "download", "azureBlob"),
            item=items.AzureBlobStorageDownloadItem,
            description="Downloads from Azure Blob Storage.",
            downloader=f"{DOWNLOADERS}.objects:azure_blob",
            warnings=items.object_warnings,
            credentials=("connectionString",),
            needs_credentials=True,
        ),
        DownloadSource(
            name="git",
            path=("data", "download", "git"),
            item=items.GitDownloadItem,
            description="Downloads from git repositories over http or https.",
            downloader=f"{DOWNLOADERS}.git:fetch",
            warnings=items.git_warnings,
        ),
        DownloadSource(
            name="hugging_face",
            path=("huggingFace", "preCacheRepos"),
            item=items.HuggingFaceDownloadItem,
            description="Repositories of the Hugging Face Hub to fetch into the cache volume.",
            downloader=f"{DOWNLOADERS}.hub:fetch",
            warnings=items.hub_warnings,
        ),
    ]
