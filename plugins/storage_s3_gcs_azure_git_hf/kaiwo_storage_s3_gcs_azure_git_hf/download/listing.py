"""What is in a bucket."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo_storage_s3_gcs_azure_git_hf.download.model import Store


def listed(where: str, store: Store, prefix: str) -> dict[str, Any]:
    """The objects below a prefix, by key.

    Raises:
        ConfigError: two keys are one to the client, which takes no slashes at their ends.
    """
    import obstore

    chunks = obstore.list(store.remote, prefix=prefix or None, chunk_size=1000)
    found = [meta for chunk in chunks for meta in chunk]
    by = {meta["path"]: meta for meta in found}
    if len(by) < len(found):
        for meta in found:
            other = by[meta["path"]]
            if meta["size"] and other["size"] and meta["e_tag"] != other["e_tag"]:
                raise ConfigError(
                    where,
                    f"{store.name} has keys that differ from {meta['path']!r} only in slashes at their ends",
                    "rename or remove one of them",
                )
            if meta["size"] > other["size"]:
                by[meta["path"]] = meta
    return by


def has_below(keys: Sequence[str], key: str) -> bool:
    """Whether one of the sorted keys lies below another."""
    index = bisect.bisect_left(keys, f"{key}/")
    return index < len(keys) and keys[index].startswith(f"{key}/")
