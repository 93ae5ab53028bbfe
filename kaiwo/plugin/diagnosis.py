"""Diagnosis: rules from facts to one sentence with the cause, and the links of the chain that lead to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.observation import Finding, Observation

LinkState: TypeAlias = Literal["ok", "waits", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One object between a workload and its containers, as ``kaiwo why`` lists them.

    Attributes:
        kind: kind of the object (``ClusterQueue``).
        name: its name.
        state: ``ok``, ``waits`` (for something else), ``failed`` (needs somebody), or ``unknown``.
        message: its state in a few words.
    """

    kind: str
    name: str
    state: LinkState
    message: str = ""


@dataclass(frozen=True, slots=True)
class QueueExplanation:
    """The part of a workload's chain that only its queue system knows.

    Attributes:
        links: from the queue system's own object for the child to its queue and to what the queue lacks.
        finding: why the child is not admitted; None when it is, or when nothing is wrong.
        evidence: facts that support the finding, one sentence each.
    """

    links: tuple[ChainLink, ...] = ()
    finding: Finding | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DiagnosisRule:
    """A rule that is called after the host's own, in the order of loading; the first finding is used.

    ``kaiwo why`` shows the findings of all rules, each with the rule's name.

    Attributes:
        name: short name for ``kaiwo plugins`` and ``kaiwo why``.
        diagnose: pure function from what was observed to a finding, or None when the rule has nothing to say.
    """

    name: str
    diagnose: Callable[[Observation], Finding | None]
