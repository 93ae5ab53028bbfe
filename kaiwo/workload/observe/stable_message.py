"""Words of a scheduler that only seem to change: it counts the nodes for each of its reasons."""

from __future__ import annotations

import re

from kaiwo.plugin.observation import Finding

_COUNTING = ("Unschedulable", "VolumeNotBound")
_SCHEDULER_SAYS = " cannot be scheduled: "
_COUNT = re.compile(r"\b\d+(/\d+)?\b")
_BETWEEN_REASONS = re.compile(r"[,.:] ")


def stable_message(finding: Finding, told: str) -> Finding:
    """What was told of the same pod, where a scheduler gives the same reasons with other counts.

    Args:
        finding: what is to be told now.
        told: the message that was told last.
    """
    if finding.reason not in _COUNTING or finding.message in told:
        return finding
    at = told.find(finding.message.partition(_SCHEDULER_SAYS)[0] + _SCHEDULER_SAYS)
    if at >= 0 and _reasons(told[at:]) == _reasons(finding.message):
        return Finding(finding.reason, told[at:])
    return finding


def _reasons(text: str) -> frozenset[str]:
    """A scheduler's reasons without their counts and order."""
    _, _, said = text.partition(_SCHEDULER_SAYS)
    return frozenset(_COUNT.sub("", part).strip(" .") for part in _BETWEEN_REASONS.split(said))
