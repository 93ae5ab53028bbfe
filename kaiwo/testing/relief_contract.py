"""What the host relies on in the answers of a queue system about quota that others hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kaiwo.plugin.queue_relief import QueueRelief

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo.plugin.queue_relief import ReliefFacts

_SINGLE_MEMBERS: Final = 3
_EXPECTED: Final = "a mapping of the uids of waiting workloads to QueueRelief"


@dataclass(frozen=True, slots=True)
class ReliefAnswers:
    """What a queue system answered, in a form that can be compared.

    Attributes:
        waiting: uids of those that were asked about.
        held: uids of those that could be ended.
        found: what the function returned; the `place` of each answer is replaced.
        places: by uid what `place` returned, for nobody, for single members, for all members and for all
            that could be ended.
    """

    waiting: frozenset[str]
    held: frozenset[str]
    found: object
    places: Mapping[str, tuple[object, ...]]


def relief_answers(
    relief: Callable[[ReliefFacts], Mapping[str, QueueRelief]], facts: ReliefFacts
) -> ReliefAnswers:
    """Call `relief`, and the `place` of each answer as the host does.

    Args:
        relief: the function of the queue system.
        facts: what it gets.

    Raises:
        Exception: whatever one of them raises.
    """
    found: Any = relief(facts)
    waiting, held = frozenset(facts.waiting), frozenset(facts.held)
    if not isinstance(found, Mapping):
        return ReliefAnswers(waiting, held, found, {})
    places = {
        uid: tuple(answer.place(ended) for ended in _endings(answer, held))
        for uid, answer in found.items()
        if isinstance(answer, QueueRelief) and callable(answer.place)
    }
    kept = {
        uid: replace(answer, place=_not_compared) if uid in places else answer
        for uid, answer in found.items()
    }
    return ReliefAnswers(waiting, held, kept, places)


def relief_fault(answers: ReliefAnswers) -> str:
    """What is wrong with the form of the answers; empty for nothing."""
    if not isinstance(answers.found, Mapping):
        return f"returned {type(answers.found).__name__}, expected {_EXPECTED}"
    return next((fault for item in answers.found.items() for fault in _faults(answers, *item)), "")


def relief_loss(answers: ReliefAnswers) -> str:
    """Which workload runs if some end, and no longer if more do; empty for none."""
    for uid, places in answers.places.items():
        nobody, *single, members, everybody = (place is not None for place in places)
        if (
            (nobody and not (all(single) and members))
            or (any(single) and not members)
            or (members and not everybody)
        ):
            return f"lets {uid} run if some workloads end, and not if more do"
    return ""


def _endings(answer: QueueRelief, held: frozenset[str]) -> Iterator[frozenset[str]]:
    """Nobody, then more and more of those that could be ended."""
    given: Any = answer.members
    members: frozenset[str] = given if isinstance(given, frozenset) else frozenset()
    yield frozenset()
    for member in sorted(members, key=str)[:_SINGLE_MEMBERS]:
        yield frozenset({member})
    yield members
    yield members | held


def _faults(answers: ReliefAnswers, uid: object, answer: object) -> Iterator[str]:
    """What is wrong with one answer."""
    if uid not in answers.waiting:
        yield f"answered for {uid!r}, which does not wait"
    if not isinstance(answer, QueueRelief):
        yield f"returned {type(answer).__name__} for a workload, expected QueueRelief"
        return
    given: dict[str, Any] = {name: getattr(answer, name) for name in QueueRelief.__dataclass_fields__}
    if not isinstance(given["queue"], str) or not given["queue"]:
        yield f"returned queue={given['queue']!r}, expected the name of the workload's queue"
    if not isinstance(given["sharing"], frozenset) or given["queue"] not in given["sharing"]:
        yield f"returned sharing={given['sharing']!r}, expected a frozenset with the queue itself"
    if not isinstance(given["members"], frozenset) or not given["members"] <= answers.held:
        yield f"returned members={given['members']!r}, expected a frozenset of uids of `held`"
    if type(given["priority"]) is not int or type(given["strict"]) is not bool:
        yield (
            f"returned priority={given['priority']!r} and strict={given['strict']!r}, "
            "expected a whole number and True or False"
        )
    at = given["queued_at"]
    if at is not None and (not isinstance(at, datetime) or at.utcoffset() is None):
        yield f"returned queued_at={at!r}, expected a time with a zone, or None"
    for place in answers.places.get(str(uid), ({"": "is no function"},)):
        if place is not None and not _is_labels(place):
            yield f"returned a `place` that answers {place!r}, expected labels of nodes, or None"


def _is_labels(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and key and isinstance(item, str) for key, item in value.items()
    )


def _not_compared(ended: frozenset[str]) -> None:
    """Stands for a `place`, which is equal to no other one."""
    del ended
