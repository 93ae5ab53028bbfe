"""Identity: ``spec.user`` of a workload is the user that the API server authenticated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kaiwo.admission.answer import FORBIDDEN, Answer
from kaiwo.api.errors import shorten
from kaiwo.api.workload import GROUP, SPECS
from kaiwo.api.workload_spec import MAX_USER

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kaiwo.admission.request import Request

_NEW_ONE = "the user of a workload stays; submit it anew under another name"


class IdentityReviewer:
    """Sets ``spec.user`` of new workloads, or checks it, and keeps it on updates.

    Who may impersonate a user submits as that user (``kubectl --as``): the API server then authenticates
    that one.
    """

    def __init__(self, mode: Literal["set", "check"], exempt: Collection[str] = ()) -> None:
        """Prepare.

        Args:
            mode: what becomes of another user: `set` replaces it, `check` refuses it.
            exempt: names of those who write it for others: the operator, which creates KaiwoJobs for
                the users of plain Jobs.
        """
        self._sets = mode == "set"
        self._exempt = frozenset(exempt)

    def __call__(self, request: Request) -> Answer:
        """Whether the user is right, or with a patch that makes it right."""
        workload = request.group == GROUP and request.kind in SPECS
        if not workload or request.object is None or request.user.username in self._exempt:
            return Answer(allowed=True)
        if request.subresource or request.operation not in ("CREATE", "UPDATE"):
            return Answer(allowed=True)
        if request.unreadable:
            return Answer(allowed=False, message=f"{request.unreadable}; make it smaller")
        found, old = _user(request.object), _user(request.old_object or {})
        before = old if isinstance(old, str) else ""
        if request.operation == "UPDATE" and ("" if found is None else found) == before:
            return Answer(allowed=True)
        expected = before or request.user.username
        if found == expected:
            return Answer(allowed=True)
        if not self._sets:
            return Answer(allowed=False, message=_refusal(found, before, expected), code=FORBIDDEN)
        if len(expected) > MAX_USER:
            text = f"spec.user: the name of the authenticated user has {len(expected)} characters"
            return Answer(allowed=False, message=f"{text}, at most {MAX_USER} are possible")
        warning = f"spec.user: {shorten(found)} was replaced by {shorten(expected)}"
        why = _NEW_ONE if before else "the authenticated user"
        return Answer(
            allowed=True,
            warnings=(f"{warning} ({why})",) if found else (),
            patch=(_patch(request.object, expected),),
        )


def _refusal(found: object, before: object, expected: str) -> str:
    if before:
        return f"spec.user: cannot change from {shorten(before)} to {shorten(found)}; {_NEW_ONE}"
    if not found:
        return f"spec.user: is required; write {shorten(expected)}, the authenticated user"
    return (
        f"spec.user: expected {shorten(expected)}, the authenticated user, got {shorten(found)}; "
        "correct it, or submit as that user (kubectl --as) if you may impersonate it"
    )


def _user(obj: Mapping[str, Any]) -> Any:
    spec = obj.get("spec")
    return spec.get("user") if isinstance(spec, dict) else None


def _patch(obj: Mapping[str, Any], user: str) -> dict[str, Any]:
    if isinstance(obj.get("spec"), dict):
        return {"op": "add", "path": "/spec/user", "value": user}
    return {"op": "add", "path": "/spec", "value": {"user": user}}
