"""Diagnosis rules: from facts to one sentence with the cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.observation import Finding, Observation


@dataclass(frozen=True, slots=True)
class DiagnosisRule:
    """A rule that is called after the host's own, in the order of loading; the first finding is used.

    Attributes:
        name: short name for ``kaiwo plugins``.
        diagnose: pure function from what was observed to a finding, or None when the rule has nothing to say.
    """

    name: str
    diagnose: Callable[[Observation], Finding | None]
