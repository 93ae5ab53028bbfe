"""What the host relies on in a kind of defaults for namespaces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kaiwo.plugin.namespace_defaults import (
    DefaultsProblem,
    DefaultValues,
    ItemCredentials,
    SecretVariable,
)
from kaiwo.plugin.sources import SecretReference
from kaiwo.testing.assertions import require
from kaiwo.testing.pure import pure_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.namespace_defaults import NamespaceDefaults

_VARIABLE: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_SECRET: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_KEY: Final = re.compile(r"[-._A-Za-z0-9]+")
_SECTIONS: Final = ("", "data", "huggingFace")

_ODD: Final[tuple[Any, ...]] = (None, [], "text", 7, {"unknown": None}, {"spec": {"spec": []}})


def assert_defaults_contract(
    defaults: NamespaceDefaults, objects: Sequence[Object], *, malformed: Sequence[Object] = ()
) -> None:
    """Check that `read` is pure and total, and that the result is what pods and items can have.

    Args:
        defaults: the declaration.
        objects: at least one object that gives something.
        malformed: objects of which something cannot be used; each must give a problem.

    Raises:
        AssertionError: what does not hold, with the object's name.
    """
    require(objects, "give at least one object")
    for obj in objects:
        found = _read(defaults, obj)
        name = obj.get("metadata", {}).get("name")
        require(found != DefaultValues(), f"namespace defaults {defaults.name}: {name} gives nothing")
        require(not found.problems, f"namespace defaults {defaults.name}: {name} has problems")
        for odd in _ODD:
            _read(defaults, {**obj, "spec": odd})
    for obj in malformed:
        found = _read(defaults, obj)
        name = obj.get("metadata", {}).get("name")
        require(found.problems, f"namespace defaults {defaults.name}: {name} has no problem")


def _read(defaults: NamespaceDefaults, obj: Object) -> DefaultValues:
    where = f"namespace defaults {defaults.name}: read"
    found = pure_result(where, defaults.read, obj)
    require(isinstance(found, DefaultValues), f"{where} returned {found!r:.200}, expected DefaultValues")
    fault = defaults_fault(found)
    require(not fault, f"{where} {fault}")
    assert isinstance(found, DefaultValues)  # noqa: S101  for the type checker
    return found


def defaults_fault(values: DefaultValues) -> str:
    """What is wrong with defaults; empty for nothing."""
    return next(_faults(values), "")


def _faults(values: DefaultValues) -> Iterator[str]:
    yield from filter(None, map(_variable_fault, values.variables))
    for name in values.image_pull_secrets:
        if not isinstance(name, str) or not _SECRET.fullmatch(name):
            yield f"returned the pull secret {name!r}, which is no name of a Secret"
    yield from filter(None, map(_credentials_fault, values.credentials))
    for problem in values.problems:
        if not isinstance(problem, DefaultsProblem) or not problem.message or "\n" in problem.message:
            yield f"returned {problem!r}, expected a DefaultsProblem with one line of text"


def _variable_fault(variable: object) -> str:
    if not isinstance(variable, SecretVariable) or not _VARIABLE.fullmatch(variable.name):
        return f"returned {variable!r}, expected SecretVariables with a name that a variable can have"
    if not _SECRET.fullmatch(variable.secret) or not _KEY.fullmatch(variable.key):
        return f"returned {variable!r}, of which the Secret or the key has an impossible name"
    if variable.section not in _SECTIONS:
        return f"returned {variable!r}, expected one of the sections {', '.join(_SECTIONS[1:])}, or none"
    return ""


def _credentials_fault(entry: object) -> str:
    if not isinstance(entry, ItemCredentials) or not entry.path or not entry.secrets:
        return f"returned {entry!r}, expected ItemCredentials with a path and Secrets"
    for reference in entry.secrets.values():
        if not isinstance(reference, SecretReference) or not _SECRET.fullmatch(reference.name):
            return f"returned {reference!r}, expected SecretReferences"
    return ""
