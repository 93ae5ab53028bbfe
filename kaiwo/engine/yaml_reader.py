"""The one reader of YAML that users write: text to plain JSON values, with line and column of every field.

Scalars mean what they mean to kubectl: times stay text, ``1:30`` is text and not a number in base 60, an
integer with a leading zero is octal, ``yes`` and ``on`` are booleans. The parser's events are folded here
rather than by the library, so that duplicate keys are seen, aliases cannot multiply without bound
(the "billion laughs"), and no depth of nesting reaches Python's recursion limit.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from kaiwo.engine.field_paths import format_path
from kaiwo.engine.yaml_scalars import TAG, DocumentError, fail, mark, scalar, short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.field_paths import Path

MAX_DEPTH = 100
"""Deepest nesting; the deepest CRD schemas stay below 50."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be read of one stream, aliases and merged mappings written out.

    Attributes:
        characters: of one document; by default what an API server takes in a request.
        values: of all documents together: scalars, lists and mappings. A manifest of that many has more than
            two megabytes; reading them takes about a second.
    """

    characters: int = 3 * 1024 * 1024
    values: int = 100_000


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_DEFAULT = Limits()
_MERGE = "<<"
_COLON = "a colon followed by a blank is not allowed inside a value: quote the whole value"
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
    """A value under construction or done, with its characters and values when written out.

    A mapping has the key that waits for its value; it merges where that key is ``<<`` without quotes.
    """

    value: Any
    weight: int = 1
    count: int = 1
    done: bool = False
    key: str | None = None
    key_mark: tuple[int, int] | None = None
    merges: bool = False
    merged: dict[str, Any] = field(default_factory=dict)
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)


def parse(text: str, limits: Limits = _DEFAULT) -> Iterator[Document]:
    """Yield the documents of a stream one by one; empty documents are left out.

    Args:
        text: the stream.
        limits: what of it is read.

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
    values = 0
    try:
        while True:
            event = loader.get_event()
            if isinstance(event, yaml.StreamEndEvent):
                return
            if isinstance(event, yaml.DocumentStartEvent):
                fold = _Fold(loader, limits, values)
                document = fold.document()
                values = fold.values
                if document.value is not None:
                    yield document
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text) from error
    finally:
        loader.dispose()


def parse_value(text: str, limits: Limits = _DEFAULT) -> Any:
    """One value as it would stand in a manifest: ``4``, ``[a, b]``, ``{cpu: 1}``, ``"4"`` for text.

    Raises:
        DocumentError: it is no YAML, or several documents.
    """
    documents = list(parse(text, limits))
    if len(documents) > 1:
        raise DocumentError(1, 1, "expected one value, got several documents")
    return documents[0].value if documents else None


class _Fold:
    """Folds the events of one document into a value.

    Attributes:
        values: of this document and those before it, aliases written out.
    """

    def __init__(self, loader: Any, limits: Limits, values: int) -> None:
        self.values = values
        self._loader = loader
        self._limits = limits
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
        self._count(event, node)
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
        self._count(event, node)
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
        parent.merges = name == _MERGE and event.implicit[0]
        parent.marks[name] = where
        parent.weight += len(name)
        self._count(event, _Node(name, len(name), 0))

    def _attach(self, node: _Node, event: Any) -> _Node | None:
        """Put a finished node into its parent. A container has entered its path, a scalar does it here."""
        parent = self._stack[-1] if self._stack else None
        if parent is None:
            return node
        if event is not None:
            self._enter(parent, event)
            if isinstance(event, yaml.ScalarEvent) and not isinstance(node.value, str):
                self._document.written[tuple(self._path)] = event.value
        parent.weight += node.weight
        parent.count += node.count
        if isinstance(parent.value, dict):
            key = str(parent.key)
            if parent.merges:
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
        self._count(event, node)
        return _Node(copy.deepcopy(node.value), node.weight, node.count, done=True)

    def _remember(self, event: Any, node: _Node) -> None:
        if event.anchor:
            self._anchors[event.anchor] = node

    def _count(self, event: Any, node: _Node) -> None:
        """Count a value that an event begins or an alias stands for; DocumentError if it is too much."""
        self._weight += node.weight
        self.values += node.count
        too_long, too_many = self._weight > self._limits.characters, self.values > self._limits.values
        if too_long or too_many:
            what = "the document"
            if isinstance(event, yaml.AliasEvent):
                what += " with its aliases written out"
            limit = (
                f"is larger than {_size(self._limits.characters)}"
                if too_long
                else f"has more than {self._limits.values} values"
            )
            fail(event, f"{what} {limit}; split it, or put data into a volume or an image")


def _size(characters: int) -> str:
    return f"{characters >> 20} MiB" if characters >> 20 else f"{characters >> 10} KiB"


def _syntax(error: yaml.MarkedYAMLError, text: str) -> DocumentError:
    place = error.problem_mark or error.context_mark
    line, column = (place.line + 1, place.column + 1) if place else (1, 1)
    lines = text.splitlines()
    broken = lines[line - 1] if 0 < line <= len(lines) else ""
    indent = broken[: len(broken) - len(broken.lstrip())]
    if "\t" in indent:
        return DocumentError(line, indent.index("\t") + 1, "a tab cannot indent YAML; use spaces")
    said = error.problem or str(error)
    if "mapping values are not allowed" in said:
        return DocumentError(line, column, f"{_COLON}; or a line above is indented wrongly")
    if "quoted scalar" in (error.context or "") and error.context_mark:
        start = error.context_mark
        what = "this quote is not closed: write it at the end of the value, too"
        return DocumentError(start.line + 1, start.column + 1, what)
    if error.context:
        said = f"{error.context}: {said}"
    return DocumentError(line, column, f"invalid YAML: {said}")
