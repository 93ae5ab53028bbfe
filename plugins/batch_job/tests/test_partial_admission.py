"""Jobs that Kueue starts with fewer pods than they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo_batch_job.partial_admission import with_admitted_parallelism

Object = dict[str, Any]
QUEUED = {"kueue.x-k8s.io/queue-name": "team"}
PARTIAL = {"kueue.x-k8s.io/job-min-parallelism": "2"}
DESIRED = {"metadata": {"name": "train"}, "spec": {"parallelism": 4, "completions": 8}}


def job(labels: Object = QUEUED, annotations: Object = PARTIAL, **spec: Any) -> Object:
    """A live Job."""
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"parallelism": 2, **spec}}


def test_the_admitted_parallelism_is_kept_while_the_job_runs() -> None:
    """Kueue's webhook refuses another one until the Job is suspended again."""
    merged = with_admitted_parallelism(DESIRED, job(suspend=False))
    assert merged["spec"] == {"parallelism": 2, "completions": 8}
    assert DESIRED["spec"] == {"parallelism": 4, "completions": 8}, "what was given does not change"


@pytest.mark.parametrize(
    "live",
    [
        job(suspend=True),
        job(annotations={}),
        job(labels={}),
        {"metadata": None, "spec": None},
        {},
    ],
)
def test_otherwise_the_wanted_parallelism_holds(live: Object) -> None:
    """Before admission, without the annotation, and without a queue."""
    assert with_admitted_parallelism(DESIRED, live) is DESIRED
