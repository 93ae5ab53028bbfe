"""Errors of the engine, one type for each thing a caller can react to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


_NO_FIELD = "<nil>"
"""The field of a cause which only reports that other rules were not checked."""


class WriteCause(NamedTuple):
    """Why writes fail, as a key: writes with equal causes fail and succeed together.

    Attributes:
        kind: what fails: the rights, a webhook, the API server, or the connection to it.
        verb: of the requests, as in RBAC; empty where any request fails.
        resource: of the requests, with the subresource; empty where any request fails.
        scope: the namespace, or the webhook's name.
    """

    kind: Literal["Forbidden", "Webhook", "ServerError", "Unreachable"]
    verb: str = ""
    resource: str = ""
    scope: str = ""


class EngineError(Exception):
    """The base class of all errors that the engine raises on purpose.

    Attributes:
        write_cause: why a write failed, where all writes like it fail; None for any other error.
    """

    write_cause: WriteCause | None = None

    @property
    def stable_message(self) -> str:
        """What went wrong, in the same words whenever the same goes wrong."""
        return str(self)


class ConnectionBroken(EngineError):
    """No answer came: refused, reset, cut off or timed out. The request may have been carried out."""


class StreamFailed(EngineError):
    """The other end of a stream says that it failed: no such program, or nothing listens on the port."""


class NotLeading(EngineError):
    """A mutating request was held back because this process has no valid lease."""


class ChangedBack(EngineError):
    """An object is not written for now, because somebody else undid each of the last writes.

    Attributes:
        retry_after: seconds until it may be written again.
    """

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UndecodableObject(EngineError):
    """An object is nested more deeply, or larger, than is decoded; the message names it and the field.

    Attributes:
        raw: the object as it came.
        readable: what can be read of it: metadata and the members within the limits.
    """

    def __init__(self, message: str, raw: bytes = b"", readable: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.raw = raw
        self.readable = readable or {}


class CredentialsError(EngineError):
    """No usable way to reach or authenticate to an API server; the message names file and field."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason of a rejection, as the API server gives it.

    Attributes:
        reason: machine word, for example ``FieldValueInvalid``.
        message: the API server's sentence.
        field: path of the field, for example ``spec.replicas``; empty when it names none.
    """

    reason: str
    message: str
    field: str


_ADDRESS = re.compile(r"\(0x[0-9a-f]+\)")


class ApiError(EngineError):
    """The API server rejected a request.

    ``str(error)`` is the API server's own text, which names object and field.

    Attributes:
        status: HTTP status code.
        reason: the ``reason`` of the Status object, for example ``NotFound``; may be empty.
        message: the API server's sentence, or the start of the body when it was no Status object.
        details: ``details`` of the Status object: kind, name, causes.
        retry_after: seconds to wait by the server's Retry-After, or None.
    """

    codes: ClassVar[dict[int, type[ApiError]]] = {}

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or reason or f"HTTP {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details: dict[str, Any] = details or {}
        self.retry_after = retry_after

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The single reasons, with their field paths, each once and in the order of the paths.

        The API server checks the fields of a custom resource in another order each time.
        """
        found = self.details.get("causes")
        causes = {
            Cause(str(c.get("reason") or ""), str(c.get("message") or ""), str(c.get("field") or ""))
            for c in (found if isinstance(found, list) else ())
            if isinstance(c, dict)
        }
        named = {cause for cause in causes if cause.field != _NO_FIELD} or causes
        return tuple(sorted(named, key=lambda cause: (cause.field, cause.message, cause.reason)))

    @property
    def stable_message(self) -> str:
        """The API server's own text; of several causes, these in their order."""
        found = self.details.get("causes")
        fields: list[str] = []
        if isinstance(found, list) and len(found) > 1:
            fields = [f"{cause.field}: {cause.message}" for cause in self.causes if cause.field]
        # Webhooks written in Go print addresses of pointers, which differ each time.
        return _ADDRESS.sub("(...)", "; ".join(fields) or str(self))


class NotFound(ApiError):
    """404: no such object, or the kind is not served (then ``details`` names no object)."""


class AlreadyExists(ApiError):
    """409 ``AlreadyExists``: a create met an object of that name."""


class Conflict(ApiError):
    """409: a precondition (uid, resourceVersion) failed, or server-side apply met another field manager."""


class Invalid(ApiError):
    """422 or 400: the content of the object or the request is invalid; the same bytes fail again."""


class Forbidden(ApiError):
    """401 or 403: not authenticated, or not allowed."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old; list again."""


class TooManyRequests(ApiError):
    """429: slow down (see ``retry_after``), or a disruption budget prevents an eviction."""


class ServerUnavailable(ApiError):
    """Any 5xx: the API server, or a webhook behind it, could not answer properly."""


ApiError.codes = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}

_BODY_EXCERPT = 500  # characters of a body that is no Status object: enough for a proxy's error title


def from_response(status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """The typed error for an answer of the API server (or of a proxy in front of it)."""
    try:
        decoded = msgspec.json.decode(body) if body else {}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        decoded = None
    retry_after = _seconds(headers.get("Retry-After"))
    if isinstance(decoded, dict) and decoded.get("kind") == "Status":
        return from_status(decoded, status=status, retry_after=retry_after)
    text = body[: 4 * _BODY_EXCERPT].decode("utf-8", "replace").strip()[:_BODY_EXCERPT]
    return _class_of(status, "")(status, "", text or f"HTTP {status}", None, retry_after)


def from_status(
    status_object: Mapping[str, Any], *, status: int = 0, retry_after: float | None = None
) -> ApiError:
    """The typed error for a Status object, also one that came inside a watch stream.

    Args:
        status_object: ``kind: Status`` as decoded JSON.
        status: HTTP status code, if known; otherwise the object's ``code``.
        retry_after: seconds from the Retry-After header, if any.
    """
    code = status or _code(status_object.get("code"))
    reason = str(status_object.get("reason") or "")
    details = status_object.get("details")
    details = details if isinstance(details, dict) else {}
    if retry_after is None:
        retry_after = _seconds(details.get("retryAfterSeconds"))
    message = str(status_object.get("message") or "")
    return _class_of(code, reason)(code, reason, message, details, retry_after)


def _class_of(status: int, reason: str) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    if reason == "Expired":
        return Gone
    if status >= 500:  # noqa: PLR2004  the class of server errors in HTTP
        return ServerUnavailable
    return ApiError.codes.get(status, ApiError)


def _code(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 500


def _seconds(value: object) -> float | None:
    """Seconds from a header or a field; an HTTP date, or anything else, counts as none."""
    try:
        seconds = float(str(value)) if value else None
    except ValueError:
        return None
    return seconds if seconds is not None and 0 < seconds < float("inf") else None
