"""Set L: servers, paths and volumes that misbehave towards the download program."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from campaign.case import StandaloneCase
from campaign.downloads import hubs, objects, repositories
from campaign.downloads.program import DownloadPod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def cases() -> Iterator[StandaloneCase]:
    """A case for each source and each fault that it can meet."""
    for store in objects.STORES:
        for name, case in objects.CASES.items():
            yield _case(f"{store}-{name}", partial(_with_bucket, store, case))
    yield _case("s3-many", partial(_with_bucket, "s3", objects.many), objects.MANY_SECONDS)
    for name, of_git in repositories.CASES.items():
        yield _case(f"git-{name}", partial(_with_repository, of_git))
    many = partial(_with_repository, repositories.many)
    yield _case("git-many", many, repositories.MANY_SECONDS)
    for name, of_hub in hubs.CASES.items():
        yield _case(f"hub-{name}", partial(_with_hub, of_hub))


def _case(name: str, run: Callable[[Path], None], seconds: float = 240.0) -> StandaloneCase:
    return StandaloneCase("L", name, lambda directory: asyncio.to_thread(run, directory), seconds=seconds)


def _pod(directory: Path) -> DownloadPod:
    folder = directory / "pod"
    folder.mkdir()
    return DownloadPod(folder)


def _with_bucket(store: str, case: Callable[[objects.Bucket], None], directory: Path) -> None:
    with objects.serving(store, _pod(directory)) as bucket:
        case(bucket)


def _with_repository(case: Callable[[repositories.Repository], None], directory: Path) -> None:
    with repositories.serving(_pod(directory), directory) as repository:
        case(repository)


def _with_hub(case: Callable[[hubs.Hub], None], directory: Path) -> None:
    with hubs.serving(_pod(directory)) as hub:
        case(hub)
