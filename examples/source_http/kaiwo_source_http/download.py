"""What runs in the download container: it says what to fetch, and the engine there fetches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.downloads import parse_items
from kaiwo_source_http.item import HttpDownloadItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.plugin.kit.downloads import Downloads, ItemObject


def fetch(items: Sequence[ItemObject], downloads: Downloads) -> None:
    """Ask for the file of each item.

    Raises:
        ItemError: an item is wrong; the message names it.
    """
    for where, item in parse_items("http", HttpDownloadItem, items):
        downloads.http(where, item.url, item.target_path, sha256=item.sha256)
