"""Reading workloads from files, directories and standard input, with every problem at its line and column."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import click

from kaiwo.api.suggestion import did_you_mean
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.cli.input_files.field_paths import Path, dot, undot
from kaiwo.cli.input_files.yaml_documents import Document, parse
from kaiwo.cli.input_files.yaml_scalars import DocumentError
from kaiwo.cli.kinds import BY_KIND, GROUP, VERSION
from kaiwo.cli.output.printer import clean, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaiwo.engine.resource import Object

STDIN = ("-", "--")
SUFFIXES = (".yaml", ".yml", ".json")
MAX_BYTES = 64 * 1024 * 1024
"""Most that is read from one source; thousands of workloads stay far below."""

API_VERSION = f"{GROUP}/{VERSION}"

_ADMINISTRATORS = ("KaiwoConfig", "KaiwoQueueConfig")
"""Kaiwo's kinds that are no workloads."""

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
"""What an object read from a cluster carries and nobody may send."""


@dataclass(frozen=True, slots=True)
class LocatedProblem:
    """One problem.

    Attributes:
        source: file, ``stdin``, or the flag that is to blame.
        path: field path, empty for a whole document or file.
        message: what is wrong and the next step.
        line: counted from 1; 0 where there is none.
        column: counted from 1.
    """

    source: str
    path: str
    message: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """One line, in the form that editors jump to."""
        where = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        return clean(": ".join(part for part in (where, self.path, self.message) if part))


class InvalidInput(Failure):
    """Manifests that cannot be used; every complaint is shown, each on its line."""

    def __init__(self, complaints: Sequence[LocatedProblem], consequence: str, *, code: int = USAGE) -> None:
        count = len(complaints)
        super().__init__(f"{count} problem{'s' if count > 1 else ''}; {consequence}", code=code)
        self.complaints = tuple(complaints)

    def show(self, file: object = None) -> None:
        """Write all of them to standard error."""
        for complaint in self.complaints:
            click.echo(str(complaint), err=True)
        Failure.show(self, file)


