from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Allocation
from kaiwo.plugin.queues import QueueAssignment
from kaiwo.plugin.rendering import Resolved
from kaiwo.testing import job
from kaiwo.workload.applied_record import AppliedRecord, decode, encode, fingerprint
from kaiwo.workload.labels import RESOLVED

texts = st.text(max_size=10)
maps = st.dictionaries(texts, texts, max_size=3)
lists = st.lists(texts, max_size=3).map(tuple)
allocations = st.builds(
    Allocation, texts, texts, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), lists
)
records = st.builds(
    AppliedRecord,
    st.builds(
        Resolved,
        allocations,
        default_image=texts,
        mount_paths=maps,
        taken=st.dictionaries(st.sampled_from(["head_pod_memory", "head_memory"]), texts),
        vendor_keys=lists,
        template_version=st.integers(1, 9),
        labels=maps,
        annotations=maps,
    ),
    st.none() | st.builds(QueueAssignment, texts, maps, maps, st.booleans(), st.booleans()),
    maps,
    lists,
    lists,
    lists,
    texts,
    meanings=maps,
)


@given(records)
def test_a_record_survives_its_annotation(record: AppliedRecord) -> None:
    """What a child was made with is read back exactly, by any later version of the operator too."""
    assert decode({"metadata": {"annotations": {RESOLVED: encode(record)}}}) == record


@given(st.text() | st.none() | st.integers())
def test_a_broken_record_counts_as_none(value: object) -> None:
    """Whatever somebody writes into the annotation breaks nothing."""
    decode({"metadata": {"annotations": {RESOLVED: value}}})
    assert decode({"metadata": {"annotations": {RESOLVED: "{}"}}}) is None


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 40_000])
def test_a_record_that_is_nested_deeply_counts_as_none(deep: str) -> None:
    """Whoever may annotate a child may write 256 KB."""
    assert decode({"metadata": {"annotations": {RESOLVED: '{"resolved":{"x":' + deep}}}) is None


def test_field_origins_are_distinguished_but_not_stored() -> None:
    """The record holds hashes by field, and none of the user's values."""
    secret = Workload.from_object(
        job(env=[{"name": "TOKEN", "value": "hunter2"}], gpus=0, job={"spec": {"a": 1}})
    )
    hashes = fingerprint(secret)
    assert hashes.keys() == {"env", "job.spec.a"}
    assert "hunter2" not in encode(AppliedRecord(Resolved(Allocation()), fields=hashes))


def test_a_record_of_an_earlier_version_has_what_are_maps_now() -> None:
    """Volumes stay where they are, a Ray head keeps its memory, and the record is not written anew."""
    text = (
        '{"fields":{},"resolved":{"allocation":{},"data_mount_path":"/workload",'
        '"head_memory":"8Gi","hf_mount_path":"/cache"}}'
    )
    record = decode({"metadata": {"annotations": {RESOLVED: text}}})
    assert record is not None
    assert record.resolved.mount_paths == {"data": "/workload", "hf": "/cache"}
    assert record.resolved.taken == {"head_memory": "8Gi"}
    assert encode(record) == text
