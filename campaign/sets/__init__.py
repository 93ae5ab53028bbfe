"""The sets of faults, a module each; `SETS` has them by letter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from campaign.sets import api_faults, crashes, downloads, monitoring, plugins, timers, views

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from campaign.arena import Cluster
    from campaign.case import Case, StandaloneCase
    from campaign.scenarios import Scenario

SETS: Final = {
    "C": "the operator is killed between two writes",
    "D": "and once more while it recovers",
    "E": "its view of the cluster is wrong",
    "F": "the API server answers badly, or not at all",
    "K": "the metrics endpoint says nothing, or something absurd",
    "L": "servers, paths and volumes misbehave towards the download program",
    "M": "plugins raise, hang, return nonsense, are slow, clash, or have another version",
    "T": "a day, and years of certificates, pass under a clock of the test",
}


ON_CLUSTER: Final = frozenset("CDEF")
"""The sets with cases in a namespace of the campaign's control plane."""


def cluster_cases(cluster: Cluster, scenarios: Sequence[Scenario], seed: int) -> Iterator[Case]:
    """Every case that needs a namespace, for some scenarios whose references are known."""
    yield from crashes.crashes(cluster, scenarios)
    yield from crashes.double_crashes(cluster, scenarios, seed)
    yield from views.cases(scenarios)
    yield from api_faults.cases(cluster, scenarios)


def standalone_cases(seed: int) -> Iterator[StandaloneCase]:
    """Every case that needs nothing of the campaign's control plane."""
    yield from monitoring.cases()
    yield from downloads.cases()
    yield from plugins.cases()
    yield from timers.cases(seed)
