"""The templates: plain files with ``@@name@@`` where a value is put.

Below ``templates`` there is a folder for each kind of plugin, and ``common`` for what all kinds have. A file
``NAME.tmpl`` becomes the file ``NAME``. A file ``NAME.part`` in the folder of a kind is a value that the
common files use, under its name. Folders that a wheel must not have, such as ``tests``, have other names.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

_TEMPLATE: Final = ".tmpl"
_PART: Final = ".part"
_PLACEHOLDER: Final = re.compile(r"@@(\w+)@@")

_FOLDERS: Final = {"package": "@@package@@", "checks": "tests", "workflows": ".github/workflows"}
_FILES: Final = {"gitignore": ".gitignore"}


def render(kind: str, values: Mapping[str, str]) -> dict[str, str]:
    """The files of a new plugin: path below its folder, and content.

    Args:
        kind: name of the folder with the templates of this kind of plugin.
        values: what is put in place of ``@@name@@``.

    Raises:
        KeyError: a template has a placeholder for which there is no value.
    """
    root = files(__package__) / "templates"
    known = dict(values)
    for path, text in _walk(root / kind):
        if path.endswith(_PART):
            known[path.removesuffix(_PART)] = fill(text.rstrip("\n"), values)
    found = {}
    for folder in ("common", kind):
        for path, text in _walk(root / folder):
            if path.endswith(_TEMPLATE):
                found[fill(_target(path.removesuffix(_TEMPLATE)), values)] = fill(text, known)
    return dict(sorted(found.items()))


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with the values of its placeholders. What is put in is not searched for placeholders again.

    Raises:
        KeyError: there is no value for a placeholder.
    """
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def _target(path: str) -> str:
    """Where a template's file goes."""
    *folders, name = path.split("/")
    return "/".join([*(_FOLDERS.get(folder, folder) for folder in folders), _FILES.get(name, name)])


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Paths and texts of all files below a folder."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")
