"""The records of the Python client, which are also what commands print as JSON: fields, types, meanings."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import types
import typing
from datetime import datetime

import msgspec

import kaiwo.client
from docs.generate.pages import StaleReferenceError, table
from kaiwo.client.record import Record

_WORDS = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    datetime: "time (RFC 3339)",
    bytes: "string (base64)",
    typing.Any: "any value",
}
_ENTRY = re.compile(r"^    (?P<names>[a-z_]\w*(?:, [a-z_]\w*)*): (?P<text>.*(?:\n {8}.*)*)", re.MULTILINE)


def records() -> list[type[Record]]:
    """All records of the client's modules, by module and in the order in which they are defined."""
    found: dict[str, type[Record]] = {}
    for info in sorted(
        pkgutil.walk_packages(kaiwo.client.__path__, "kaiwo.client."), key=lambda one: one.name
    ):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if not isinstance(value, type) or value is Record or value.__module__ != info.name:
                continue
            if issubclass(value, Record):
                found[value.__name__] = value
    return list(found.values())


def record_tables() -> str:
    """A section for each record.

    Raises:
        StaleReferenceError: a field has no description.
    """
    return "\n\n".join(_section(record) for record in records())


def _section(record: type[Record]) -> str:
    text = inspect.cleandoc(record.__doc__ or "")
    meanings = _meanings(record)
    rows = []
    for field in msgspec.structs.fields(record):
        meaning = meanings.get(field.name)
        if meaning is None:
            raise StaleReferenceError(f"{record.__module__}.{record.__name__}.{field.name} is not described")
        rows.append((f"`{field.encode_name}`", _type(field.type), meaning))
    head = text.partition("\n\n")[0].replace("\n", " ")
    return f"### {record.__name__}\n\n{head}\n\n{table(('field', 'type', 'meaning'), rows)}"


def _meanings(record: type[Record]) -> dict[str, str]:
    """Descriptions of the fields, those of base classes included."""
    found: dict[str, str] = {}
    for base in reversed(record.__mro__):
        if not issubclass(base, Record):
            continue
        attributes = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        for entry in _ENTRY.finditer(attributes):
            meaning = " ".join(entry["text"].split()).replace("``", "`")
            found |= dict.fromkeys(entry["names"].split(", "), meaning)
    return found


def _type(kind: typing.Any) -> str:
    """A type as people write JSON."""
    if kind in _WORDS:
        return _WORDS[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        words = [_type(argument) for argument in arguments if argument is not type(None)]
        return " or ".join([*words, *(["null"] if type(None) in arguments else [])])
    if origin is typing.Literal:
        return ", ".join(f"`{argument}`" for argument in arguments)
    if origin in (tuple, list):
        return f"list of {_type(arguments[0])}"
    if origin is dict or kind is dict:
        return "object"
    if isinstance(kind, type) and issubclass(kind, Record):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    return f"`{getattr(kind, '__name__', kind)}`"
