"""With how many pods Kueue starts a Job, which may permit fewer than it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.json_access import lenient_map, lenient_text
from kaiwo.plugin.kit.kinds import JOB
from kaiwo_kueue.kinds import QUEUE_LABEL

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object

MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
"""Annotation of a Job: with how many pods Kueue may start it where there is no quota for all of them."""

_MOST_DIGITS: Final = 10
"""Digits of the largest number of pods, 2147483647."""


def fewest_pods(child: Object) -> int | None:
    """With how many pods, at least, Kueue starts a Job; None for an object of another kind.

    It starts all that run at the same time, or fewer where the Job permits that. Pods of a Deployment are
    queued one by one.
    """
    if not _is_job(child):
        return None
    spec = lenient_map(child.get("spec"))
    pods = _count(spec.get("parallelism"), 1)
    pods = min(pods, _count(spec.get("completions"), pods))
    annotations = lenient_map(lenient_map(child.get("metadata")).get("annotations"))
    least = lenient_text(annotations.get(MIN_PARALLELISM))
    if not (least.isascii() and least.isdigit() and len(least) <= _MOST_DIGITS):
        return pods
    return min(pods, int(least)) or pods


def with_admitted_parallelism(desired: Object, live: Object) -> Object:
    """The wanted Job with the parallelism that Kueue admitted.

    While such a Job is not suspended, Kueue's webhook lets nobody change its parallelism. When it suspends
    the Job again, it restores what was wanted.

    Args:
        desired: the rendered object; anything but a Job stays as it is.
        live: the live object.
    """
    metadata, spec = lenient_map(live.get("metadata")), lenient_map(live.get("spec"))
    queued = QUEUE_LABEL in lenient_map(metadata.get("labels"))
    partial = queued and MIN_PARALLELISM in lenient_map(metadata.get("annotations"))
    admitted = spec.get("parallelism")
    if not _is_job(desired) or not partial or spec.get("suspend") or admitted is None:
        return desired
    return {**desired, "spec": {**lenient_map(desired.get("spec")), "parallelism": admitted}}


def _is_job(obj: Object) -> bool:
    group, _, _ = lenient_text(obj.get("apiVersion")).rpartition("/")
    return (group, obj.get("kind")) == (JOB.group, JOB.kind)


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
