"""Diagnosis: rules from facts to one sentence with the cause, and the links of the chain that lead to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from kaiwo.plugin.declaration import Declaration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.observation import Finding, Observation
    from kaiwo.plugin.queues import Admission, QueueFacts

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
class QueueExplainer:
    """How a queue system explains where a child is.

    Attributes:
        explain: pure function: the chain of a live child, and why it is not admitted; None for one that is
            not queued. Its facts have objects of the kinds in `reads`, pods and the time, and nothing else.
        admission: pure function: the admission of a live child, as :class:`~kaiwo.plugin.queues.QueueSystem`
            has it.
        reads: kinds that are read for it: of those in `owned` the objects that `owned_by` selects, of other
            namespaced kinds those of the workload's namespace, else all.
        owned: those of them whose objects each belong to one child or pod.
        owned_by: the label selector of objects in `owned` that belong to objects with given uids.
    """

    explain: Callable[[Object, QueueFacts], QueueExplanation | None]
    admission: Callable[[Object, QueueFacts], Admission | None]
    reads: tuple[Resource, ...]
    owned: tuple[Resource, ...]
    owned_by: Callable[[Sequence[str]], str]


@dataclass(frozen=True, slots=True)
class ChainPart:
    """What ``kaiwo why`` must know of a plugin without loading it, which would take most of its time.

    The plugin's distribution names it in the entry-point group ``kaiwo.chains``, in a module that imports
    neither pydantic nor another heavy library.

    Attributes:
        children: by name of a backend the kinds of the objects between a workload and its pods, the child
            first.
        queue: how the plugin's queue system explains where a child is.
    """

    children: Mapping[str, tuple[Resource, ...]] = field(default_factory=dict)
    queue: QueueExplainer | None = None


@dataclass(frozen=True, slots=True)
class DiagnosisRule(Declaration):
    """A rule that is called after the host's own, in the order of loading; the first finding is used.

    ``kaiwo why`` shows the findings of all rules, each with the rule's name.

    Attributes:
        name: short name for ``kaiwo plugins`` and ``kaiwo why``.
        diagnose: pure function from what was observed to a finding, or None when the rule has nothing to say.
    """

    name: str
    diagnose: Callable[[Observation], Finding | None]
