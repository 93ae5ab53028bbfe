"""Large files of git repositories: pointers replaced by what they point to, checked by SHA-256.

The batch interface of Git LFS is two requests per file at most, so no further program is needed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kaiwo_storage_s3_gcs_azure_git_hf.download import space
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import (
    ConfigError,
    DiskFullError,
    DownloadError,
    IntegrityError,
    NetworkError,
    NotAvailableError,
    full,
    passing,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.headers import elsewhere

if TYPE_CHECKING:
    import urllib.request
    from collections.abc import Callable
    from pathlib import Path

    from kaiwo_storage_s3_gcs_azure_git_hf.download.git import GitTask
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import Progress

_LONGEST_POINTER = 1024
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
_TYPE = "application/vnd.git-lfs+json"
_BATCH = 100
_CHUNK = 1024**2


def fetch(task: GitTask, source: Path, progress: Progress, elsewhere_at: Callable[[], str | None]) -> None:
    """Replace the pointers in a tree.

    Args:
        task: the repository.
        source: its tree.
        progress: is told of every byte.
        elsewhere_at: finds the URL that the repository names for its large files; None for its own server.

    Raises:
        DownloadError: a file cannot be had, or is not what its pointer says.
    """
    pointers = _pointers(source)
    size = sum(size for _, size in pointers.values())
    progress.expect(size)
    space.check(task.where, task.volume, size)
    url = _server(task, elsewhere_at() if pointers else None)
    names = list(pointers)
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        wanted = {pointers[path] for path in batch}
        actions = task.session.retried(partial(_ask, task, url, wanted))
        for path in batch:
            task.session.retried(partial(_download, task, path, pointers[path], actions, progress))


def _pointers(source: Path) -> dict[Path, tuple[str, int]]:
    found = {}
    for path in source.rglob("*") if source.is_dir() else [source]:
        if ".git" in path.parts or path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size <= _LONGEST_POINTER and (match := _POINTER.match(path.read_bytes())):
            found[path] = (match[1].decode(), int(match[2]))
    return found


def _credentials(task: GitTask) -> dict[str, str]:
    item = task.item
    if not item.token:
        return {}
    user = task.session.secret(task.where, item.username) if item.username else "x-access-token"
    token = task.session.secret(task.where, item.token)
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}


def _sign(request: urllib.request.Request, headers: dict[str, str]) -> None:
    """Add headers that a redirect does not carry to another host."""
    for name, value in headers.items():
        request.add_unredirected_header(name, str(value))


def _server(task: GitTask, named: str | None) -> str:
    """The URL of the interface; one that the repository names is from whoever wrote the repository."""
    own = task.item.repository.rstrip("/")
    url = (named or f"{own.removesuffix('.git')}.git/info/lfs").rstrip("/")
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(
            task.where,
            f"large files of {own} are at no http or https URL (.lfsconfig)",
            "take another commit",
        )
    return f"{url}/objects/batch"


def _ask(task: GitTask, url: str, wanted: set[tuple[str, int]]) -> dict[str, dict[str, Any]]:
    import urllib.request

    body = {
        "operation": "download",
        "transfers": ["basic"],
        "objects": [{"oid": oid, "size": size} for oid, size in wanted],
    }
    headers = {"Accept": _TYPE, "Content-Type": _TYPE}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - the gate checks
    if not elsewhere(urlsplit(task.item.repository), urlsplit(url)):
        _sign(request, _credentials(task))
    try:
        with task.session.gate.opener().open(
            request, timeout=task.session.config.limits.stall_seconds
        ) as answer:
            objects = json.load(answer)["objects"]
            return {entry["oid"]: entry.get("actions", {}).get("download", {}) for entry in objects}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _explained(task, "large files", error) from None


def _download(
    task: GitTask,
    path: Path,
    pointer: tuple[str, int],
    actions: dict[str, dict[str, Any]],
    progress: Progress,
) -> None:
    import urllib.request

    oid, size = pointer
    action = actions.get(oid) or {}
    url = str(action.get("href", ""))
    if urlsplit(url).scheme not in ("http", "https"):
        raise NotAvailableError(task.where, f"large file {path.name} is not on the server", "push it there")
    same = not elsewhere(urlsplit(task.item.repository), urlsplit(url))
    request = urllib.request.Request(url)  # noqa: S310 - the gate checks where it goes
    _sign(request, {**(_credentials(task) if same else {}), **action.get("header", {})})
    digest, got = hashlib.sha256(), 0
    partial = path.with_name(f".{oid}.part")  # a name that no file of the tree has
    try:
        with (
            task.session.gate.opener().open(
                request, timeout=task.session.config.limits.stall_seconds
            ) as answer,
            partial.open("wb") as out,
        ):
            while got <= size and (data := answer.read(_CHUNK)):
                digest.update(data)
                out.write(data)
                got += len(data)
                progress.add(len(data))
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        progress.add(-got)
        raise _explained(task, f"large file {path.name}", error) from None
    if got != size or digest.hexdigest() != oid:
        raise IntegrityError(
            task.where, f"large file {path.name} is not what its pointer says", "check the server's copy"
        )
    partial.replace(path)


def _explained(task: GitTask, what: str, error: Exception) -> DownloadError:
    name = f"{what} of {task.item.repository}"
    if refused := task.session.gate.refused():
        return ConfigError(task.where, f"{name} lead to {refused}", "use a host workloads may reach")
    import urllib.error

    if isinstance(error, urllib.error.HTTPError) and not passing(error.code):
        return NotAvailableError(
            task.where, f"{name} cannot be had (HTTP {error.code})", "check the token and that they exist"
        )
    if isinstance(error, OSError) and full(error):
        return DiskFullError(task.where, f"no room left for {name}", "make the volume larger")
    return NetworkError(task.where, f"{name} could not be read", "check the host and the network")
