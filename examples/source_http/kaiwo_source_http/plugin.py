"""One more download source: the field that it owns, the model of its items, and its downloader."""

from __future__ import annotations

from kaiwo.plugin import hookimpl
from kaiwo.plugin.sources import DownloadSource

KAIWO_API = 1


@hookimpl
def kaiwo_download_sources() -> list[DownloadSource]:
    """Users write ``storage.data.download.http``."""
    from kaiwo_source_http.item import HttpDownloadItem

    return [
        DownloadSource(
            name="http",
            path=("data", "download", "http"),
            item=HttpDownloadItem,
            description="Downloads from web servers over http or https.",
            downloader="kaiwo_source_http.download:fetch",
        )
    ]
