"""Queries to a Prometheus server, and its answers."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.plugin.vendors import Utilization
from kaiwo.workload.monitoring.prometheus_query import QueryError, query_of, read_answer
from kaiwo.workload.monitoring.samples import Meaning, Samples

MEANING = Meaning(Utilization("gpu_gfx_activity", gpu_labels=("gpu_id",)), "use")


def answer(*series: Any, kind: str = "vector", status: str = "success") -> bytes:
    """An answer of Prometheus."""
    return json.dumps({"status": status, "data": {"resultType": kind, "result": series}}).encode()


def one(value: str = "7", **labels: str) -> dict[str, Any]:
    """One series."""
    metric = {"namespace": "team", "pod": "train", "gpu_id": "0"} | labels
    return {"metric": metric, "value": [1800000000.5, value]}


def test_the_query_takes_fresh_samples_of_pods_only() -> None:
    """Prometheus would answer with samples of up to five minutes ago as if they were of now."""
    assert query_of("gpu_gfx_activity", MEANING, 90) == (
        "max by (namespace, pod, exported_namespace, exported_pod, gpu_id) "
        '((gpu_gfx_activity{pod!=""} or gpu_gfx_activity{exported_pod!=""}) '
        "and (timestamp(gpu_gfx_activity) > time() - 90))"
    )


def test_samples_are_read() -> None:
    """Each with its pod; the time of the evaluation tells a repeated answer from a new one."""
    samples = Samples()
    at = read_answer(answer(one(), one("93", gpu_id="1"), one("NaN", pod="other")), MEANING, samples)
    assert at == 1800000000.5
    assert sorted(gpu.use or 0 for gpu in samples.of_pod("team", "train")) == [7.0, 93.0]
    assert [gpu.absurd for gpu in samples.of_pod("team", "other")] == [True]
    assert read_answer(answer(), MEANING, Samples()) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no answer of Prometheus"),
        (b"<html>", "no answer of Prometheus"),
        (b"[]", "no answer of Prometheus"),
        (b"[" * 100_000, "no answer of Prometheus"),
        (answer(kind="matrix"), "expected a vector, got 'matrix'"),
        (answer({"metric": [], "value": 1}), "no answer of Prometheus"),
        (b'{"status":"error","error":"query timed out"}', "query timed out"),
        (b'{"status":"success"}', "no result"),
    ],
)
def test_anything_else_is_an_error(body: bytes, words: str) -> None:
    """With what it was."""
    with pytest.raises(QueryError, match=words):
        read_answer(body, MEANING, Samples())


@given(st.binary(max_size=100) | st.text(max_size=100).map(lambda text: answer(one(text))))
def test_no_answer_breaks_the_reader(body: bytes) -> None:
    """It is read, or it is an error of the query."""
    with suppress(QueryError):
        read_answer(body, MEANING, Samples())
