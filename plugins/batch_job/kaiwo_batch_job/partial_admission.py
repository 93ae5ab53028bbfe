"""Jobs that Kueue may start with fewer pods than they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object

_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
"""Annotation of a Job: the fewest pods with which Kueue may start it."""


def with_admitted_parallelism(desired: Object, live: Object) -> Object:
    """The wanted Job with the parallelism that Kueue admitted.

    While such a Job is not suspended, Kueue's webhook lets nobody change its parallelism. When it suspends
    the Job again, it restores what was wanted.

    Args:
        desired: the rendered Job.
        live: the live Job.
    """
    metadata, spec = lenient_map(live.get("metadata")), lenient_map(live.get("spec"))
    queued = _QUEUE_NAME in lenient_map(metadata.get("labels"))
    partial = queued and _MIN_PARALLELISM in lenient_map(metadata.get("annotations"))
    admitted = spec.get("parallelism")
    if not partial or spec.get("suspend") or admitted is None:
        return desired
    return {**desired, "spec": {**lenient_map(desired.get("spec")), "parallelism": admitted}}
