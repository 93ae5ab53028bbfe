"""Lists the objects of a bucket."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo_storage_s3_gcs_azure_git_hf.download.budget import DownloadBudget
    from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer_types import ObjectStore


def list_objects(where: str, store: ObjectStore, prefix: str, budget: DownloadBudget) -> dict[str, Any]:
    """List the objects below a prefix, by key.

    Raises:
        ConfigError: there are too many, or two keys differ only in slashes at their ends.
    """
    import obstore

    chunks = obstore.list(store.remote, prefix=prefix or None, chunk_size=1000)
    found: list[Any] = []
    for chunk in chunks:
        found += chunk
        budget.check_listing(where, len(found))
    by_key = {meta["path"]: meta for meta in found}
    if len(by_key) < len(found):
        for meta in found:
            other = by_key[meta["path"]]
            if meta["size"] and other["size"] and meta["e_tag"] != other["e_tag"]:
                raise ConfigError(
                    where,
                    f"{store.name}: keys differ from {meta['path']!r} only in slashes at their ends",
                    "rename or remove one of them",
                )
            if meta["size"] > other["size"]:
                by_key[meta["path"]] = meta
    return by_key


def has_below(keys: Sequence[str], key: str) -> bool:
    """Whether one of the sorted keys lies below another."""
    index = bisect.bisect_left(keys, f"{key}/")
    return index < len(keys) and keys[index].startswith(f"{key}/")
