"""What a case is, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from campaign.arena import Arena


EVIDENCE: Final = "evidence"
"""The directory, in that of a case, with what shows why the case failed."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the campaign in a namespace of its control plane.

    Attributes:
        set: letter of its set.
        name: unique within the set.
        run: carries it out.
        own: whether it needs an operator of its own; other cases share one.
        group: cases of a set with the same group run one after another in one namespace; empty for a
            namespace of its own.
        rests: whether nothing may be written any more after its end, for as long as the runner watches.
    """

    set: str
    name: str
    run: Callable[[Arena], Awaitable[None]]
    own: bool = False
    group: str = ""
    rests: bool = False

    def __str__(self) -> str:
        """As the command line takes it."""
        return f"{self.set}/{self.name}"


@dataclass(frozen=True, slots=True)
class StandaloneCase:
    """One run of the campaign that needs nothing of its control plane: none at all, or one of its own.

    Attributes:
        set: letter of its set.
        name: unique within the set.
        run: carries it out, with an empty directory that goes afterwards.
        exclusive: whether no other case may run at the same time.
        seconds: after which it has failed.
        plane: whether it starts a control plane.
    """

    set: str
    name: str
    run: Callable[[Path], Awaitable[None]]
    exclusive: bool = False
    seconds: float = 240.0
    plane: bool = False

    def __str__(self) -> str:
        """As the command line takes it."""
        return f"{self.set}/{self.name}"


@dataclass(frozen=True, slots=True)
class Result:
    """How a case ended.

    Attributes:
        case: the case.
        seconds: it took, without the watch for late writes.
        oracle: that does not hold; empty when all do.
        message: what was found, or why the case was not run.
        run: whether it was run at all.
        began: when, by the monotonic clock of the machine.
        ended: when, with the watch for late writes.
    """

    case: Case | StandaloneCase
    seconds: float
    oracle: str = ""
    message: str = ""
    run: bool = True
    began: float = 0.0
    ended: float = 0.0
