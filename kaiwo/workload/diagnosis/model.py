"""What a diagnosis is made from, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaiwo.plugin.diagnosis import LinkState  # noqa: TC001 (a decoder of JSON reads the annotations)
from kaiwo.workload.json_access import lenient_map, lenient_text, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.diagnosis import ChainLink, QueueExplanation
    from kaiwo.plugin.observation import Finding, Outcome
    from kaiwo.workload.storage.classes import StorageClass


@dataclass(frozen=True, slots=True)
class DiagnosisFacts:
    """Everything that a diagnosis may depend on. Objects are as the API server sent them, of any schema.

    Attributes:
        workload: the live KaiwoJob or KaiwoService.
        now: the time of the diagnosis, UTC.
        child: the live object that runs the workload, None when there is none.
        objects: what else was created for it, pods left out.
        pods: its pods, those that download included.
        events: Warning events about the objects that `subjects` names, in any order.
        logs: last lines of containers that failed, by `log_key`.
        missing: names of Secrets and ConfigMaps that pods refer to and that do not exist, each with its kind.
        outcome: what its backend makes of the child now; None where nobody can say.
        download: the same of the download Job.
        queue: what the queue system says, None without one or without a child.
        findings: of diagnosis rules of plugins, each with the rule's name.
        config: KaiwoConfig, None when it is not there or was not read.
        lease: the operator's Lease, None when it is not there or was not read.
        lease_read: whether the Lease could be read; False says nothing about the operator.
        storage_classes: by name, None when they were not read.
    """

    workload: Object
    now: datetime
    child: Object | None = None
    objects: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    events: tuple[Object, ...] = ()
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[tuple[str, str], ...] = ()
    outcome: Outcome | None = None
    download: Outcome | None = None
    queue: QueueExplanation | None = None
    findings: tuple[tuple[str, Finding], ...] = ()
    config: Object | None = None
    lease: Object | None = None
    lease_read: bool = False
    storage_classes: Mapping[str, StorageClass] | None = None

    @property
    def metadata(self) -> Object:
        """``metadata`` of the workload."""
        return lenient_map(self.workload.get("metadata"))

    @property
    def status(self) -> Object:
        """``status`` of the workload, empty before an operator has observed it."""
        return lenient_map(self.workload.get("status"))

    @property
    def word(self) -> str:
        """The status word as it is recorded."""
        return lenient_text(self.status.get("status"))


@dataclass(frozen=True, slots=True)
class DiagnosedCause:
    """One thing that explains where a workload is.

    Attributes:
        code: CamelCase word; the reason of the status where that has the same cause.
        message: one sentence.
        state: ``ok`` (nothing is wrong), ``waits`` (goes on by itself), ``failed`` (needs somebody).
        object: kind and name of the object that shows it (``Pod train-x1``), empty for the workload itself.
        evidence: facts that support it, one sentence each.
        command: what to run next, empty for nothing.
        rule: name of the plugin's diagnosis rule that found it, empty for Kaiwo's own rules.
    """

    code: str
    message: str
    state: LinkState = "failed"
    object: str = ""
    evidence: tuple[str, ...] = ()
    command: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What all rules together come to.

    Attributes:
        verdict: the first cause, from which the others follow or beside which they matter less.
        others: the other causes, in the order of the rules.
        chain: every object from the workload to its pods, with its state.
    """

    verdict: DiagnosedCause
    others: tuple[DiagnosedCause, ...] = ()
    chain: tuple[ChainLink, ...] = ()


def title(obj: Object) -> str:
    """Kind and name of a live object."""
    return f"{lenient_text(obj.get('kind')) or 'object'} {name_of(obj)}"


def span(seconds: float) -> str:
    """A span of time in its largest unit: ``40 s``, ``12 min``, ``3 h``."""
    whole = max(0, int(seconds))
    for unit, size in (("h", 3600), ("min", 60)):
        if whole >= 2 * size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def log_key(pod: str, container: str) -> str:
    """The key of a container's lines in `DiagnosisFacts.logs`."""
    return f"{pod}/{container}"
