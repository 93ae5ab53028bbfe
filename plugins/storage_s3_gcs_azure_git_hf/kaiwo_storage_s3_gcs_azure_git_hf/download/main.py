"""``kaiwo-download CONFIG.yaml``: fetch what the configuration says into the volumes.

Exit codes: 0 done, 1 defect of the program, 2 configuration, 3 not found or denied, 4 integrity, 5 disk full,
6 network gave up, 130 and 143 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import yaml
from pydantic import ValidationError

from kaiwo.api.download import DownloadConfig
from kaiwo_storage_s3_gcs_azure_git_hf.download import disk, errors, space
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import ConfigError, DiskFullError, DownloadError
from kaiwo_storage_s3_gcs_azure_git_hf.download.gate import Gate
from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import Journal
from kaiwo_storage_s3_gcs_azure_git_hf.download.parse import first_mistake
from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import Progress, human
from kaiwo_storage_s3_gcs_azure_git_hf.download.session import Session
from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo_storage_s3_gcs_azure_git_hf.download.model import File

_PACKAGE = "kaiwo_storage_s3_gcs_azure_git_hf.download"
FIRST_PARTY = {
    "s3": f"{_PACKAGE}.objects:s3",
    "gcs": f"{_PACKAGE}.objects:gcs",
    "azureBlob": f"{_PACKAGE}.objects:azure_blob",
    "git": f"{_PACKAGE}.git:fetch",
    "huggingFace": f"{_PACKAGE}.hub:fetch",
}
"""Downloaders of this distribution, for configurations that name none."""

TERMINATION_LOG = Path("/dev/termination-log")
"""Where Kubernetes reads a container's last message (terminationMessagePath's default)."""


def read_config(path: str) -> DownloadConfig:
    """The document.

    Raises:
        ConfigError: it cannot be read, or is wrong.
    """
    try:
        document = _parsed(Path(path).read_text(encoding="utf-8"))
        return DownloadConfig.parse(document if isinstance(document, dict) else {})
    except OSError as error:
        raise ConfigError(path, f"cannot be read ({error.strerror})", "check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise ConfigError(path, "is no YAML", "check the file") from None
    except ValidationError as error:
        raise ConfigError(path, first_mistake(error), "correct the file") from None


def _parsed(text: str) -> object:
    """A document in YAML, or in JSON, some of whose escapes are none to the YAML parser."""
    if text.lstrip().startswith("{"):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    return yaml.safe_load(text)


def _declare(config: DownloadConfig, session: Session) -> None:
    for key, items in config.items.items():
        if not items:
            continue
        name = config.downloaders.get(key) or FIRST_PARTY.get(key)
        if name is None:
            raise ConfigError(key, "no downloader is named for it", f"add downloaders.{key}")
        module, _, function = name.partition(":")
        try:
            fetch = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError):
            raise ConfigError(
                key, f"its downloader {name} is not installed", "use an image that has it"
            ) from None
        try:
            fetch(list(items), session)
        except ValidationError as error:
            raise ConfigError(key, first_mistake(error), "correct the item") from None
        except ValueError as error:
            raise ConfigError(key, str(error), "correct the item") from None


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _print_plan(files: Sequence[File], session: Session) -> None:
    for file in files:
        _say(f"{human(file.size):>10}  {file.name} -> {file.path}  ({file.where})")
    for task in session.tasks:
        _say(f"{'':>10}  {task.summary}  ({task.where})")
    total = sum(file.size for file in files)
    _say(f"{human(total)} in {len(files)} files, {len(session.tasks)} repositories")


def _settle(session: Session) -> None:
    """What is told as done survives a crash: names of files too, and what git and the Hub's client wrote."""
    for volume in session.volumes:
        try:
            disk.sync(volume.root)
        except OSError as error:
            step = "make the volume larger, or check it"
            raise DiskFullError("", f"{volume.root} cannot be written ({error.strerror})", step) from None


