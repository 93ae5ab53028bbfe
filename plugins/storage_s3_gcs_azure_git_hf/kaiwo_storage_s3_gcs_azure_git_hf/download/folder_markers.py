"""Tells objects that mark folders from empty files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kaiwo_storage_s3_gcs_azure_git_hf.download import listing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer_types import ObjectFile

_PARALLEL_LOOKUPS = 16

_HADOOP_MARKER = "_$folder$"
"""The suffix of the empty objects by which Hadoop's connectors and EMR mark folders in S3 and GCS."""

_AZURE_FOLDER = "x-ms-meta-hdi_isfolder"
"""The metadata by which Azure marks a blob as a folder (value ``true``)."""


def without_markers(
    found: list[ObjectFile], listed: Mapping[str, Any], call: Callable[[str, str, Callable[[], Any]], Any]
) -> list[ObjectFile]:
    """Drop markers of folders.

    They are empty objects with others below them, with a '/' at the end of the key, with the suffix of
    Hadoop, or folders of Azure's hierarchical namespace.

    Args:
        found: the files.
        listed: the keys of all objects beside them.
        call: runs a request for an item and a name in messages, again while its failure is transient.

    Raises:
        DownloadError: a request failed for good.
    """
    empty = [file for file in found if not file.size]
    if not empty:
        return found
    keys = sorted(listed)
    markers = {
        file for file in empty if file.key.endswith(_HADOOP_MARKER) or listing.has_below(keys, file.key)
    }
    alone = [file for file in empty if file not in markers]

    def is_marker(file: ObjectFile) -> bool:
        return bool(call(file.where, file.name, lambda: _is_marker(file)))

    with ThreadPoolExecutor(_PARALLEL_LOOKUPS, "lookup") as pool:
        markers.update(file for file, is_one in zip(alone, pool.map(is_marker, alone), strict=True) if is_one)
    return [file for file in found if file not in markers]


def is_azure_folder(file: ObjectFile) -> bool:
    """Whether an empty object is a folder of Azure's hierarchical namespace, which lists them as blobs.

    Raises:
        ConnectionError: the store is unreachable or busy.
    """
    store = file.store
    if store.headers is None or store.md5_etag or store.plain:
        return False
    return store.headers.read(file.key).get(_AZURE_FOLDER, "").lower() == "true"


def _is_marker(file: ObjectFile) -> bool:
    """Whether an empty object marks a folder: its key ends in '/', so the key without it is absent."""
    import obstore

    try:
        obstore.head(file.store.remote, file.key)
    except FileNotFoundError:
        return True
    return is_azure_folder(file)
