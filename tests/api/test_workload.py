"""A workload is read once, fast, and never raises anything but what is wrong with it."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.errors import InvalidWorkload
from kaiwo.api.workload import NEVER, Workload
from kaiwo.api.workload_spec import CommonSpec, JobSpec

OBJECT: dict[str, Any] = {
    "apiVersion": "kaiwo.silogen.ai/v1alpha1",
    "kind": "KaiwoJob",
    "metadata": {
        "name": "train",
        "namespace": "team",
        "uid": "u-1",
        "generation": 3,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-31T09:00:00Z",
        "labels": {"team": "a"},
    },
    "spec": {
        "gpus": 2,
        "gpuVendor": "AMD",
        "replicas": 1,
        "job": {"spec": {"backoffLimit": 1}},
        "user": None,
    },
    "status": {"status": "RUNNING", "startTime": "2026-01-31T09:01:00Z", "childUID": "c-1"},
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
field_names = st.sampled_from([info.alias or name for name, info in CommonSpec.model_fields.items()])


def changed(**parts: Any) -> dict[str, Any]:
    """The object with other top-level parts."""
    return {**copy.deepcopy(OBJECT), **parts}


def test_an_object_becomes_a_frozen_view() -> None:
    """Everything that planning needs is there, with defaults."""
    workload = Workload.from_object(OBJECT)
    assert (workload.kind, workload.namespace, workload.name, workload.uid) == (
        "KaiwoJob",
        "team",
        "train",
        "u-1",
    )
    assert workload.generation == 3
    assert workload.resource_version == "7"
    assert workload.created == datetime(2026, 1, 31, 9, tzinfo=UTC)
    assert not workload.deleting
    assert workload.labels == {"team": "a"}
    assert workload.spec.gpus == 2
    assert workload.spec.vendor == "amd"
    assert workload.spec.storage is None
    assert workload.status.status == "RUNNING"
    assert workload.status.start_time == datetime(2026, 1, 31, 9, 1, tzinfo=UTC)
    assert workload.status.child_uid == "c-1"
    assert not workload.status.terminal


def test_contributed_blocks_are_found_without_knowing_their_plugins() -> None:
    """A backend that comes later needs no change here."""
    workload = Workload.from_object(changed(spec={"job": {"spec": {}}, "acmeRun": {"x": 1}, "rayJob": None}))
    assert workload.blocks == {"job": {"spec": {}}, "acmeRun": {"x": 1}}
    assert workload.given == {"job", "acmeRun"}


def test_fields_of_a_newer_version_are_ignored() -> None:
    """An older operator reads objects that a newer API server took."""
    workload = Workload.from_object(changed(spec={"storage": {"storageEnabled": True, "tier": "gold"}}))
    assert workload.spec.storage is not None
    assert workload.spec.storage.storage_enabled


def test_a_file_without_server_fields_is_read() -> None:
    """``kaiwo plan`` works before the API server has seen the object."""
    workload = Workload.from_object({"kind": "KaiwoService", "metadata": {"name": "a"}})
    assert (workload.uid, workload.generation, workload.namespace) == ("", 0, "")
    assert workload.created == NEVER
    assert workload.spec.replicas == 1
    assert workload.status.status == ""


def test_documented_defaults() -> None:
    """The defaults of the reference, and no others."""
    spec = JobSpec()
    assert (spec.gpus, spec.gpu_vendor, spec.replicas, spec.ray, spec.dangerous) == (
        0,
        "amd",
        1,
        False,
        False,
    )
    given = {"gpus", "gpu_vendor", "replicas", "ray", "dangerous"}
    assert all(value is None for name, value in spec if name not in given)


def test_an_empty_text_is_no_value() -> None:
    """A template that fills in nothing means the default; other texts are judged as ever."""
    empty = {
        "clusterQueue": "",
        "priorityClass": "",
        "duration": "",
        "preferredTopologyLabel": "",
        "requiredTopologyLabel": "",
        "storage": {"data": {"mountPath": "", "storageSize": ""}, "huggingFace": {"storageSize": ""}},
    }
    read = Workload.from_object(changed(spec=empty)).spec
    bare = Workload.from_object(changed(spec={"storage": {"data": {}, "huggingFace": {}}})).spec
    assert read.model_dump(exclude_none=True) == bare.model_dump(exclude_none=True)
    with pytest.raises(InvalidWorkload, match=r"spec\.clusterQueue"):
        Workload.from_object(changed(spec={"clusterQueue": " "}))


def test_a_service_may_be_scaled_to_zero_and_a_job_may_not() -> None:
    """Zero replicas are a state of a service and a mistake in a job."""
    assert Workload.from_object(changed(kind="KaiwoService", spec={"replicas": 0})).spec.replicas == 0
    with pytest.raises(InvalidWorkload, match=r"spec\.replicas: 0 is less than 1"):
        Workload.from_object(changed(spec={"replicas": 0}))


def test_all_problems_are_reported_at_once() -> None:
    """One round trip per mistake would be unkind."""
    with pytest.raises(InvalidWorkload) as refused:
        Workload.from_object(changed(spec={"gpus": -1, "env": [{"name": "A", "value": 1}], "duration": "1d"}))
    assert [problem.path for problem in refused.value.problems] == [
        "spec.gpus",
        "spec.duration",
        "spec.env[0].value",
    ]
    assert 'spec.env[0].value: expected a string, got the number 1 (quote it: "1")' in str(refused.value)


def test_a_broken_status_never_blocks_a_workload() -> None:
    """Status is ours to write anew; what is legible in it is kept."""
    workload = Workload.from_object(changed(status={"status": "NO SUCH", "childUID": "c-1", "duration": "x"}))
    assert workload.status.status == ""
    assert workload.status.child_uid == "c-1"
    assert Workload.from_object(changed(status=["x"])).status.status == ""


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "is not a mapping"),
        ([], "is not a mapping"),
        ({}, "kind: unknown kind null"),
        ({"kind": "Job"}, "known: KaiwoJob, KaiwoService"),
        ({"kind": []}, "unknown kind"),
        (changed(metadata=None), "metadata: must be a mapping"),
        (changed(spec=[]), "spec: must be a mapping"),
        (changed(metadata={"name": 5}), r"metadata\.name: expected a string, got the number 5"),
        (changed(metadata={"labels": {"a": 1}}), 'quote it: "1"'),
    ],
)
def test_what_is_no_workload_is_refused_by_name(obj: object, message: str) -> None:
    """Nonsense of any shape gives a sentence."""
    with pytest.raises(InvalidWorkload, match=message):
        Workload.from_object(obj)


@given(st.dictionaries(field_names | st.text(max_size=6), json_values, max_size=5), json_values)
def test_no_object_raises_anything_else(spec: dict[str, Any], status: Any) -> None:
    """The operator survives whatever an API server with a wider schema hands it."""
    try:
        workload = Workload.from_object(changed(spec=spec, status=status))
    except InvalidWorkload as refused:
        assert refused.problems  # noqa: PT017 (either outcome is right; this one must say why)
    else:
        assert workload.given == {name for name, value in spec.items() if value is not None}
