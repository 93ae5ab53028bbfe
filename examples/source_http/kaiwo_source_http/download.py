"""What runs in the download container: it says what to fetch, and the engine there fetches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo_source_http.item import HttpDownloadItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.plugin.kit.downloads import Downloads, ItemObject


def fetch(items: Sequence[ItemObject], downloads: Downloads) -> None:
    """Ask for the file of each item.

    Raises:
        ValueError: an item is wrong; pydantic's error is one.
    """
    for index, raw in enumerate(items):
        item = HttpDownloadItem.parse(raw)
        downloads.http(f"http[{index}]", item.url, item.target_path, sha256=item.sha256)
