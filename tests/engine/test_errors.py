"""Rejections of the API server as exceptions: their class, message and field paths."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine import errors
from kaiwo.engine.errors import ApiError, ConnectionBroken, Invalid

UNCHECKED = "Invalid value: null: some validation rules were not checked because the object was invalid"
CAUSES = (
    {"field": "spec.stopPolicy", "message": 'Unsupported value: "Bar"'},
    {"field": "<nil>", "message": UNCHECKED},
    {"field": "spec.cohortName", "message": 'Invalid value: "_"'},
    {"field": "spec.cohortName", "message": 'Invalid value: "_"'},
)
SILENT = "the webhook does not answer"


def test_a_refusal_reads_the_same_each_time() -> None:
    """The API server names the wrong fields of a ClusterQueue in any order; the status must not change."""
    texts = {
        Invalid(422, "Invalid", f"q is invalid: {order}", {"causes": list(order)}).stable_message
        for order in permutations(CAUSES)
    }
    assert texts == {'spec.cohortName: Invalid value: "_"; spec.stopPolicy: Unsupported value: "Bar"'}


def test_one_wrong_field_reads_the_same_beside_what_was_not_checked() -> None:
    """The API server puts the rules that it did not check before or behind the field."""
    texts = {
        Invalid(422, "Invalid", f"q is invalid: {order}", {"causes": list(order)}).stable_message
        for order in permutations(CAUSES[:2])
    }
    assert texts == {'spec.stopPolicy: Unsupported value: "Bar"'}


def test_a_refusal_with_addresses_of_pointers_reads_the_same_each_time() -> None:
    """Kueue 0.12 prints a whole spec; a status with the addresses would be written without end."""
    said = "spec: Invalid value: v1beta1.ClusterQueueSpec{Selector:(*v1.LabelSelector)(0x36ec%s)}"
    texts = {ApiError(403, "Forbidden", said % at).stable_message for at in ("185e8700", "185e86e0")}
    assert texts == {(said % "").replace("(0x36ec)", "(...)")}


@pytest.mark.parametrize(
    "error",
    [
        ApiError(403, "Forbidden", "no right to patch clusterqueues"),
        Invalid(
            422,
            "Invalid",
            "q is invalid: spec.a: Required",
            {"causes": [{"field": "spec.a", "message": "Required"}]},
        ),
        ApiError(500, "", SILENT, {"causes": [{"message": SILENT}]}),
        ConnectionBroken("no answer within 15 s"),
    ],
)
def test_a_single_cause_is_the_servers_own_text(error: ApiError | ConnectionBroken) -> None:
    """A wrong field, a missing right, a webhook that is silent."""
    assert error.stable_message == str(error)


@pytest.mark.parametrize(
    ("status", "reason", "type_"),
    [
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (422, "Invalid", errors.Invalid),
        (400, "BadRequest", errors.Invalid),
        (401, "Unauthorized", errors.Forbidden),
        (403, "Forbidden", errors.Forbidden),
        (410, "Expired", errors.Gone),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerUnavailable),
        (504, "Timeout", errors.ServerUnavailable),
    ],
)
def test_each_refusal_has_its_type_and_the_servers_words(
    status: int, reason: str, type_: type[errors.ApiError]
) -> None:
    """Callers decide by type, users read the API server's sentence."""
    body = json.dumps({"kind": "Status", "reason": reason, "message": "the words", "code": status}).encode()
    error = errors.from_response(status, body, {"Retry-After": "2"})
    assert type(error) is type_
    assert str(error) == "the words"
    assert error.retry_after == 2
    assert type(errors.from_status(json.loads(body))) is type_


@given(st.integers(300, 599), st.binary(max_size=50), st.text(max_size=5))
def test_any_answer_becomes_an_error_with_a_text(status: int, body: bytes, retry: str) -> None:
    """A proxy's HTML page, garbage, nothing at all: still an error that can be read."""
    error = errors.from_response(status, body, {"Retry-After": retry})
    assert str(error)
    assert error.status == status


def test_odd_status_objects_are_survived() -> None:
    """Fields of wrong types are taken as absent."""
    error = errors.from_status({"kind": "Status", "code": "x", "details": {"causes": [None, {"field": 3}]}})
    assert error.status == 500
    assert error.causes == (errors.Cause("", "", "3"),)
