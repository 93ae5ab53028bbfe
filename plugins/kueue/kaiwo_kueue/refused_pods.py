"""Workloads that Kueue refuses for their pods, whatever quota is free."""

from __future__ import annotations

_REFUSALS = ("resources didn't satisfy LimitRange constraints", "resources validation failed")
"""How the messages of these begin (Kueue's pkg/scheduler). Their condition has the reason Pending, as that of
Workloads for which only quota is lacking."""


def refused_for_its_pods(message: str) -> bool:
    """Whether Kueue would refuse the Workload also with all quota free, as its message says."""
    return message.startswith(_REFUSALS)
