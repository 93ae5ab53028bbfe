"""How containers ended, as diagnosis rules read it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kaiwo.plugin.kit.pod_status import Termination, failure, terminations
from kaiwo.testing import job, node, plugins, render
from kaiwo_batch_job import plugin as batch_job

LOG = (
    'Traceback (most recent call last):\n  File "train.py"\nRuntimeError: NCCL error: remote process exited\n'
)


def pod(**container: Any) -> dict[str, Any]:
    """A failed pod."""
    statuses = [{"name": "main", **container}]
    return {"metadata": {"name": "a"}, "status": {"phase": "Failed", "containerStatuses": statuses}}


def test_a_rule_gets_the_log_of_a_container_that_failed() -> None:
    """Whole, with its lines; before a restart as after the end."""
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": LOG}}
    expected = Termination("a", "main", 1, "Error", LOG)
    assert list(terminations([pod(state=ended)])) == [expected]
    assert list(terminations([pod(state={"running": {}}, lastState=ended)])) == [expected]
    assert list(terminations([pod(state={"running": {}})])) == []


def test_generated_containers_give_their_log_by_default() -> None:
    """Few programs write a termination log of their own."""
    text = render(job(image="a/b:1", entrypoint="true"), plugins(batch_job), nodes=[node("cpu")])
    assert "terminationMessagePolicy: FallbackToLogsOnError" in text


def test_an_embedded_container_is_kept_as_it_is_written() -> None:
    """Whether its log may stand in the pod's status is the user's choice."""
    spec = {"template": {"spec": {"containers": [{"name": "own", "image": "a/b:1"}]}}}
    text = render(job(job={"spec": spec}), plugins(batch_job), nodes=[node("cpu")])
    assert "terminationMessagePolicy" not in text


def test_the_status_has_the_last_line_of_the_log() -> None:
    """The line that says why; of a long one the beginning."""
    found = failure([pod(state={"terminated": {"exitCode": 1, "message": LOG}})])
    assert found is not None
    assert found.message.endswith("exited with code 1: RuntimeError: NCCL error: remote process exited")
    long = failure([pod(state={"terminated": {"exitCode": 1, "message": "x" * 2000}})])
    assert long is not None
    assert len(long.message) < 400


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["state", "terminated", "message", "exitCode"]), inner)
        ),
    )
)
def test_anything_can_stand_in_a_status(value: Any) -> None:
    """Pods come as others wrote them."""
    list(terminations([pod(state=value, lastState=value), {"status": value}]))
