"""AdmissionReviews: bytes in, bytes out, for any bytes."""

from __future__ import annotations

import base64
import logging
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaiwo.admission.answer import FORBIDDEN, INVALID, Answer
from kaiwo.admission.request import API_VERSION, KIND, UnreadableReview, read_request
from kaiwo.engine.logging import about
from kaiwo.workload.json_access import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.admission.request import Request

_log = logging.getLogger(__name__)

MAX_MESSAGE: Final = 4096
"""Characters of a refusal: enough for every message of an ordinary mistake."""

MAX_WARNINGS: Final = 20
MAX_WARNING: Final = 256
"""Characters of a warning; the API server may cut what is longer."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_REASONS = {
    INVALID: "Invalid",
    FORBIDDEN: "Forbidden",
    400: "BadRequest",
    404: "NotFound",
    413: "RequestEntityTooLarge",
    500: "InternalError",
}


def review(body: bytes, reviewers: Mapping[str, Callable[[Request], Answer]], path: str) -> bytes:
    """Answer an AdmissionReview; never raises.

    Args:
        body: what the API server sent, any bytes.
        reviewers: for each HTTP path who decides there.
        path: the HTTP path of this request.
    """
    try:
        request = read_request(body)
    except UnreadableReview as error:
        return _encode(error.uid, Answer(allowed=False, message=str(error), code=error.code))
    reviewer = reviewers.get(path)
    if reviewer is None:
        known = ", ".join(sorted(reviewers))
        return _encode(request.uid, _refusal(404, f'no webhook at "{path}" (known: {known})'))
    try:
        return _encode(request.uid, reviewer(request))
    except Exception as error:  # noqa: BLE001  total, whatever a reviewer does
        # What cannot be decided is refused: it may be what somebody wants who sends it.
        _log.exception(
            "review of %s %s/%s failed", request.kind, request.namespace, request.name,
            extra=about(request.kind, request.namespace, request.name),
        )  # fmt: skip
        what = f"internal error: {type(error).__name__}; the operator's log has the traceback"
        return _encode(request.uid, _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, what))


def _refusal(code: int, message: str) -> Answer:
    return Answer(allowed=False, message=message, code=code)


def _encode(uid: str, answer: Answer) -> bytes:
    """The AdmissionReview that carries an answer."""
    response: dict[str, Any] = {"uid": uid, "allowed": answer.allowed}
    if answer.warnings:
        response["warnings"] = _shown(answer.warnings)
    if not answer.allowed:
        response["status"] = {
            "status": "Failure",
            "message": cut(answer.message, MAX_MESSAGE),
            "reason": _REASONS.get(answer.code, "Forbidden"),
            "code": answer.code,
        }
    elif answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(answer.patch)).decode()
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _shown(warnings: tuple[str, ...]) -> list[str]:
    """Warnings as HTTP headers can carry them."""
    kept = [cut(_CONTROL.sub(" ", text), MAX_WARNING) for text in warnings[:MAX_WARNINGS]]
    more = len(warnings) - len(kept)
    return [*kept, f"{more} more warnings; kaiwo plan shows all"] if more else kept
