"""Jobs that Kueue starts with fewer pods than they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo_kueue.job_pods import fewest_pods, with_admitted_parallelism

Object = dict[str, Any]
QUEUED = {"kueue.x-k8s.io/queue-name": "team"}
PARTIAL = {"kueue.x-k8s.io/job-min-parallelism": "2"}
DESIRED: Object = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {"parallelism": 4, "completions": 8},
}


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


def test_only_a_job_has_an_admitted_parallelism() -> None:
    """An object of another kind may carry the annotation as well."""
    other = {**DESIRED, "apiVersion": "ray.io/v1", "kind": "RayJob"}
    assert with_admitted_parallelism(other, job(suspend=False)) is other


@pytest.mark.parametrize(
    ("least", "pods"),
    [("2", 2), ("4", 4), ("9", 4), ("0", 4), ("-1", 4), ("two", 4), ("9" * 5000, 4), ("0" * 5000 + "1", 4)],
)
def test_a_job_starts_with_as_many_pods_as_its_annotation_permits(least: str, pods: int) -> None:
    """Texts that are no number of pods permit nothing, however long they are."""
    annotations = {"kueue.x-k8s.io/job-min-parallelism": least}
    assert fewest_pods({**DESIRED, "metadata": {"annotations": annotations}}) == pods
