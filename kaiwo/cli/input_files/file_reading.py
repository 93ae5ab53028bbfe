"""Reading workloads from files, directories and standard input, with every problem at its line and column."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from kaiwo.api.errors import Problem, describe
from kaiwo.api.suggestion import did_you_mean
from kaiwo.cli.input_files.problems import STDIN, LocatedProblem, file_problem
from kaiwo.cli.input_files.workload_file import WorkloadFile
from kaiwo.client.kinds import BY_KIND, GROUP, VERSION
from kaiwo.engine.field_paths import Path, format_path
from kaiwo.engine.yaml_reader import Document, parse
from kaiwo.engine.yaml_scalars import DocumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaiwo.engine.resource import Object

STDIN_NAMES = ("-", "--")
"""Names of standard input after ``-f``."""

SUFFIXES = (".yaml", ".yml", ".json")
MAX_BYTES = 64 * 1024 * 1024
"""Most that is read from one source; thousands of workloads stay far below."""

API_VERSION = f"{GROUP}/{VERSION}"

_CONFIG_KINDS = ("KaiwoConfig", "KaiwoQueueConfig")
"""Kaiwo's kinds that are not workloads: administrators send them with kubectl."""

_KNOWN = ", ".join(BY_KIND)

_START = "a workload starts with apiVersion and kind"

_SERVER_FIELDS = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
"""Fields that the API server sets; they are left out of what is sent."""


SEND = "send it with kubectl apply --server-side"
"""What to do with other objects than workloads, before ``-f FILE``."""


def read_files(
    sources: Sequence[str], *, command: str = "kaiwo submit", otherwise: str = SEND
) -> tuple[list[WorkloadFile], list[LocatedProblem]]:
    """Read all workloads of all sources.

    Args:
        sources: files, directories (their ``*.yaml``, ``*.yml``, ``*.json``, sorted), ``-`` or ``--`` for
            standard input.
        command: which reads them, as it is typed.
        otherwise: what to do with other objects than workloads, before ``-f FILE``.

    Returns:
        the workloads, and what is wrong with all that could not be read as one.
    """
    workloads: list[WorkloadFile] = []
    problems: list[LocatedProblem] = []
    stdin_taken = False
    for source in sources:
        if source in STDIN_NAMES:
            if stdin_taken:
                problems.append(file_problem(f"-f {source}", "standard input can be read only once"))
                continue
            stdin_taken = True
        for name, text in _texts(source, problems, command):
            _documents(name, text, workloads, problems, otherwise=otherwise)
    return workloads, problems


def _texts(source: str, problems: list[LocatedProblem], command: str) -> Iterator[tuple[str, str]]:
    """Name and text of every file of a source."""
    if source in STDIN_NAMES:
        yield from _decoded(STDIN, sys.stdin.buffer.read(MAX_BYTES + 1), problems)
        return
    if source.startswith(("http://", "https://")):
        hint = f"curl -fsSL {source} | {command} -f -"
        problems.append(file_problem(source, "URLs are not fetched", hint))
        return
    for file in _files(source, problems):
        try:
            with file.open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            problems.append(_unreadable(str(file), error))
            continue
        yield from _decoded(str(file), content, problems)


def _files(source: str, problems: list[LocatedProblem]) -> list[FilePath]:
    """The file, or those of a directory that can hold workloads."""
    if not source:
        # An unset variable of a script; as a path it would be the working directory.
        problems.append(
            file_problem("-f", "expected a name, got an empty string", "name a file, a directory or -")
        )
        return []
    path = FilePath(source)
    try:
        if not path.is_dir():
            return [path]
        entries = sorted(path.iterdir())
    except (OSError, ValueError) as error:
        problems.append(_unreadable(source, error))
        return []
    files = [entry for entry in entries if entry.suffix.lower() in SUFFIXES and not entry.is_dir()]
    if not files:
        below = next((str(entry) for entry in entries if entry.is_dir()), "")
        problems.append(
            file_problem(
                source,
                f"no file with the suffix {', '.join(SUFFIXES)} in this directory",
                f"subdirectories are not read; name them too, for example {below}" if below else "",
            )
        )
    return files


