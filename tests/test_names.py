"""Names in the source: a public class name is used once, and retired words are not used."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
SOURCES = [
    path
    for folder in (ROOT / "kaiwo", *ROOT.glob("plugins/*/kaiwo_*/"))
    for path in sorted(folder.rglob("*.py"))
]
OTHERS = [
    path
    for folder in (
        *(ROOT / name for name in ("bench", "campaign", "charts", "docs", "examples", "release", "tests")),
        *ROOT.glob("plugins/*/tests/"),
    )
    for path in sorted(folder.rglob("*.py"))
]

RETIRED = {
    "asleep": "scaled_to_zero",
    "buried": "deleted_child",
    "bury": "on_child_deleted",
    "companions": "secondary resources",
    "complaint": "warning_event",
    "complaints": "warning_events",
    "drift": "diff",
    "intake": "input_files",
    "look": "reconcile",
    "looked": "reconciled",
    "looks": "reconciliations",
    "lost": "missing",
    "lull": "event_delay",
    "memories": "reconcile_states",
    "mourn": "record_failed_pod",
    "mourned": "failed_pods",
    "patience": "timeout",
    "podtruth": "pod_status",
    "puzzled": "needs_events",
    "quarrel": "conflict",
    "steady": "stable",
    "surroundings": "cluster_context",
    "told": "reported",
    "wake": "requeue",
    "wakes": "requeues",
}
"""Words that names may not contain, each with the word of Kubernetes and its controllers to use instead."""

SHARED = {"Client": {"kaiwo/engine/client.py", "kaiwo/client/blocking.py"}}
"""Names that two classes have on purpose: the engine's client, and the one that scripts construct."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def public_classes(tree: ast.Module) -> Iterator[str]:
    """The names of a module's top-level classes that do not start with an underscore."""
    return (
        node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def identifiers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The classes, functions, arguments, variables and attributes that a module defines, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name, node.lineno


def retired_words(name: str) -> list[str]:
    """The retired words in a name, whether it is written in snake case or in camel case."""
    return [word.lower() for word in _WORD.findall(name) if word.lower() in RETIRED]


def names_with_retired_words(root: Path, paths: Sequence[Path]) -> list[str]:
    """One line for each: where it is, the name, and what to write instead."""
    found = []
    for path in paths:
        where = path.relative_to(root).as_posix()
        module = path.parent.name if path.name == "__init__.py" else path.stem
        found += [f"{where}: module {module}: {_advice(word)}" for word in retired_words(module)]
        for name, line in identifiers(ast.parse(path.read_text(encoding="utf-8"), where)):
            found += [f"{where}:{line}: {name}: {_advice(word)}" for word in retired_words(name)]
    return found


def _advice(word: str) -> str:
    return f'use "{RETIRED[word]}" instead of "{word}"'


def shared_names(root: Path, paths: Sequence[Path]) -> list[str]:
    """One line for each class name that two or more modules define."""
    places = defaultdict(list)
    for path in paths:
        where = path.relative_to(root).as_posix()
        for name in public_classes(ast.parse(path.read_text(encoding="utf-8"), where)):
            places[name].append(where)
    return [
        f"{name}: {', '.join(found)}"
        for name, found in sorted(places.items())
        if len(found) > 1 and set(found) != SHARED.get(name)
    ]


def test_no_two_public_classes_share_a_name() -> None:
    """A class name found in a traceback or in the documentation means one class."""
    found = shared_names(ROOT, SOURCES)
    assert not found, f"{len(found)} class names are defined more than once:\n" + "\n".join(found)


def test_no_name_contains_a_retired_word() -> None:
    """Names are the words that Kubernetes, Kueue and Ray use, so that people can search for them."""
    found = names_with_retired_words(ROOT, [*SOURCES, *OTHERS])
    assert not found, f"{len(found)} names contain a retired word:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wake_after", ["wake"]),
        ("_LOOKED_AT", ["looked"]),
        ("HTTPComplaint", ["complaint"]),
        ("toldPods2", ["told"]),
        ("awake", []),
        ("lookup", []),
        ("LostAndTold", ["lost", "told"]),
    ],
)
def test_a_retired_word_is_found_as_a_whole_word(name: str, expected: list[str]) -> None:
    """Snake case, camel case and capitals are split into words; parts of longer words do not count."""
    assert retired_words(name) == expected


def test_every_kind_of_name_is_checked(tmp_path: Path) -> None:
    """Modules, classes, functions, arguments, variables, attributes and import aliases, not mere uses."""
    module = tmp_path / "drift.py"
    module.write_text(
        "import asyncio as wake\n"
        "class Lull:\n"
        "    patience: int = 1\n"
        "    async def mourn(self, *, told):\n"
        "        self.steady = told\n"
        "for look in []: print(asyncio.asleep)\n",
        encoding="utf-8",
    )
    found = {line.split(": ")[1] for line in names_with_retired_words(tmp_path, [module])}
    assert found == {"module drift", "wake", "Lull", "patience", "mourn", "told", "steady", "look"}


def test_shared_class_names_are_listed_with_their_files(tmp_path: Path) -> None:
    """Private classes and classes inside others may share a name."""
    (tmp_path / "one.py").write_text("class Event: ...\nclass _Own: ...\nclass A:\n  class Inner: ...\n")
    (tmp_path / "two.py").write_text("class Event: ...\nclass _Own: ...\nclass B:\n  class Inner: ...\n")
    assert shared_names(tmp_path, sorted(tmp_path.glob("*.py"))) == ["Event: one.py, two.py"]
