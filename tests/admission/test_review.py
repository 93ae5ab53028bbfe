"""AdmissionReviews: what is read of them, and that every body gets an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kaiwo.admission.answer import FORBIDDEN, Answer
from kaiwo.admission.request import MAX_BODY, Requester
from kaiwo.admission.review import MAX_MESSAGE, MAX_WARNINGS, review
from kaiwo.testing.admission import admission_review, answered

if TYPE_CHECKING:
    from kaiwo.admission.request import Request

UID = "7d0b1b7e-0000-4000-8000-000000000001"
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "team"},
    "spec": {"parallelism": 2},
}


def ask(body: bytes, answer: Answer | None = None) -> tuple[dict[str, Any], list[Request]]:
    """What is answered to a body, and the requests that the reviewer got."""
    seen: list[Request] = []

    def reviewer(request: Request) -> Answer:
        seen.append(request)
        return answer or Answer(allowed=True)

    return answered(review(body, {"/validate/jobs": reviewer}, "/validate/jobs")), seen


def nested(levels: int) -> msgspec.Raw:
    """Maps in maps."""
    return msgspec.Raw(b'{"a":' * levels + b"{}" + b"}" * levels)


def test_a_request_is_read_whole() -> None:
    """The reviewer sees who writes what, where, and whether it is a rehearsal."""
    old = JOB | {"spec": {"parallelism": 1}}
    body = admission_review(JOB, old=old, user="joe", groups=("a", "b"), dry_run=True)
    response, (request,) = ask(body)
    assert response == {"uid": UID, "allowed": True}
    assert (request.group, request.version, request.kind) == ("batch", "v1", "Job")
    assert (request.operation, request.namespace, request.name) == ("UPDATE", "team", "train")
    assert request.user == Requester("joe", ("a", "b"))
    assert (request.object, request.old_object, request.dry_run) == (JOB, old, True)
    assert (request.subresource, request.unreadable) == ("", "")


def test_create_has_no_old_object_and_delete_no_object() -> None:
    """What the API server leaves out or sends as null is None."""
    _, (created,) = ask(admission_review(JOB))
    _, (deleted,) = ask(admission_review(None, old=JOB))
    assert (created.operation, created.object, created.old_object) == ("CREATE", JOB, None)
    assert (deleted.operation, deleted.object, deleted.old_object) == ("DELETE", None, JOB)


def test_a_refusal_carries_its_message_code_and_reason() -> None:
    """Kubectl shows the reason in brackets and the message."""
    response, _ = ask(
        admission_review(JOB), Answer(allowed=False, message="spec: no", code=FORBIDDEN, warnings=("w",))
    )
    assert response == {
        "uid": UID,
        "allowed": False,
        "warnings": ["w"],
        "status": {"status": "Failure", "message": "spec: no", "reason": "Forbidden", "code": 403},
    }


def test_a_patch_is_sent_as_the_api_server_wants_it() -> None:
    """The type is named, and a refusal carries no patch."""
    patch = ({"op": "add", "path": "/spec/suspend", "value": True},)
    response, _ = ask(admission_review(JOB), Answer(allowed=True, patch=patch))
    assert (response["patchType"], response["patch"]) == ("JSONPatch", list(patch))
    refused, _ = ask(admission_review(JOB), Answer(allowed=False, message="no", patch=patch))
    assert "patch" not in refused


def test_answers_are_bounded_and_fit_into_headers() -> None:
    """A thousand warnings with line breaks become a few lines; a long refusal is cut."""
    warnings = tuple(f"spec.env[{number}]:\nunused\x07 {'x' * 300}" for number in range(1000))
    response, _ = ask(admission_review(JOB), Answer(allowed=True, warnings=warnings))
    assert len(response["warnings"]) == MAX_WARNINGS + 1
    assert response["warnings"][-1] == "980 more warnings; kaiwo plan shows all"
    assert all(text.isprintable() and len(text) <= 256 for text in response["warnings"])
    refused, _ = ask(admission_review(JOB), Answer(allowed=False, message="é" * 10_000))
    assert len(refused["status"]["message"]) == MAX_MESSAGE


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not a JSON object"),
        (b"\x00\xff\xfe", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b'{"a":', "not JSON"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "not a JSON object"),
        (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}',
            "not a JSON object",
        ),
        (b'{"apiVersion":7,"kind":"AdmissionReview","request":{}}', "Expected `str`, got `int`"),
        ("{}".encode("utf-16"), "not a JSON object"),
        (b"{" * 100_000, "not JSON"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "not a JSON object"),
    ],
)
def test_a_body_that_is_no_review_is_refused_in_words(body: bytes, message: str) -> None:
    """Whatever is sent, the answer is an AdmissionReview that says what is wrong; nobody is called."""
    response, seen = ask(body)
    assert (response["allowed"], response["status"]["code"], seen) == (False, 400, [])
    assert response["status"]["message"].startswith("body is not an AdmissionReview: ")
    assert message in response["status"]["message"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"apiVersion": "admission.k8s.io/v1beta1"}, "expected admission.k8s.io/v1 AdmissionReview, got"),
        ({"kind": "ConversionReview"}, "got admission.k8s.io/v1 ConversionReview"),
        ({"request": {"uid": UID, "object": []}}, "Expected `object`, got `array`"),
        ({"request": {"uid": UID, "dryRun": "yes"}}, "dryRun"),
        ({"request": {"uid": UID, "userInfo": {"groups": [1]}}}, "groups"),
        ({"request": {"uid": UID, "object": {"metadata": nested(200)}}}, "metadata is nested more than"),
    ],
)  # fmt: skip
def test_a_review_that_cannot_be_read_is_refused_under_its_uid(change: dict[str, Any], message: str) -> None:
    """The API server matches answers by uid, so the message reaches the requester."""
    response, seen = ask(msgspec.json.encode(msgspec.json.decode(admission_review(JOB)) | change))
    assert (response["uid"], response["status"]["code"], seen) == (UID, 400, [])
    assert message in response["status"]["message"]


def test_a_body_over_the_limit_is_refused_with_the_limit() -> None:
    """3 MiB are read, one byte more is refused before anything of it is decoded."""
    room = MAX_BODY - len(admission_review(JOB | {"data": ""}))
    fits = admission_review(JOB | {"data": "x" * room})
    response, (request,) = ask(fits)
    assert len(fits) == MAX_BODY
    assert response["allowed"]
    assert request.object is not None
    refused, seen = ask(admission_review(JOB | {"data": "x" * (room + 1)}))
    assert (refused["status"]["code"], refused["status"]["reason"], seen) == (
        413,
        "RequestEntityTooLarge",
        [],
    )
    assert refused["status"]["message"] == (
        "AdmissionReview has 3145729 bytes, at most 3145728 are read; make the object smaller"
    )


def test_what_is_nested_too_deeply_is_named_and_left_out() -> None:
    """A reviewer gets the rest of the object, and the path of what it does not get."""
    deep = JOB | {"spec": {"job": nested(1000)}}
    _, (request,) = ask(admission_review(deep))
    assert request.unreadable == "spec.job is nested more than 100 levels deep"
    assert request.object == {key: value for key, value in JOB.items() if key != "spec"}


def test_what_was_unreadable_before_an_update_is_not_held_against_it() -> None:
    """Labels of an object that was accepted long ago can still be changed."""
    deep = JOB | {"spec": nested(1000)}
    relabelled = deep | {"metadata": {"name": "train", "labels": {"a": "b"}}}
    _, (same,) = ask(admission_review(relabelled, old=deep))
    assert same.unreadable == ""
    _, (changed,) = ask(admission_review(JOB | {"spec": nested(1001)}, old=deep))
    assert changed.unreadable == "spec.a is nested more than 100 levels deep"


def test_an_object_of_too_many_values_is_named_and_left_out() -> None:
    """2 MB of small values would be 100 MB of dictionaries."""
    _, (request,) = ask(admission_review(JOB | {"spec": {"values": [0] * 200_000}}))
    assert request.unreadable == "spec.values holds more than 100000 values"


def test_an_unknown_path_is_refused_with_the_known_ones() -> None:
    """A configuration edited by hand is explained to whom it hits."""
    response = answered(
        review(admission_review(JOB), {"/validate/jobs": lambda _: Answer(allowed=True)}, "/x")
    )
    assert (response["uid"], response["status"]["code"]) == (UID, 404)
    assert response["status"]["message"] == 'no webhook at "/x" (known: /validate/jobs)'


def test_a_reviewer_that_raises_is_a_refusal_and_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be decided is not let through, and nothing of the traceback reaches the requester."""

    def broken(_: Request) -> Answer:
        raise KeyError("secret")

    response = answered(review(admission_review(JOB), {"/": broken}, "/"))
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert response["status"]["message"] == "internal error: KeyError; the operator's log has the traceback"
    assert "review of Job team/train failed" in caplog.text
