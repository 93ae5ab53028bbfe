"""No source file imports itself, directly or through others."""

from __future__ import annotations

import ast
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]
PACKAGES = [ROOT / "kaiwo", *sorted(ROOT.glob("plugins/*/kaiwo_*/"))]


def modules(packages: Sequence[Path]) -> dict[str, Path]:
    """Every module of the packages by its dotted name; a package is its ``__init__.py``."""
    found = {}
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(module: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The known modules that a file names in import statements.

    Imports inside functions and under ``TYPE_CHECKING`` count too: the reader of one file needs the other.
    ``import a.b`` counts as an import of ``a.b`` alone, though Python also runs ``a/__init__.py``.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                submodule = f"{base}.{alias.name}"
                if submodule in known:
                    yield submodule
                elif base in known:
                    yield base


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """For each module the shortest circle through it, each circle once; it starts with its first name."""
    found = set()
    for start in sorted(graph):
        came_from: dict[str, str] = {}
        queue = deque([start])
        while queue and start not in came_from:
            current = queue.popleft()
            for following in sorted(graph.get(current, ())):
                if following not in came_from:
                    came_from[following] = current
                    queue.append(following)
        if start not in came_from:
            continue
        chain = [came_from[start]]
        while chain[-1] != start:
            chain.append(came_from[chain[-1]])
        chain.reverse()
        first = chain.index(min(chain))
        found.add((*chain[first:], *chain[:first]))
    return [list(chain) for chain in sorted(found)]


def import_circles(packages: Sequence[Path]) -> list[str]:
    """Each circle as a chain of files, the first one repeated at the end."""
    known = modules(packages)
    graph = {name: set(imported(name, path, known)) for name, path in known.items()}
    roots = {package.name: package.parent for package in packages}
    return [
        " -> ".join(
            known[name].relative_to(roots[name.split(".")[0]]).as_posix() for name in [*chain, chain[0]]
        )
        for chain in circles(graph)
    ]


def test_no_file_imports_itself_through_others() -> None:
    """Each file can be read, tested and moved without the files that use it."""
    found = import_circles(PACKAGES)
    assert not found, f"{len(found)} import circles:\n" + "\n".join(found)


def test_a_circle_is_found_in_every_kind_of_import(tmp_path: Path) -> None:
    """Relative imports, imports in functions and imports for types alone close a circle as well."""
    package = tmp_path / "kaiwo_acme"
    (package / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "alone.py": "import json\nfrom kaiwo_acme import first\n",
        "first.py": "from . import second\n",
        "second.py": "def late():\n    from kaiwo_acme.inner import third\n",
        "inner/__init__.py": "from .third import THIRD\n",
        "inner/third.py": "if TYPE_CHECKING:\n    from ..first import First\n",
        "itself.py": "import kaiwo_acme.itself\n",
    }
    for name, text in files.items():
        (package / name).write_text(text, encoding="utf-8")
    assert import_circles([package]) == [
        "kaiwo_acme/first.py -> kaiwo_acme/second.py -> kaiwo_acme/inner/third.py -> kaiwo_acme/first.py",
        "kaiwo_acme/itself.py -> kaiwo_acme/itself.py",
    ]
