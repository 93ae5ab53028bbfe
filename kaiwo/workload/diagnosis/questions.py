"""What else is worth reading, by what was read so far: events, logs, and what pods refer to. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaiwo.workload.diagnosis.evidence import failed_containers, pull_secrets, references
from kaiwo.workload.diagnosis.pods import state_of
from kaiwo.workload.json_access import holding, lenient_map, lenient_text, name_of
from kaiwo.workload.observe import pod_status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.resource import Object
    from kaiwo.workload.diagnosis.model import DiagnosisFacts

MOST_SUBJECTS = 6
"""Objects whose events are read."""

MOST_LOGS = 3
"""Containers whose last lines are read."""

_POD_CREATORS = ("ReplicaSet", "RayCluster", "RayService", "Job")


class LogQuestion(NamedTuple):
    """Whose last lines are worth reading.

    Attributes:
        pod: name of the pod.
        container: name of the container.
        previous: of the run before the current one.
    """

    pod: str
    container: str
    previous: bool


def event_subjects(facts: DiagnosisFacts) -> list[Object]:
    """The objects whose Warning events may say why something does not go on, the most telling first."""
    troubled = [pod for pod in facts.pods if state_of(pod, facts)[0] != "ok"]
    claims = [
        obj
        for obj in facts.objects
        if obj.get("kind") == "PersistentVolumeClaim"
        and lenient_map(obj.get("status")).get("phase") != "Bound"
    ]
    child = [facts.child] if facts.child is not None and not _is_well(facts.child) else []
    creators = [
        obj
        for obj in facts.objects
        if obj.get("kind") in _POD_CREATORS and not facts.pods and not _is_well(obj)
    ]
    found = [*troubled[:3], *claims, *child, *creators]
    return [obj for obj in found if lenient_text(lenient_map(obj.get("metadata")).get("uid"))][:MOST_SUBJECTS]


def log_questions(facts: DiagnosisFacts) -> list[LogQuestion]:
    """The containers that failed, the newest pods first."""
    return list(_logs(facts))[:MOST_LOGS]


def _created(pod: Object) -> str:
    return lenient_text(_metadata(pod).get("creationTimestamp"))


def _logs(facts: DiagnosisFacts) -> Iterator[LogQuestion]:
    for pod in sorted(facts.pods, key=_created, reverse=True):
        failed = failed_containers(pod)
        for container in pod_status.containers(pod, init=True):
            name = lenient_text(container.get("name"))
            if name in failed and name_of(pod):
                ended = lenient_map(lenient_map(container.get("state")).get("terminated"))
                yield LogQuestion(name_of(pod), name, previous=not ended.get("exitCode"))


def wanted_references(facts: DiagnosisFacts) -> list[tuple[str, str]]:
    """Kinds and names of Secrets and ConfigMaps that pods which have a node, and do not start, refer to."""
    found: dict[tuple[str, str], None] = {}
    for pod in pod_status.current(facts.pods):
        phase = lenient_map(pod.get("status")).get("phase")
        if phase == "Pending" and lenient_map(pod.get("spec")).get("nodeName") and not pod_status.runs(pod):
            found.update(dict.fromkeys(references(pod)))
            found.update(dict.fromkeys(("Secret", name) for name in pull_secrets(pod)))
    return list(found)[:MOST_SUBJECTS]


def needs_classes(facts: DiagnosisFacts) -> bool:
    """Whether a claim is not bound, so that its StorageClass matters."""
    return any(
        obj.get("kind") == "PersistentVolumeClaim" and lenient_map(obj.get("status")).get("phase") != "Bound"
        for obj in facts.objects
    )


def _is_well(obj: Object) -> bool:
    conditions = holding(lenient_map(obj.get("status")).get("conditions"))
    return "Complete" in conditions or ("Available" in conditions and "ReplicaFailure" not in conditions)


def _metadata(obj: Object) -> Object:
    return lenient_map(obj.get("metadata"))