def _unreadable(name: str, error: OSError | ValueError) -> LocatedProblem:
    reason = getattr(error, "strerror", None) or str(error)
    hint = ""
    if isinstance(error, FileNotFoundError) and not FilePath(name).is_symlink():
        folder = FilePath(name).parent
        with suppress(OSError):
            known = [entry.name for entry in folder.iterdir() if entry.suffix.lower() in SUFFIXES]
            hint = did_you_mean(FilePath(name).name, known)
        hint = hint or f"list what is there: ls {folder}"
    return file_problem(name, f"cannot be read: {reason}", hint)


def _decoded(name: str, content: bytes, problems: list[LocatedProblem]) -> Iterator[tuple[str, str]]:
    if len(content) > MAX_BYTES:
        problems.append(file_problem(name, f"larger than {MAX_BYTES >> 20} MiB", "split the file"))
        return
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    try:
        yield name, content.decode(encoding)
    except UnicodeDecodeError as error:
        before = content[: error.start]
        position = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        problems.append(file_problem(name, "not UTF-8 text", "save the file as UTF-8", position=position))


def _documents(
    name: str, text: str, workloads: list[WorkloadFile], problems: list[LocatedProblem], *, otherwise: str
) -> None:
    empty = True
    try:
        for document in parse(text):
            for prefix, value in _unlisted(document):
                empty = False
                workload = _accepted(name, document, prefix, value, problems, otherwise=otherwise)
                if workload:
                    workloads.append(workload)
    except DocumentError as error:
        problems.append(file_problem(name, error.message, position=(error.line, error.column)))
        return
    if empty:
        problems.append(file_problem(name, "no workload in this file", _START))


def _unlisted(document: Document) -> Iterable[tuple[Path, Any]]:
    """The document, or the items of a ``List`` as kubectl and ``kaiwo list -o yaml`` write it."""
    value = document.value
    if isinstance(value, dict) and value.get("kind") in ("List", "KaiwoJobList", "KaiwoServiceList"):
        items = value.get("items") or []
        if isinstance(items, list):
            return [(("items", index), item) for index, item in enumerate(items)]
    return [((), value)]


def _accepted(
    name: str, document: Document, prefix: Path, value: Any, problems: list[LocatedProblem], *, otherwise: str
) -> WorkloadFile | None:
    """The workload, or None and a problem when the value is not one."""

    def reject(path: Path, message: str, hint: str = "") -> None:
        position = document.position((*prefix, *path))
        problems.append(LocatedProblem(Problem(format_path(path), message, hint), name, *position))

    if not isinstance(value, dict):
        reject((), f"expected a workload, got {describe(value)}", _START)
        return None
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(kind, str) or not kind:
        reject(("kind",), "is required", f"write one of {_KNOWN}")
        return None
    group = api_version.rpartition("/")[0] if isinstance(api_version, str) else ""
    hint = f"{otherwise} -f {'-' if name == STDIN else name}"
    if kind not in BY_KIND and api_version and group != GROUP:
        what = f'{kind} "{_name(value)}"' if _name(value) else kind
        reject((), f"{what} ({api_version}) is not a Kaiwo workload", hint)
        return None
    if kind not in BY_KIND:
        if kind in _CONFIG_KINDS:
            reject(("kind",), f"{kind} is not a workload", hint)
        else:
            near = did_you_mean(kind, [*BY_KIND, *_CONFIG_KINDS])
            reject(("kind",), f'unknown kind "{kind}" (known: {_KNOWN})', near)
        return None
    if api_version != API_VERSION:
        message = "is required" if api_version is None else f'unknown version "{api_version}"'
        reject(("apiVersion",), message, f"write {API_VERSION}")
        return None
    obj = {key: content for key, content in value.items() if key != "status"}
    if isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {k: v for k, v in obj["metadata"].items() if k not in _SERVER_FIELDS}
    return WorkloadFile(name, document, obj, prefix)


def _name(value: Object) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
