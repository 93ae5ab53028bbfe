"""The form of objects that two runs of a workload have in common."""

from __future__ import annotations

from typing import Any

from campaign.children import differences, normal_form

UID = "0a1b2c3d-0000-4000-8000-00000000000{}"


def job(number: int, **spec: Any) -> dict[str, Any]:
    """A Job of one of two runs."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": f"run-{number}",
            "uid": UID.format(number),
            "resourceVersion": str(number),
            "labels": {"run-id": UID.format(number + 5)},
            "annotations": {"kaiwo.silogen.ai/applied": f"digest {number}", "team": "a"},
        },
        "spec": {"suspend": False, "selector": UID.format(number), **spec},
        "status": {"active": number},
    }


def test_two_runs_of_the_same_workload_are_equal() -> None:
    """Names of namespaces, uids and what the API server counts differ, and are left out."""
    first, second = normal_form([job(1)], "run-1"), normal_form([job(2)], "run-2")
    assert first == second
    assert first["Job/train"]["metadata"]["annotations"] == {"team": "a"}


def test_what_differs_is_named_with_its_field() -> None:
    """A person who reads the result of a campaign has to find it."""
    first, second = normal_form([job(1)], "run-1"), normal_form([job(2, suspend=True)], "run-2")
    assert differences(first, second) == ["Job/train.spec.suspend is True, not False"]


def test_objects_that_are_missing_or_too_many_are_named() -> None:
    """One that was lost, and one that was made twice."""
    one = normal_form([job(1)], "run-1")
    assert differences(one, {}) == ["Job/train is missing"]
    assert differences({}, one) == ["Job/train is too many"]
