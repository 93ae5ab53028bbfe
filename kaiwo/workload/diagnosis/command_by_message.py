"""The next command of codes whose cause is told only by the message.

``FailedCreate`` is the code for every pod that the API server refuses, ``Forbidden``, ``Rejected`` and
``WriteRefused`` are those for every other object; their messages quote it. The patterns are the words of
Kubernetes' admission plugins, of webhooks and of policies, as its sources have them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RESUBMIT: Final = "{submit}"
"""The workload has to change."""


class MessageCause(NamedTuple):
    """A cause by the words of a message.

    Attributes:
        words: what its message has.
        command: template of the next command.
    """

    words: re.Pattern[str]
    command: str


def _cause(words: str, command: str) -> MessageCause:
    return MessageCause(re.compile(words), command)


_LIMITS: Final = "kubectl describe limitranges -n {namespace}"

_REFUSALS: Final = (
    _cause(
        r"admission webhook \"[^\"]*\" denied|policy '[^']*' with binding '[^']*' denied"
        r"|ValidatingAdmissionPolicy",
        RESUBMIT,
    ),
    _cause(r"exceeded quota|failed quota", "kubectl describe resourcequotas -n {namespace}"),
    _cause(
        r"(minimum|maximum) [\w./-]+ usage per (Container|Pod|PersistentVolumeClaim)"
        r"|limit to request ratio per",
        _LIMITS,
    ),
    _cause(
        r"failed calling webhook",
        "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations",
    ),
    _cause(
        r"looking up service account|serviceaccount \"[^\"]*\" not found",
        "kubectl get serviceaccounts -n {namespace}",
    ),
    _cause(r"no PriorityClass with name", "kubectl get priorityclasses"),
    _cause(r"RuntimeClass \"[^\"]*\" not found", "kubectl get runtimeclasses"),
    _cause(r"violates PodSecurity|security context constraint|\bis invalid\b", RESUBMIT),
)
"""Refusals of the API server. A webhook's own words come after its name, so it is looked for first."""

BY_MESSAGE: Final[Mapping[str, Sequence[MessageCause]]] = {
    "FailedCreate": _REFUSALS,
    "ProgressDeadlineExceeded": _REFUSALS,
    "Forbidden": _REFUSALS,
    "Rejected": _REFUSALS,
    "WriteRefused": _REFUSALS,
    "Inadmissible": (_cause(r"LimitRange", _LIMITS), _cause(r"resources validation failed", RESUBMIT)),
    "ScaledToZero": (
        _cause(
            r"by a HorizontalPodAutoscaler|by an autoscaler or",
            "kubectl get horizontalpodautoscalers -n {namespace}",
        ),
        _cause(r"by KEDA", "kubectl get scaledobjects -n {namespace}"),
        _cause(r"was scaled to zero by", "kubectl scale deployment/{name} --replicas=1 -n {namespace}"),
    ),
}
"""Causes by code; the first whose words the message has counts."""


def template_for(code: str, message: str) -> str | None:
    """The template of the next command that a message decides; None where only the code does."""
    causes = BY_MESSAGE.get(code, ())
    return next((cause.command for cause in causes if cause.words.search(message)), None)
