"""With how many pods Kueue starts a Job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.json_access import lenient_map, lenient_text
from kaiwo.plugin.kit.kinds import JOB

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object

MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
"""Annotation of a Job: with how many pods Kueue may start it where there is no quota for all of them."""


def fewest_pods(child: Object) -> int | None:
    """With how many pods, at least, Kueue starts a Job; None for an object of another kind.

    It starts all that run at the same time, or fewer where the Job permits that. Pods of a Deployment are
    queued one by one.
    """
    group, _, _ = lenient_text(child.get("apiVersion")).rpartition("/")
    if (group, child.get("kind")) != (JOB.group, JOB.kind):
        return None
    spec = lenient_map(child.get("spec"))
    pods = _count(spec.get("parallelism"), 1)
    pods = min(pods, _count(spec.get("completions"), pods))
    annotations = lenient_map(lenient_map(child.get("metadata")).get("annotations"))
    least = lenient_text(annotations.get(MIN_PARALLELISM))
    return min(pods, int(least)) if least.isascii() and least.isdigit() and int(least) else pods


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
