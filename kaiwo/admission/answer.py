"""What a webhook answers to one request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

INVALID, FORBIDDEN = 422, 403
"""Codes of refused requests: the object is wrong; the requester may not write it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a request is allowed, and what is changed in its object.

    Attributes:
        allowed: whether the object may be written.
        message: why not; empty when it may.
        code: HTTP code of a refusal, `INVALID` or `FORBIDDEN`.
        warnings: one line each, shown to the requester.
        patch: changes to the object, RFC 6902 operations; only of a mutating webhook, and only when allowed.
    """

    allowed: bool
    message: str = ""
    code: int = INVALID
    warnings: tuple[str, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()
