"""YAML text to plain JSON values, with the line and column of every field.

Scalars mean what they mean to kubectl: times stay text, ``1:30`` is text and not a number in base 60, an
integer with a leading zero is octal, ``yes`` and ``on`` are booleans. The parser's events are folded here
rather than by the library, so that duplicate keys are seen, aliases cannot multiply without bound
(the "billion laughs"), and no depth of nesting reaches Python's recursion limit.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

from kaiwo.cli.input_files.field_paths import format_path
from kaiwo.cli.input_files.yaml_scalars import TAG, DocumentError, fail, mark, scalar, short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.cli.input_files.field_paths import Path

MAX_DEPTH = 100
"""Deepest nesting; the deepest CRD schemas stay below 50."""

MAX_WEIGHT = 3 * 1024 * 1024
"""Characters and nodes of a document, its aliases written out: an API server takes 3 MiB a request."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_MERGE = "<<"
_FOREIGN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What YAML 1.1 section 5.1 calls not printable."""


@dataclass(slots=True)
class Document:
    """One document of a stream.

    Attributes:
        value: plain JSON.
        line: line of the document's first content.
        column: its column.
        positions: line and column of every key (for a mapping's field) or item (of a list).
        written: the text of plain scalars that YAML does not read as text: ``no`` at a field that is False.
    """

    value: Any
    line: int = 1
    column: int = 1
    positions: dict[Path, tuple[int, int]] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)

    def position(self, path: Path) -> tuple[int, int]:
        """Line and column of the field, or of the nearest one around it that is written down."""
        while path:
            if path in self.positions:
                return self.positions[path]
            path = path[:-1]
        return self.line, self.column


@dataclass(slots=True)
class _Node:
    """A value under construction or done, with its cost when written out."""

    value: Any
    weight: int = 1
    done: bool = False
    key: str | None = None
    key_mark: tuple[int, int] | None = None
    merged: dict[str, Any] = field(default_factory=dict)
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)


def parse(text: str) -> Iterator[Document]:
    """Yield the documents of a stream one by one; empty documents are left out.

    Raises:
        DocumentError: at the first thing that is wrong; the documents before it have been yielded.
    """
    text = text.removeprefix("\ufeff")
    foreign = _FOREIGN.search(text)
    if foreign:
        before = text[: foreign.start()]
        column = len(before) - before.rfind("\n")
        name = f"U+{ord(foreign.group()):04X}"
        raise DocumentError(before.count("\n") + 1, column, f"the character {name} is not allowed in YAML")
    loader = _Loader(text)
    try:
        while True:
            event = loader.get_event()
            if isinstance(event, yaml.StreamEndEvent):
                return
            if isinstance(event, yaml.DocumentStartEvent):
                document = _Fold(loader).document()
                if document.value is not None:
                    yield document
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text) from error
    finally:
        loader.dispose()


def parse_value(text: str) -> Any:
    """One value as it would stand in a manifest: ``4``, ``[a, b]``, ``{cpu: 1}``, ``"4"`` for text.

    Raises:
        DocumentError: it is no YAML, or several documents.
    """
    documents = list(parse(text))
    if len(documents) > 1:
        raise DocumentError(1, 1, "expected one value, got several documents")
    return documents[0].value if documents else None


class _Fold:
    """Folds the events of one document into a value."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._stack: list[_Node] = []
        self._path: list[str | int] = []
        self._anchors: dict[str, _Node] = {}
        self._document = Document(None)
        self._weight = 0

    def document(self) -> Document:
        event = self._loader.get_event()
        self._document.line, self._document.column = mark(event)
        root: _Node | None = None
        while not isinstance(event, yaml.DocumentEndEvent):
            node = self._step(event)
            if node is not None and not self._stack:
                root = node
            event = self._loader.get_event()
        self._document.value = root.value if root else None
        return self._document

    def _step(self, event: Any) -> _Node | None:
        """Take one event; the finished node, if it finished one that is a value of its parent."""
        match event:
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                node = self._stack.pop()
                self._close(node)
                return self._attach(node, None)
            case yaml.AliasEvent():
                return self._attach(self._alias(event), event)
            case yaml.ScalarEvent():
                return self._scalar_event(event)
        is_map = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", TAG + ("map" if is_map else "seq")):
            fail(event, f"the tag {short(event.tag)} is not supported; remove it")
        parent = self._stack[-1] if self._stack else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            fail(event, "a list or a mapping cannot be a field's name")
        if len(self._stack) >= MAX_DEPTH:
            fail(event, f"nested deeper than {MAX_DEPTH} levels")
        self._enter(parent, event)
        node = _Node({} if is_map else [])
        self._remember(event, node)
        self._stack.append(node)
        return None

    def _enter(self, parent: _Node | None, event: Any) -> None:
        """Move the path to the value that begins and note where it is."""
        if parent is None:
            return
        if isinstance(parent.value, dict):
            self._path.append(str(parent.key))
            where = parent.key_mark or mark(event)
        else:
            self._path.append(len(parent.value))
            where = mark(event)
        self._document.positions[tuple(self._path)] = where

    def _scalar_event(self, event: Any) -> _Node | None:
        parent = self._stack[-1] if self._stack else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            self._key(parent, event)
            return None
        value = scalar(event)
        node = _Node(value, weight=1 + len(event.value), done=True)
        self._remember(event, node)
        return self._attach(node, event)

    def _key(self, parent: _Node, event: Any) -> None:
        name, where = event.value, mark(event)
        first = parent.marks.get(name)
        if first is not None:
            there = f"line {first[0]}" if first[0] != where[0] else f"column {first[1]}"
            dotted = format_path((*self._path, name))
            fail(event, f"{dotted}: the field is already given in {there}; remove one of them")
        parent.key, parent.key_mark = name, where
        parent.marks[name] = where
        parent.weight += len(name)

    def _attach(self, node: _Node, event: Any) -> _Node | None:
        """Put a finished node into its parent. A container has entered its path, a scalar does it here."""
        parent = self._stack[-1] if self._stack else None
        if parent is None:
            self._count(node.weight)
            return node
        if event is not None:
            self._enter(parent, event)
            if isinstance(event, yaml.ScalarEvent) and not isinstance(node.value, str):
                self._document.written[tuple(self._path)] = event.value
        self._count(node.weight if event is not None else 0)
        parent.weight += node.weight
        if isinstance(parent.value, dict):
            key = str(parent.key)
            if key == _MERGE:
                self._merge(parent, node)
            else:
                parent.value[key] = node.value
            parent.key = None
        else:
            parent.value.append(node.value)
        self._path.pop()
        return None

    def _merge(self, parent: _Node, node: _Node) -> None:
        """``<<``: fields of other mappings, which the mapping's own and earlier ones win over."""
        given = node.value if isinstance(node.value, list) else [node.value]
        line, column = parent.key_mark or (self._document.line, self._document.column)
        for mapping in given:
            if not isinstance(mapping, dict):
                raise DocumentError(line, column, "<< takes a mapping or a list of mappings, by alias")
            for key, value in mapping.items():
                parent.merged.setdefault(key, value)

    @staticmethod
    def _close(node: _Node) -> None:
        for key, value in node.merged.items():
            node.value.setdefault(key, value)
        node.done = True

    def _alias(self, event: Any) -> _Node:
        parent = self._stack[-1] if self._stack else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            fail(event, "an alias cannot be a field's name")
        node = self._anchors.get(event.anchor)
        if node is None:
            fail(event, f"no anchor &{event.anchor} before the alias *{event.anchor}")
        if not node.done:
            fail(event, f"the alias *{event.anchor} refers to itself")
        if self._weight + node.weight > MAX_WEIGHT:
            self._too_large(event)
        return _Node(copy.deepcopy(node.value), weight=node.weight, done=True)

    def _remember(self, event: Any, node: _Node) -> None:
        if event.anchor:
            self._anchors[event.anchor] = node

    def _count(self, weight: int) -> None:
        self._weight += weight
        if self._weight > MAX_WEIGHT:
            raise DocumentError(
                *self._document.position(tuple(self._path)),
                f"the document is larger than {MAX_WEIGHT >> 20} MiB, more than an API server takes; "
                "put data into a volume or an image",
            )

    def _too_large(self, event: Any) -> NoReturn:
        fail(event, f"the document with its aliases written out is larger than {MAX_WEIGHT >> 20} MiB")


def _syntax(error: yaml.MarkedYAMLError, text: str) -> DocumentError:
    place = error.problem_mark or error.context_mark
    line, column = (place.line + 1, place.column + 1) if place else (1, 1)
    lines = text.splitlines()
    broken = lines[line - 1] if 0 < line <= len(lines) else ""
    indent = broken[: len(broken) - len(broken.lstrip())]
    if "\t" in indent:
        return DocumentError(line, indent.index("\t") + 1, "a tab cannot indent YAML; use spaces")
    said = error.problem or str(error)
    if error.context:
        said = f"{error.context}: {said}"
    return DocumentError(line, column, f"invalid YAML: {said}")
