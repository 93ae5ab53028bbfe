"""What the API server refuses, as others read it."""

from __future__ import annotations

from itertools import permutations

import pytest

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
        Invalid(422, "Invalid", f"q is invalid: {order}", {"causes": list(order)}).steady
        for order in permutations(CAUSES)
    }
    assert texts == {'spec.cohortName: Invalid value: "_"; spec.stopPolicy: Unsupported value: "Bar"'}


def test_one_wrong_field_reads_the_same_beside_what_was_not_checked() -> None:
    """The API server puts the rules that it did not look at before or behind the field."""
    texts = {
        Invalid(422, "Invalid", f"q is invalid: {order}", {"causes": list(order)}).steady
        for order in permutations(CAUSES[:2])
    }
    assert texts == {'spec.stopPolicy: Unsupported value: "Bar"'}


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
def test_a_single_complaint_is_told_as_it_was_said(error: ApiError | ConnectionBroken) -> None:
    """A wrong field, a missing right, a webhook that is silent."""
    assert error.steady == str(error)