def _execute(session: Session, arguments: argparse.Namespace) -> dict[str, Any]:
    files = session.plan()
    if arguments.dry_run:
        _print_plan(files, session)
        return {}
    with contextlib.ExitStack() as stack:
        journals = {volume: Journal(volume.own()) for volume in session.volumes}
        for journal in journals.values():
            stack.callback(journal.close)
        for volume in session.volumes:
            volume.clean()
        progress = Progress(arguments.progress or ("bar" if sys.stderr.isatty() else "lines"))
        transfer = Transfer(session.config.limits, journals, progress, session.explained, session.stop)
        there = [file for file in files if transfer.finished(file)]
        missing = set(files).difference(there)
        ordered = [file for file in files if file in missing]
        space.check_files(ordered)
        progress.expect(sum(file.size for file in files))
        progress.skip(sum(file.size for file in there))
        with progress:
            transfer.run(ordered, session.tasks)
            if ordered or session.tasks:
                _settle(session)
        return {
            "files": len(files),
            "filesSkipped": len(there),
            "bytes": progress.state()["bytesTotal"],
            "bytesTransferred": progress.done,
        }


def _report(arguments: argparse.Namespace, summary: dict[str, Any], code: int, line: str) -> None:
    record = {"event": "done" if code == 0 else "failed", "exitCode": code, **summary}
    if line:
        record["message"] = line
    text = json.dumps(record)
    if arguments.progress == "json":
        _tell(text)
    elif line:
        _tell(f"kaiwo-download: {line}")
    elif summary:
        moved = human(summary["bytesTransferred"])
        _tell(f"done: {summary['files']} files, {moved} transferred")
    path = Path(arguments.termination_log)
    if path.exists():
        with contextlib.suppress(OSError):
            path.write_text(text, encoding="utf-8")


def _interrupted(number: int, _frame: object) -> None:
    # What is on the volume is in the journal already; threads in the middle of a read are not waited for.
    os._exit(128 + number)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kaiwo-download", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("config", metavar="CONFIG.yaml", help="what to fetch")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and fetch nothing")
    parser.add_argument("--progress", choices=["bar", "lines", "json"], help="how to tell progress on stderr")
    parser.add_argument("--target-root", metavar="DIR", help="write below DIR instead of the mount paths")
    parser.add_argument("--termination-log", metavar="FILE", default=str(TERMINATION_LOG))
    return parser.parse_args(argv)


def main() -> NoReturn:
    """Entry point of the program."""
    signal.signal(signal.SIGTERM, _interrupted)
    signal.signal(signal.SIGINT, _interrupted)
    code = run(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is closed; taking the interpreter apart would take longer than many a download.
    os._exit(code)


def run(argv: Sequence[str]) -> int:
    """Do what the arguments say and return the exit code."""
    arguments = _arguments(argv)
    summary: dict[str, Any] = {}
    code, line = 0, ""
    try:
        config = read_config(arguments.config)
        roots = {"data": config.data_mount_path or "", "hf": config.hf_mount_path or ""}
        if arguments.target_root:
            roots = {name: arguments.target_root + path for name, path in roots.items() if path}
        gate = Gate(private=config.policy.allow_private_endpoints)
        with contextlib.closing(gate), contextlib.closing(Session(config, gate, roots)) as session:
            _declare(config, session)
            summary = _execute(session, arguments)
    except DownloadError as error:
        code, line = error.code, str(error)
    except OSError as error:
        code, line = _unwritten(error)
    _report(arguments, summary, code, line)
    return code


def _unwritten(error: OSError) -> tuple[int, str]:
    """What a volume that cannot be written means: exit code and line."""
    what = f"{error.filename or 'the volume'} cannot be written ({error.strerror})"
    if errors.full(error):
        return DiskFullError.code, str(DiskFullError("", what, "make the volume larger"))
    step = f"check the volume, and that user {os.getuid()} may write to it"
    return ConfigError.code, str(ConfigError("", what, step))


if __name__ == "__main__":
    main()
