"""etcd templates: copies of etcd's data right after a first start, which make later starts and resets quick.

SIGSTOP pauses etcd while its files are copied. The copy is what etcd would find after a crash, and etcd
recovers from that. A template belongs to one combination of programs, addons and certificate authority,
because that authority signed the service account tokens in it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
from typing import TYPE_CHECKING

from kaiwo_sandbox.generations import NEWER
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import cache_dir, make_private

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kaiwo_sandbox.process import Process

VERSION = "3"
"""Raise it when the initial objects of a sandbox change."""

_DATA, _PORTS = "etcd", "ports.json"


def _root() -> Path:
    return make_private(cache_dir()) / "templates"


def _prefix(addons: Sequence[str], generation: str) -> str:
    if not addons:
        return "bare"
    return "-".join([*sorted(addons), *([] if generation == NEWER.name else [generation])])


def location(*, binaries_key: str, addons: Sequence[str], generation: str, authority: str) -> Path:
    """The path of the template for this combination, which need not exist."""
    digest = hashlib.sha256(f"{VERSION}\n{binaries_key}\n{authority}".encode()).hexdigest()[:16]
    return _root() / f"{_prefix(addons, generation)}.{digest}"


def restore(template: Path, data: Path) -> bool:
    """Replace the data directory of a stopped etcd; return False if the template does not exist."""
    with locked(_root() / "lock"):
        if not template.is_dir():
            return False
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(template / _DATA, data)
    return True


def ports(template: Path) -> dict[str, int]:
    """The ports of the sandbox that the template was made from; webhook addresses in it contain them."""
    try:
        found: dict[str, int] = json.loads((template / _PORTS).read_text())
    except (OSError, ValueError):
        return {}
    return found


def save(template: Path, etcd: Process, data: Path, used_ports: Mapping[str, int]) -> None:
    """Copy the data of a running etcd and remove older templates for the same addons."""
    with locked(_root() / "lock"):
        if template.is_dir():
            return
        fresh = template.with_name(f"{template.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        copy(etcd, data, fresh / _DATA)
        (fresh / _PORTS).write_text(json.dumps(dict(used_ports)))
        for older in _root().glob(f"{template.name.partition('.')[0]}.*"):
            if older != fresh:
                shutil.rmtree(older, ignore_errors=True)
        fresh.rename(template)


def copy(etcd: Process, data: Path, target: Path) -> None:
    """Copy the data of a running etcd, which stands still meanwhile."""
    etcd.signal(signal.SIGSTOP)
    try:
        shutil.copytree(data, target)
    finally:
        etcd.signal(signal.SIGCONT)
