"""The reference of ``kaiwo.plugin.kit``: every public name with the first sentence of its documentation."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import kaiwo.plugin.kit
from docs.generate.pages import StaleReferenceError, table
from kaiwo.engine.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

KIT = kaiwo.plugin.kit.__name__
_SENTENCE = re.compile(r"(.+?\.)(\s|$)", re.DOTALL)
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def modules() -> list[str]:
    """The modules of the kit, by name."""
    return sorted(info.name for info in pkgutil.iter_modules(kaiwo.plugin.kit.__path__))


def documentation(module: str, name: str) -> str:
    """The documentation of a public name, empty without one.

    That of a class or function is its docstring; that of a constant or of a type is the text below its
    assignment, in the module where it stands.
    """
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, Resource):
        return f"The kind {value.kind} of {value.api_version}."
    if inspect.isclass(value) or inspect.isfunction(value):
        text = inspect.getdoc(value) or ""
        return "" if text.startswith(f"{value.__name__}(") else text  # what a dataclass says of itself
    return _text_below(module, name)


@cache
def _tree(module: str) -> ast.Module:
    source = importlib.import_module(module).__file__
    return ast.parse(Path(source or "").read_text(encoding="utf-8"))


def _text_below(module: str, name: str) -> str:
    body = list(_statements(_tree(module)))
    for statement in body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                if name in (alias.asname, alias.name):
                    return _text_below(statement.module, alias.name)
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if name in _bound(statement):
            match after:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    return inspect.cleandoc(text)
            return ""
    return ""


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module, with those of ``if TYPE_CHECKING``."""
    for statement in tree.body:
        if isinstance(statement, ast.If):
            yield from statement.body
        else:
            yield statement


def _bound(statement: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    match statement:
        case ast.Assign(targets=found):
            targets = found
        case ast.AnnAssign(target=target):
            targets = [target]
    parts = (target.elts if isinstance(target, ast.Tuple) else [target] for target in targets)
    return [node.id for group in parts for node in group if isinstance(node, ast.Name)]


def first_sentence(text: str) -> str:
    """The first sentence of a documentation, as Markdown."""
    paragraph = text.partition("\n\n")[0]
    found = _SENTENCE.match(paragraph)
    sentence = " ".join((found[1] if found else paragraph).split())
    return _ROLE.sub(r"`\1`", sentence).replace("``", "`").rstrip(":")


def reference() -> str:
    """The modules of the kit with their names.

    Raises:
        StaleReferenceError: a name has no documentation.
    """
    parts = []
    for name in modules():
        module = importlib.import_module(f"{KIT}.{name}")
        rows = []
        for public in sorted(module.__all__, key=str.lower):
            text = documentation(module.__name__, public)
            if not text:
                raise StaleReferenceError(f"{module.__name__}.{public} has no documentation")
            rows.append((f"`{public}`", first_sentence(text)))
        parts.append(f"### kaiwo.plugin.kit.{name}\n\n{first_sentence(module.__doc__ or '')}\n\n")
        parts.append(table(("name", "what it is"), rows) + "\n\n")
    return "".join(parts)
