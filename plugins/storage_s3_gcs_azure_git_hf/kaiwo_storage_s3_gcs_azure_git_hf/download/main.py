"""``kaiwo-download CONFIG.yaml``: downloads the items of a configuration into the volumes.

Exit codes: 0 done, 1 internal error, 2 configuration, 3 not found or denied, 4 integrity, 5 disk full,
6 network failure, 130 and 143 interrupted.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import ValidationError

from kaiwo.plugin.kit.downloads import DownloadConfig, first_error
from kaiwo_storage_s3_gcs_azure_git_hf.download import disk, errors, free_space
from kaiwo_storage_s3_gcs_azure_git_hf.download.arguments import parse_arguments, with_policy
from kaiwo_storage_s3_gcs_azure_git_hf.download.budget import DownloadBudget
from kaiwo_storage_s3_gcs_azure_git_hf.download.downloaders import call_downloaders
from kaiwo_storage_s3_gcs_azure_git_hf.download.egress_proxy import EgressProxy
from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import (
    ConfigError,
    DiskFullError,
    DownloadError,
    LimitError,
    printable,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import Journal
from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import DownloadProgress, format_bytes
from kaiwo_storage_s3_gcs_azure_git_hf.download.session import DownloadSession
from kaiwo_storage_s3_gcs_azure_git_hf.download.target_paths import check_case
from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer import Transfer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer_types import ObjectFile


def read_config(path: str) -> DownloadConfig:
    """Read the configuration.

    Raises:
        ConfigError: it cannot be read, or is invalid.
    """
    try:
        document = _parse_document(Path(path).read_text(encoding="utf-8"))
        return DownloadConfig.parse(document if isinstance(document, dict) else {})
    except OSError as error:
        raise ConfigError(path, f"cannot read file: {error.strerror}", "check the path") from None
    except ValidationError as error:
        raise ConfigError(path, first_error(error), "correct the file") from None
    except ValueError:
        raise ConfigError(path, "invalid YAML", "check the file") from None


def _parse_document(text: str) -> object:
    """Parse YAML, or the operator's JSON, which has escapes that the YAML parser does not know.

    Raises:
        ValueError: it is neither.
    """
    if text.lstrip().startswith("{"):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    # Loading it takes as long as starting the interpreter.
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _print_out(line: str) -> None:
    sys.stdout.write(line + "\n")


def _print_err(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _print_plan(files: Sequence[ObjectFile], session: DownloadSession) -> None:
    for file in files:
        line = printable(f"{file.name} -> {file.path}  ({file.where})")
        _print_out(f"{format_bytes(file.size):>10}  {line}")
    for task in session.tasks:
        _print_out(f"{'':>10}  {printable(f'{task.summary}  ({task.where})')}")
    total = sum(file.size for file in files)
    _print_out(f"{format_bytes(total)} in {len(files)} files, {len(session.tasks)} repositories")


def _sync_volumes(session: DownloadSession) -> None:
    """Sync the volumes, so that what is reported as done survives a crash, whatever program wrote it."""
    for volume in session.volumes:
        try:
            disk.sync_filesystem(volume.root)
        except OSError as error:
            raise DiskFullError(
                "",
                f"{volume.root}: sync failed: {error.strerror}",
                "increase storageSize, or check the volume",
            ) from None


def _execute(session: DownloadSession, arguments: argparse.Namespace) -> dict[str, Any]:
    files = session.plan()
    if arguments.dry_run:
        _print_plan(files, session)
        return {}
    with contextlib.ExitStack() as stack:
        journals = {volume: Journal(volume.state_folder()) for volume in session.volumes}
        for journal in journals.values():
            stack.callback(journal.close)
        for volume in session.volumes:
            volume.remove_leftovers()
            check_case(volume, ((file.where, file.path) for file in files if file.volume == volume))
        session.prepare()
        progress = DownloadProgress(arguments.progress or ("bar" if sys.stderr.isatty() else "lines"))
        transfer = Transfer(
            session.config.limits, journals, progress, session.to_download_error, session.stop
        )
        finished = [file for file in files if transfer.finished(file)]
        missing = set(files).difference(finished)
        ordered = [file for file in files if file in missing]
        free_space.check_files(ordered)
        progress.expect(sum(file.size for file in files))
        progress.skip(sum(file.size for file in finished))
        with progress:
            transfer.run(ordered, session.tasks)
            if ordered or session.tasks:
                _sync_volumes(session)
        return {
            "files": len(files),
            "repositories": len(session.tasks),
            "filesSkipped": len(finished),
            "bytes": progress.state()["bytesTotal"],
            "bytesTransferred": progress.done,
        }


def _print_warnings(session: DownloadSession, arguments: argparse.Namespace) -> None:
    for warning in session.warnings:
        if arguments.progress == "json":
            _print_err(json.dumps({"event": "warning", "message": warning}))
        else:
            _print_err(f"warning: {printable(warning)}")


def _report(arguments: argparse.Namespace, summary: dict[str, Any], code: int, line: str) -> None:
    record = {"event": "done" if code == 0 else "failed", "exitCode": code, **summary}
    if line:
        record["message"] = line
    text = json.dumps(record)
    if arguments.progress == "json":
        _print_err(text)
    elif line:
        _print_err(f"error: {line}")
    elif summary:
        moved = format_bytes(summary["bytesTransferred"])
        repositories = summary["repositories"]
        more = f", {repositories} {'repository' if repositories == 1 else 'repositories'}"
        _print_err(f"done: {summary['files']} files{more if repositories else ''}, {moved} transferred")
    path = Path(arguments.termination_log)
    if path.exists():
        with contextlib.suppress(OSError):
            path.write_text(text, encoding="utf-8")


def _interrupted(number: int, _frame: object) -> None:
    # The journal has what is on the volume; threads in the middle of a read are not waited for.
    os._exit(128 + number)


def _time_out(arguments: argparse.Namespace) -> None:
    """Report that the time limit is over, and exit; a client in the middle of a request is not waited for."""
    error = LimitError(
        "timeout",
        "",
        f"the download did not finish within {arguments.timeout} s",
        "a new run resumes; raise the limit",
    )
    _report(arguments, {"limit": error.limit}, error.code, str(error))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(error.code)


def main() -> NoReturn:
    """Entry point of the program."""
    signal.signal(signal.SIGTERM, _interrupted)
    signal.signal(signal.SIGINT, _interrupted)
    code = run(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is closed; finalizing the interpreter would take longer than many a download.
    os._exit(code)


def run(argv: Sequence[str]) -> int:
    """Run the program with these arguments; the exit code."""
    arguments = parse_arguments(argv, (__doc__ or "").split("\n\n")[0])
    timer = threading.Timer(arguments.timeout, _time_out, (arguments,))
    timer.daemon = True
    timer.start()
    summary: dict[str, Any] = {}
    code, line = 0, ""
    try:
        config = with_policy(read_config(arguments.config), arguments)
        budget = DownloadBudget(arguments.max_bytes, arguments.max_files)
        roots = {"data": config.data_mount_path or "", "hf": config.hf_mount_path or ""}
        if arguments.target_root:
            roots = {name: arguments.target_root + path for name, path in roots.items() if path}
        proxy = EgressProxy(private=config.policy.allow_private_endpoints)
        with (
            contextlib.closing(proxy),
            contextlib.closing(DownloadSession(config, proxy, roots, budget)) as session,
        ):
            call_downloaders(config, session)
            summary = _execute(session, arguments)
            _print_warnings(session, arguments)
    except DownloadError as error:
        code, line = error.code, str(error)
        if isinstance(error, LimitError):
            summary = {"limit": error.limit}
    except OSError as error:
        code, line = _os_failure(error)
    except Exception as error:  # noqa: BLE001 - a user reads one line, whatever fails
        failure = errors.internal_error("", "kaiwo-download", error)
        code, line = failure.code, str(failure)
    timer.cancel()
    _report(arguments, summary, code, line)
    return code


def _os_failure(error: OSError) -> tuple[int, str]:
    """Exit code and line for a volume that cannot be written."""
    message = f"{error.filename or 'the volume'}: write failed: {error.strerror}"
    if errors.is_disk_full(error):
        return DiskFullError.code, str(DiskFullError("", message, "increase storageSize"))
    step = f"check the volume, and that user {os.getuid()} may write to it"
    return ConfigError.code, str(ConfigError("", message, step))


if __name__ == "__main__":
    main()
