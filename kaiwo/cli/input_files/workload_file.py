"""One workload as it stands in a file, with the position of every field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaiwo.api.errors import Problem, not_a_string
from kaiwo.cli.input_files.problems import LocatedProblem
from kaiwo.engine.field_paths import Path, parse_path, value_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.engine.yaml_reader import Document


@dataclass(slots=True)
class WorkloadFile:
    """One workload as written.

    Attributes:
        source: name of the file, ``stdin`` for standard input.
        document: the document it stands in.
        obj: the object, to be changed by flags.
        prefix: where it is in the document, ``("items", 0)`` in a List.
        flags: what was set by a flag: path to the flag's words.
        warned: field and message of each warning that was printed, ``spec.gpus: is ignored``.
    """

    source: str
    document: Document
    obj: Object
    prefix: Path = ()
    flags: dict[Path, str] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)

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
        """``metadata``; an empty mapping when it is not a mapping."""
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

    def locate(self, problem: Problem) -> LocatedProblem:
        """Place a problem whose field path is written as people and the API server write it."""
        parts = parse_path(problem.path) or ()
        written = self.document.written.get((*self.prefix, *parts))
        if written is not None and problem == not_a_string(problem.path, value_at(self.obj, parts)):
            problem = not_a_string(problem.path, value_at(self.obj, parts), written)
        return LocatedProblem(problem, *self.place(parts))


def duplicates(workloads: Sequence[WorkloadFile]) -> list[LocatedProblem]:
    """Problems of workloads that stand in two documents, of which only the last would count."""
    seen: dict[tuple[str, str, str], WorkloadFile] = {}
    problems = []
    for workload in workloads:
        key = (workload.kind, str(workload.metadata.get("namespace") or ""), workload.name)
        first = seen.setdefault(key, workload)
        if first is not workload and workload.name:
            source, line, _ = first.place()
            what = f'{workload.kind} "{workload.name}" is already given in {source}, line {line}'
            problems.append(workload.locate(Problem("", what, "remove one or change its name")))
    return problems
