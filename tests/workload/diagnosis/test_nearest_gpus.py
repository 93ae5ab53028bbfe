"""The next command offers the number of GPUs that the message offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.workload.diagnosis.nearest_gpus import nearest_gpus
from kaiwo.workload.diagnosis.next_commands import next_command
from tests.workload.gpus.test_allocation import asked, even, one_pod, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

TEMPLATE = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"amd.com/gpu": 16}}}]}}


def test_the_nearest_number_that_fits_is_in_the_next_command() -> None:
    """The command can be pasted; nothing has to be counted."""
    message = refused(one_pod(asked(gpus=16)), "GPUsExceedNode")
    command = next_command(
        "GPUsExceedNode",
        kind="KaiwoJob",
        name="train",
        namespace="team",
        queue="",
        created=False,
        message=message,
        change=nearest_gpus({"gpus": 16}, message),
    )
    assert command == "kaiwo submit -f FILE --set gpus=8 -n team"


def test_the_nearest_number_that_can_be_split_is_offered() -> None:
    """Seven GPUs for two replicas are six."""
    message = refused(even(asked(kind="KaiwoService", gpus=7, replicas=2)), "IndivisibleGPUs")
    assert nearest_gpus({"gpus": 7, "replicas": 2}, message) == "gpus=6"


def test_the_gpus_of_a_replica_are_changed_where_they_were_written() -> None:
    """A value of the other field would be rejected."""
    message = refused(even(asked(kind="KaiwoService", gpusPerReplica=16, replicas=1)), "GPUsExceedNode")
    assert nearest_gpus({"gpusPerReplica": 16, "replicas": 1}, message) == "gpusPerReplica=8"


@pytest.mark.parametrize(
    ("spec", "allocation"),
    [
        (
            {"gpusPerReplica": 16, "replicas": 3},
            even(asked(kind="KaiwoService", gpusPerReplica=16, replicas=3)),
        ),
        ({}, one_pod(asked(), TEMPLATE)),
    ],
)
def test_no_number_is_offered_where_no_single_field_decides(spec: Mapping[str, Any], allocation: Any) -> None:
    """Two fields, or the embedded template, would have to change."""
    assert nearest_gpus(dict(spec), refused(allocation, "GPUsExceedNode")) == ""
