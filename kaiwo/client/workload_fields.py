"""The fields of a live workload as text; absent values are empty."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kaiwo.workload.gpu_hours import gpus_of
from kaiwo.workload.json_access import lenient_text

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
"""Reasons of conditions, as Kubernetes validates them."""


def status(obj: Object) -> Object:
    """``status``, empty before an operator has observed the workload."""
    found = obj.get("status")
    return found if isinstance(found, dict) else {}


def spec(obj: Object) -> Object:
    """``spec``, empty if there is none."""
    found = obj.get("spec")
    return found if isinstance(found, dict) else {}


def word(obj: Object) -> str:
    """The status word; TERMINATING for what is being deleted, whatever the operator wrote last."""
    if obj["metadata"].get("deletionTimestamp"):
        return "TERMINATING"
    return lenient_text(status(obj).get("status"))


def reason(obj: Object) -> str:
    """The reason in one word."""
    return reason_word(status(obj).get("reason"))


def reason_word(value: object) -> str:
    """A reason as the API conventions define it; empty for any other text, for example escape sequences."""
    return value if isinstance(value, str) and _REASON.fullmatch(value) else ""


def message(obj: Object) -> str:
    """The reason in one sentence."""
    return lenient_text(status(obj).get("message"))


def gpus(obj: Object) -> str:
    """GPUs in all: as allocated, else as requested."""
    return str(gpus_of(obj))


def queue(obj: Object) -> str:
    """The requested queue, else the assigned one."""
    allocation = status(obj).get("allocation")
    given = lenient_text(allocation.get("queue")) if isinstance(allocation, dict) else ""
    return lenient_text(spec(obj).get("clusterQueue")) or given


def user(obj: Object) -> str:
    """Whose it is, as written."""
    return lenient_text(spec(obj).get("user"))


def same_user(one: str, other: str) -> bool:
    """Whether two spellings mean one user: as written, or as the label on created objects."""
    if one == other:
        return True
    from kaiwo.workload.metadata import user_label

    return bool(one and other) and user_label(one) == user_label(other)
