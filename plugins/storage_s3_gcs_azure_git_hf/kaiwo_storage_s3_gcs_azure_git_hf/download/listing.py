"""Lists the objects of a bucket, and checks that the list is complete."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any, Final

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError, NotAvailableError, http_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaiwo_storage_s3_gcs_azure_git_hf.download.budget import DownloadBudget
    from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer_types import ObjectStore

_CHUNK: Final = 1000
_PAGE: Final = 1000
"""Objects in a full page of a list, in every store that has the interface of S3."""

_START_UNSUPPORTED: Final = (400, 501)
"""What stores answer that cannot list from a key on."""


def list_objects(where: str, store: ObjectStore, prefix: str, budget: DownloadBudget) -> dict[str, Any]:
    """List the objects below a prefix, by key.

    The client takes an answer without a continuation token for the last one, even if the store says in it
    that the list is truncated, and takes a page for the next one if the store sends it twice. So what
    follows the last key is listed again, until nothing does.

    Raises:
        ConfigError: there are too many, or two keys differ only in slashes at their ends.
        NotAvailableError: the store sends pages twice, or ends the list with a full page, and does not list
            from a key on.
    """
    by_key: dict[str, Any] = {}
    repeats = False
    count = 0
    for chunk in _chunks(store, prefix):
        count += len(chunk)
        fresh = [meta for meta in chunk if by_key.get(meta["path"]) != meta]
        repeats = repeats or len(fresh) < len(chunk)
        for meta in fresh:
            _add(where, store, by_key, meta)
        budget.check_listing(where, len(by_key))
        if not fresh:
            break
    while by_key:
        last = max(by_key, key=str.encode)
        chunk = _next_after(store, prefix, last)
        fresh = [meta for meta in chunk if meta["path"] not in by_key]
        if not fresh:
            if any(meta["path"].encode() < last.encode() for meta in chunk):
                _check_ignored_start(where, store, count, repeats=repeats)
            break
        for meta in fresh:
            _add(where, store, by_key, meta)
        budget.check_listing(where, len(by_key))
    return by_key


def _check_ignored_start(where: str, store: ObjectStore, count: int, *, repeats: bool) -> None:
    """Check that a list can be complete although the store does not list from a key on.

    A store that knows only the first version of lists ignores that wish, and gives no continuation token.

    Raises:
        NotAvailableError: it may have more objects.
    """
    if repeats:
        reason = "the store lists the same objects again instead of the next ones"
    elif count % _PAGE == 0:
        reason = f"the list may be cut after {count} objects: the store cannot continue lists (ListObjectsV2)"
    else:
        return
    raise NotAvailableError(where, f"{store.name}: {reason}", "name a folder with fewer objects, or files")


def has_below(keys: Sequence[str], key: str) -> bool:
    """Whether one of the sorted keys lies below another."""
    index = bisect.bisect_left(keys, f"{key}/")
    return index < len(keys) and keys[index].startswith(f"{key}/")


def _chunks(store: ObjectStore, prefix: str, after: str | None = None) -> Iterator[Sequence[Any]]:
    import obstore

    return iter(obstore.list(store.remote, prefix=prefix or None, offset=after, chunk_size=_CHUNK))


def _next_after(store: ObjectStore, prefix: str, key: str) -> Sequence[Any]:
    """The first objects after a key; none where the store cannot list from a key on."""
    from obstore.exceptions import BaseError

    try:
        return next(_chunks(store, prefix, key), ())
    except BaseError as error:
        if http_status(error) in _START_UNSUPPORTED:
            return ()
        raise


def _add(where: str, store: ObjectStore, by_key: dict[str, Any], meta: Any) -> None:
    other = by_key.setdefault(meta["path"], meta)
    if meta["size"] and other["size"] and meta["e_tag"] != other["e_tag"]:
        raise ConfigError(
            where,
            f"{store.name}: keys differ from {meta['path']!r} only in slashes at their ends",
            "rename or remove one of them",
        )
    if meta["size"] > other["size"]:
        by_key[meta["path"]] = meta
