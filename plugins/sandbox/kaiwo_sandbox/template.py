"""A copy of etcd's data taken right after the first start, so that the next start and a reset take seconds.

etcd is stopped with SIGSTOP while its files are copied: it then writes nothing, and a data directory copied
like that is what it would find after a crash, which it recovers from. A copy serves one combination of
programs, addons and certificate authority, because service account tokens in it are signed by that authority.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
from typing import TYPE_CHECKING

from kaiwo_sandbox.catalogue import NEWER
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import cache_dir, make_private

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kaiwo_sandbox.process import Process

VERSION = "2"
"""Raised whenever the objects that a fresh sandbox starts with change."""

_DATA, _PORTS = "etcd", "ports.json"


def _root() -> Path:
    return make_private(cache_dir()) / "templates"


def _kind(addons: Sequence[str], generation: str) -> str:
    return (
        "-".join([*sorted(addons), *([] if generation == NEWER.name else [generation])]) if addons else "bare"
    )


def location(*, binaries_key: str, addons: Sequence[str], generation: str, authority: str) -> Path:
    """Where the copy for this combination lies, if there is one."""
    digest = hashlib.sha256(f"{VERSION}\n{binaries_key}\n{authority}".encode()).hexdigest()[:16]
    return _root() / f"{_kind(addons, generation)}.{digest}"


def restore(template: Path, data: Path) -> bool:
    """Replace the data directory of a stopped etcd by the copy; False if there is none."""
    with locked(_root() / "lock"):
        if not template.is_dir():
            return False
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(template / _DATA, data)
    return True


def ports(template: Path) -> dict[str, int]:
    """The ports of the sandbox that the copy was taken from; webhook addresses in it hold them."""
    try:
        found: dict[str, int] = json.loads((template / _PORTS).read_text())
    except (OSError, ValueError):
        return {}
    return found


def save(template: Path, etcd: Process, data: Path, used: Mapping[str, int]) -> None:
    """Copy the data of a running etcd, in place of older copies for the same addons."""
    with locked(_root() / "lock"):
        if template.is_dir():
            return
        fresh = template.with_name(f"{template.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        etcd.signal(signal.SIGSTOP)
        try:
            shutil.copytree(data, fresh / _DATA)
        finally:
            etcd.signal(signal.SIGCONT)
        (fresh / _PORTS).write_text(json.dumps(dict(used)))
        for older in _root().glob(f"{template.name.partition('.')[0]}.*"):
            if older != fresh:
                shutil.rmtree(older, ignore_errors=True)
        fresh.rename(template)
