"""Runs the download program for items of a source, as a download pod does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kaiwo.api.download import item_key
from kaiwo.plugin.sources import secret_reference
from kaiwo.testing.assertions import require

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.sources import DownloadSource

PROGRAM: Final = "kaiwo-download"
_SECONDS: Final = 120
_RUN: Final = "import sys; from {module} import {name}; sys.argv[0] = 'kaiwo-download'; {name}()"


@dataclass(frozen=True, slots=True)
class DownloadRun:
    """How a run of the download program ended.

    Attributes:
        code: its exit code: 0 done, 2 configuration, 3 not found or denied, 4 integrity, 5 disk full,
            6 network failure.
        log: what it wrote to standard error.
        folder: what the data volume has afterwards.
    """

    code: int
    log: str
    folder: Path

    @property
    def files(self) -> dict[str, bytes]:
        """The downloaded files by their paths below the folder."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not path.relative_to(self.folder).parts[0].startswith(".")
        }


def download(
    source: DownloadSource,
    items: Sequence[Object],
    secrets: Mapping[str, Mapping[str, str]] | None = None,
    *,
    folder: Path,
    settings: BaseModel | None = None,
    retry_seconds: int = 0,
) -> DownloadRun:
    """Run the real download program for items of a source.

    The program is that of the download image: the same engine, checks, limits and network policy. It comes
    with ``pip install 'kaiwo[download]'``.

    Args:
        source: the source, with a downloader.
        items: items as users write them.
        secrets: values of Secrets that the items refer to: name, then key.
        folder: a folder that stands for the data volume; it is made where there is none.
        settings: settings of the plugin, for a source that names their model; the defaults without.
        retry_seconds: how long a transient failure is tried again; a pod does it for three minutes.

    Raises:
        AssertionError: the program is not installed, or an item refers to a Secret that is not given.
    """
    require(source.downloader, f"download source {source.name} has no downloader")
    found = next(iter(entry_points(group="console_scripts", name=PROGRAM)), None)
    if found is None:
        raise AssertionError(f"{PROGRAM} is not installed; pip install 'kaiwo[download]'")
    folder.mkdir(parents=True, exist_ok=True)
    key = item_key(source.path)
    chosen = settings if settings is not None else source.settings() if source.settings else None
    with tempfile.TemporaryDirectory(prefix="kaiwo-secrets-") as mounted:
        given = [_mounted(item, secrets or {}, Path(mounted)) for item in items]
        document = {
            "version": 1,
            "dataMountPath": str(folder.absolute()),
            "hfMountPath": str(folder.absolute()),
            "items": {key: given},
            "downloaders": {key: source.downloader},
            "settings": {key: chosen.model_dump(mode="json", by_alias=True)} if chosen is not None else {},
            "limits": {"retrySeconds": retry_seconds},
        }
        config = Path(mounted) / "config.yaml"
        config.write_text(json.dumps(document), encoding="utf-8")
        code = _RUN.format(module=found.module, name=found.attr)
        done = subprocess.run(
            [sys.executable, "-c", code, str(config)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    return DownloadRun(done.returncode, done.stderr, folder)


def _mounted(value: Any, secrets: Mapping[str, Mapping[str, str]], folder: Path) -> Any:
    """An item whose references to Secrets name files of a folder in place of those of the pod."""
    if reference := secret_reference(value):
        content = secrets.get(reference.name, {}).get(reference.key)
        require(content is not None, f"key {reference.key} of Secret {reference.name} is not given")
        file = folder / reference.name / reference.key
        file.parent.mkdir(exist_ok=True)
        file.write_text(str(content), encoding="utf-8")
        return {**value, "file": str(file)}
    if isinstance(value, dict):
        return {name: _mounted(part, secrets, folder) for name, part in value.items()}
    if isinstance(value, list):
        return [_mounted(part, secrets, folder) for part in value]
    return value
