"""Reading embedded objects whose schema nobody checked: a list for a map is an answer, not a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.workload.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kaiwo.engine.resource import Object, Resource

_OBJECT_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")

_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}


def kind_of(value: Any) -> str:
    """The JSON type of a value in words, for error messages."""
    return _NAMES.get(type(value), "null" if value is None else type(value).__name__)


def as_map(value: Any, path: str) -> Object:
    """The value as an object; an absent one is empty.

    Raises:
        SpecError: it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SpecError(path, f"must be an object, not {kind_of(value)}")
    return value


def as_object(value: Any, path: str, kind: Resource) -> Object:
    """The value as a whole object of a kind; an absent one is empty.

    Only its ``metadata`` and ``spec`` are used. Another field beside them would be dropped without a word,
    for example a ``template`` that was meant to be in ``spec``.

    Raises:
        SpecError: it is something else, an object of another kind, or has a field that no object has.
    """
    block = as_map(value, path)
    group = str(block.get("apiVersion") or kind.api_version).rpartition("/")[0]
    if group != kind.group:
        raise SpecError(f"{path}.apiVersion", f"must be {kind.api_version} or left out")
    if (block.get("kind") or kind.kind) != kind.kind:
        raise SpecError(f"{path}.kind", f"must be {kind.kind} or left out")
    check_beside_spec(block, path, _OBJECT_FIELDS, kind.kind)
    for name in ("metadata", "spec"):
        as_map(block.get(name), f"{path}.{name}")
    return block


def check_beside_spec(value: Object, path: str, known: Collection[str], what: str) -> None:
    """Report a field beside the spec of an object that would be dropped without a word.

    Args:
        value: the object.
        path: where it is.
        known: fields that it has.
        what: it is, for the message.

    Raises:
        SpecError: the first one with a value.
    """
    for name, item in value.items():
        if name not in known and not is_blank(item):
            raise SpecError(f"{path}.{name}", f"unknown field of a {what}; write it below {path}.spec")


def as_maps(value: Any, path: str) -> list[Object]:
    """The value as a list of objects; an absent one is empty.

    Raises:
        SpecError: it is something else, or one of its items is.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise SpecError(path, f"must be a list, not {kind_of(value)}")
    for position, item in enumerate(value):
        if not isinstance(item, dict):
            raise SpecError(f"{path}[{position}]", f"must be an object, not {kind_of(item)}")
    return value


def as_strings(value: Any, path: str) -> dict[str, str]:
    """The value as labels or annotations; an absent one is empty.

    Raises:
        SpecError: it is something else, or one of its values is not a string.
    """
    mapping = as_map(value, path)
    for key, item in mapping.items():
        if not isinstance(item, str):
            raise SpecError(f"{path}[{key}]", f"must be a string, not {kind_of(item)}; put it in quotes")
    return mapping


def as_integer(value: Any, path: str) -> int | None:
    """The value as an integer, None when absent.

    Raises:
        SpecError: it is something else.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError(path, f"must be an integer, not {kind_of(value)}")
    return value


def without_nulls(value: Any) -> Any:
    """A deep copy without null fields.

    Null means "absent" in a new object, and some webhooks compare it as a change later.
    """
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


def is_blank(value: Any) -> bool:
    """Whether nothing stands in a value: absent, or objects and lists of nothing.

    Go clients write what they leave out of an embedded object like this:
    ``{metadata: {creationTimestamp: null}, spec: {containers: null}}``.
    """
    if isinstance(value, dict):
        return all(is_blank(item) for item in value.values())
    if isinstance(value, list):
        return all(is_blank(item) for item in value)
    return value is None


def lenient_map(value: Any) -> Object:
    """The value if it is an object, else an empty one: for live objects that somebody else wrote."""
    return value if isinstance(value, dict) else {}


def lenient_maps(value: Any) -> list[Object]:
    """The objects in a list, other items left out: for live objects that somebody else wrote."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def lenient_text(value: object) -> str:
    """A string as it is, anything else as the empty string."""
    return value if isinstance(value, str) else ""


def name_of(obj: Object) -> str:
    """The name of a live object, empty without one."""
    return lenient_text(lenient_map(obj.get("metadata")).get("name"))


def is_deleting(obj: Object) -> bool:
    """Whether a live object is being deleted, and is there until its finalizers have ended."""
    return bool(lenient_map(obj.get("metadata")).get("deletionTimestamp"))


def one_line(text: Any) -> str:
    """A text that somebody else wrote, line breaks and other spaces as one space each; empty for nothing."""
    return " ".join(str(text or "").split())


def cut(text: str, limit: int) -> str:
    """A text of at most so many characters; the last one shows that there were more."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def last_line(text: object) -> str:
    """The last line of a text that has more than blanks, without those at its ends; empty without one."""
    lines = reversed(lenient_text(text).splitlines())
    return next((line.strip() for line in lines if line.strip()), "")


def holding(conditions: Any) -> dict[str, Object]:
    """The conditions of a status that are true, by type; odd values count as absent."""
    return {str(item.get("type")): item for item in lenient_maps(conditions) if item.get("status") == "True"}


def value_at(obj: object, path: Iterable[str]) -> Any:
    """The value at a path of keys; None where it or anything above it is absent."""
    value: Any = obj
    for name in path:
        value = lenient_map(value).get(name)
    return value