@dataclass(slots=True)
class WorkloadFile:
    """One workload as written.

    Attributes:
        source: name of the file, ``stdin`` for standard input.
        document: the document it stands in.
        obj: the object, to be changed by flags.
        prefix: where it is in the document, ``("items", 0)`` in a List.
        flags: what was set by a flag: path to the flag's words.
        told: fields and messages of the warnings that were said of it, ``spec.gpus: is ignored``.
    """

    source: str
    document: Document
    obj: Object
    prefix: Path = ()
    flags: dict[Path, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Kind as written."""
        return str(self.obj["kind"])

    @property
    def name(self) -> str:
        """Name as written, empty if there is none."""
        name = self.metadata.get("name")
        return name if isinstance(name, str) else ""

    @property
    def metadata(self) -> Object:
        """``metadata``; an empty mapping that belongs to nobody when it is none."""
        metadata = self.obj.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    def place(self, path: Path = ()) -> tuple[str, int, int]:
        """Source, line and column of a field; the flag that set it has neither line nor column."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.flags:
                return self.flags[path[:end]], 0, 0
            if (*self.prefix, *path[:end]) in self.document.positions:
                break
        return self.source, *self.document.position((*self.prefix, *path))

    def complain(self, path: str, message: str, hint: str = "") -> LocatedProblem:
        """A problem at a field, given as people and the API server write paths."""
        parts = undot(path) or ()
        written = self.document.written.get((*self.prefix, *parts))
        if written is not None and message.endswith("is not a text"):
            message, hint = f"{written} is not a text", f'put it in quotes: "{written}"'
        source, line, column = self.place(parts)
        return LocatedProblem(source, path, f"{message}; {hint}" if hint else message, line, column)


def read(sources: Sequence[str]) -> tuple[list[WorkloadFile], list[LocatedProblem]]:
    """Read all workloads of all sources.

    Args:
        sources: files, directories (their ``*.yaml``, ``*.yml``, ``*.json``, sorted), ``-`` or ``--`` for
            standard input.

    Returns:
        the workloads, and what is wrong with all that could not be read as one.
    """
    manifests: list[WorkloadFile] = []
    complaints: list[LocatedProblem] = []
    stdin_taken = False
    for source in sources:
        if source in STDIN:
            if stdin_taken:
                complaints.append(LocatedProblem(f"-f {source}", "", "standard input can be read only once"))
                continue
            stdin_taken = True
        for name, text in _texts(source, complaints):
            _documents(name, text, manifests, complaints)
    return manifests, complaints


def _texts(source: str, complaints: list[LocatedProblem]) -> Iterator[tuple[str, str]]:
    """Name and text of every file of a source."""
    if source in STDIN:
        yield from _decoded("stdin", sys.stdin.buffer.read(MAX_BYTES + 1), complaints)
        return
    if source.startswith(("http://", "https://")):
        message = f"addresses are not fetched; use: curl -fsSL {source} | kaiwo submit -f -"
        complaints.append(LocatedProblem(source, "", message))
        return
    for file in _files(source, complaints):
        try:
            with file.open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            complaints.append(_unreadable(str(file), error))
            continue
        yield from _decoded(str(file), content, complaints)


def _files(source: str, complaints: list[LocatedProblem]) -> list[FilePath]:
    """The file, or those of a directory that can hold manifests."""
    if not source:
        # An unset variable of a script; as a path it would be the working directory.
        complaints.append(LocatedProblem("-f", "", "no name is given; name a file, a directory or -"))
        return []
    path = FilePath(source)
    try:
        if not path.is_dir():
            return [path]
        files = sorted(entry for entry in path.iterdir() if entry.suffix.lower() in SUFFIXES)
    except (OSError, ValueError) as error:
        complaints.append(_unreadable(source, error))
        return []
    files = [file for file in files if not file.is_dir()]
    if not files:
        complaints.append(LocatedProblem(source, "", f"no file here ends in {', '.join(SUFFIXES)}"))
    return files


def _unreadable(name: str, error: OSError | ValueError) -> LocatedProblem:
    reason = getattr(error, "strerror", None) or str(error)
    return LocatedProblem(name, "", f"cannot be read: {reason}")


def _decoded(name: str, content: bytes, complaints: list[LocatedProblem]) -> Iterator[tuple[str, str]]:
    if len(content) > MAX_BYTES:
        complaints.append(LocatedProblem(name, "", f"larger than {MAX_BYTES >> 20} MiB; split it"))
        return
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    try:
        yield name, content.decode(encoding)
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        message = "not UTF-8 text; save the file as UTF-8"
        complaints.append(LocatedProblem(name, "", message, line, column))


def _documents(name: str, text: str, manifests: list[WorkloadFile], complaints: list[LocatedProblem]) -> None:
    empty = True
    try:
        for document in parse(text):
            for prefix, value in _unlisted(document):
                empty = False
                manifest = _accepted(name, document, prefix, value, complaints)
                if manifest:
                    manifests.append(manifest)
    except DocumentError as error:
        complaints.append(LocatedProblem(name, "", error.message, error.line, error.column))
        return
    if empty:
        complaints.append(LocatedProblem(name, "", "holds no workload; one starts with apiVersion and kind"))


def _unlisted(document: Document) -> Iterable[tuple[Path, Any]]:
    """The document, or the items of a ``List`` as kubectl and ``kaiwo list -o yaml`` write it."""
    value = document.value
    if isinstance(value, dict) and value.get("kind") in ("List", "KaiwoJobList", "KaiwoServiceList"):
        items = value.get("items") or []
        if isinstance(items, list):
            return [(("items", index), item) for index, item in enumerate(items)]
    return [((), value)]


def _accepted(
    name: str, document: Document, prefix: Path, value: Any, complaints: list[LocatedProblem]
) -> WorkloadFile | None:
    """The manifest of a value that is a workload; else one complaint."""

    def refuse(path: Path, message: str) -> None:
        line, column = document.position((*prefix, *path))
        complaints.append(LocatedProblem(name, dot(path), message, line, column))

    if not isinstance(value, dict):
        what = "a list" if isinstance(value, list) else "text"
        if not isinstance(value, list | str):
            what = to_json(value).strip()
        refuse((), f"{what}, where a workload is expected; it starts with apiVersion and kind")
        return None
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(kind, str) or not kind:
        refuse(("kind",), f"is required; write one of {', '.join(BY_KIND)}")
        return None
    group = api_version.rpartition("/")[0] if isinstance(api_version, str) else ""
    if group not in ("", GROUP) or (kind not in BY_KIND and api_version and group != GROUP):
        what = f'{kind} "{_name(value)}"' if _name(value) else kind
        refuse((), f"{what} ({api_version}) is no workload of Kaiwo; {_kubectl(name)}")
        return None
    if kind not in BY_KIND:
        hint = did_you_mean(kind, [*BY_KIND, *_ADMINISTRATORS]) or f"write one of {', '.join(BY_KIND)}"
        if kind in _ADMINISTRATORS:
            hint = _kubectl(name)
        refuse(("kind",), f'"{kind}" is no workload; {hint}')
        return None
    if api_version != API_VERSION:
        found = "is required" if api_version is None else f'"{api_version}" is not served'
        refuse(("apiVersion",), f"{found}; write {API_VERSION}")
        return None
    obj = {key: content for key, content in value.items() if key != "status"}
    if isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {k: v for k, v in obj["metadata"].items() if k not in _SERVER_FIELDS}
    return WorkloadFile(name, document, obj, prefix)


def _kubectl(name: str) -> str:
    return f"send it with kubectl apply --server-side -f {'-' if name == 'stdin' else name}"


def _name(value: Object) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def in_order(complaints: Iterable[LocatedProblem], sources: Sequence[str]) -> list[LocatedProblem]:
    """Sorted by the order of ``-f``, then file, line and column; what flags are to blame for comes last."""

    def rank(complaint: LocatedProblem) -> tuple[int, str, int, int]:
        name = complaint.source
        for index, source in enumerate(sources):
            if (
                source == name
                or (source in STDIN and name == "stdin")
                or FilePath(source) in FilePath(name).parents
            ):
                return index, name, complaint.line, complaint.column
        return len(sources), "", 0, 0

    return sorted(complaints, key=rank)


def twice(manifests: Sequence[WorkloadFile]) -> list[LocatedProblem]:
    """The same workload in two documents, of which only the last would count."""
    seen: dict[tuple[str, str, str], WorkloadFile] = {}
    complaints = []
    for manifest in manifests:
        key = (manifest.kind, str(manifest.metadata.get("namespace") or ""), manifest.name)
        first = seen.setdefault(key, manifest)
        if first is not manifest and manifest.name:
            source, line, _ = first.place()
            what = f'{manifest.kind} "{manifest.name}" is given twice, first in {source}, line {line}'
            complaints.append(manifest.complain("", what, "remove one or change its name"))
    return complaints
