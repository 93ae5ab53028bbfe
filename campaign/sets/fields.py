"""Set A: a field of the schema has a wrong, extreme or hostile value when a workload is created."""

from __future__ import annotations

import asyncio
import json
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from campaign import oracles
from campaign.case import Case
from campaign.children import children
from campaign.expected import Planner, unlike
from campaign.leaves import ITEM, VALUE, leaves
from campaign.violation import ViolationError
from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.errors import ApiError, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from campaign.arena import Arena, Cluster
    from campaign.leaves import Leaf
    from kaiwo.engine.resource import Object

INJECTION: Final = 'a\'; touch /tmp/owned; "$(id)" `id` {{ x }} #\n- &a !!python/name:os.system'
"""A text that means something to a shell, to YAML and to templates."""

LONG: Final = "ж\u2028" * 32_768
"""128 kB of characters that are more than one byte each, 64 thousand of them."""

ABSENT: Final = object()
_LIMIT: Final = 40.0
_REFUSED: Final = "the API server refused "
"""Beginning of the message about an object that the API server does not take."""

_PAUSE: Final = 0.2
_FREE_TEXT: Final = ("entrypoint",)
"""Fields that are a shell command by their meaning."""


def _wrong_type(leaf: Leaf) -> Any:
    types = {"integer": "one", "boolean": "yes", "object": "text"}
    return types.get(leaf.schema.get("type", ""), {"a": ["list"]})


def _empty(leaf: Leaf) -> Any:
    return {} if leaf.schema.get("type") == "object" else ""


def _below(leaf: Leaf) -> Any:
    kind = leaf.schema.get("type")
    if kind == "integer":
        return leaf.schema.get("minimum", 0) - 1
    if kind == "object":
        return {"spec": None}
    return 0 if kind == "boolean" else " "


def _above(leaf: Leaf) -> Any:
    kind = leaf.schema.get("type")
    if kind == "integer":
        return leaf.schema.get("maximum", 2**63 - 1) + 1
    if kind == "object":
        return {"spec": {"template": {"spec": [[{}] * 100] * 100}}}
    return 1 if kind == "boolean" else "1" * (leaf.schema.get("maxLength", 1024) + 1)


MUTATIONS: Final[dict[str, Callable[[Leaf], Any]]] = {
    "absent": lambda _: ABSENT,
    "null": lambda _: None,
    "wrong-type": _wrong_type,
    "empty": _empty,
    "below": _below,
    "above": _above,
    "long": lambda _: LONG,
    "injection": lambda leaf: {INJECTION: INJECTION} if leaf.schema.get("type") == "object" else INJECTION,
}
"""By name: the value of a field; `ABSENT` for none."""


def cases(cluster: Cluster) -> Iterator[Case]:
    """A case for each field and each mutation."""
    planners: dict[str, asyncio.Task[Planner]] = {}

    async def planner() -> Planner:
        if "" not in planners:
            planners[""] = asyncio.create_task(Planner.of(cluster))
        return await planners[""]

    for leaf in leaves():
        for mutation in MUTATIONS:
            yield Case("A", f"{leaf}-{mutation}", partial(_run, leaf, mutation, planner), group=str(leaf))


def mutated(leaf: Leaf, mutation: str) -> Object:
    """The specification of a case: valid but for one field."""
    spec = leaf.spec()
    parent, key = leaf.place(spec)
    value = MUTATIONS[mutation](leaf)
    if value is ABSENT:
        del parent[key]
    else:
        parent[key] = value
    if mutation == "injection" and leaf.path[-1] == VALUE:
        parent[INJECTION] = parent.pop(key)
    return spec


async def _run(leaf: Leaf, mutation: str, planner: Callable[[], Any], arena: Arena) -> None:
    body = leaf.workload(mutation, mutated(leaf, mutation))
    body["metadata"]["namespace"] = arena.namespace
    kind = WORKLOADS[leaf.kind]
    try:
        created = await arena.client.create(kind, body)
    except ServerUnavailable as error:
        raise ViolationError("O6", f"the API server: {error}") from None
    except ApiError as error:
        _named(leaf, error.message)
        return
    try:
        await _accepted(
            leaf, {"apiVersion": kind.api_version, "kind": kind.kind, **created}, await planner(), arena
        )
    finally:
        await arena.client.delete(kind, arena.namespace, mutation)


async def _accepted(leaf: Leaf, created: Object, planner: Planner, arena: Arena) -> None:
    """The workload comes to what the pure planner makes of it, or its status says what is wrong."""
    kind, name = WORKLOADS[leaf.kind], created["metadata"]["name"]
    expected = planner.expected(created)
    found = ["nothing was looked at"]
    made: list[Object] = []
    for _ in range(int(_LIMIT / _PAUSE)):
        status = (await arena.client.get(kind, arena.namespace, name)).get("status") or {}
        current = status.get("observedGeneration") == created["metadata"]["generation"]
        if current:
            made = await children(arena.client, arena.namespace, uid=created["metadata"]["uid"])
        if current and not made and not expected.objects:
            found = _other_words(expected.status, status)
            if not found:
                _named(leaf, status["message"])
                break
            await asyncio.sleep(_PAUSE)
            continue
        if current and status["message"].startswith(_REFUSED):
            _named(leaf, status["message"])
            break
        found = unlike(expected, made) if made else [f"nothing was made: {status}"]
        if current and not found:
            break
        await asyncio.sleep(_PAUSE)
    else:
        raise ViolationError(
            "O1", f"{'; '.join(found[:5])}; status {status.get('status')} {status.get('message')}"
        )
    if leaf.name not in _FREE_TEXT:
        _quoted(made)
    oracles.bounded(arena)
    if arena.operator:
        oracles.no_traceback(arena.operator)


def _other_words(wanted: Object, status: Object) -> list[str]:
    """In what the status of a workload for which nothing is made differs from that of the planner."""
    return [
        f"{part} is {status.get(part)!r:.300}, not {wanted.get(part)!r:.300}"
        for part in ("status", "reason", "message")
        if status.get(part) != wanted.get(part)
    ]


def _named(leaf: Leaf, message: str) -> None:
    """A message names the field, or the entry that it is part of."""
    names = [step for step in leaf.path if step not in (ITEM, VALUE)][-2:]
    if not any(name.lower() in message.lower() for name in names):
        raise ViolationError("O10", f"{' or '.join(names)} is not named: {message:.500}")


def _quoted(made: list[Object]) -> None:
    """No text of a user is part of a shell command, unless it is a single word of it."""
    for obj in made:
        for words in _commands(obj):
            for word in words:
                if INJECTION in word and word != INJECTION and INJECTION not in _shell_words(word):
                    raise ViolationError("O6", f"{obj['kind']}: unquoted in a command: {word:.300}")


def _shell_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _commands(part: Any) -> Iterator[list[str]]:
    """Every command and its arguments in an object."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key in ("command", "args") and isinstance(value, list):
                yield [word if isinstance(word, str) else json.dumps(word) for word in value]
            elif key == "entrypoint" and isinstance(value, str):
                yield [value]
            else:
                yield from _commands(value)
    elif isinstance(part, list):
        for item in part:
            yield from _commands(item)
