"""The sets of faults, a module each; `SETS` has them by letter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from campaign.sets import (
    api_faults,
    control_plane,
    crashes,
    dependencies,
    downloads,
    fields,
    idle_gpus,
    leadership,
    leases,
    monitoring,
    plugins,
    rights,
    slips,
    soak,
    timers,
    updates,
    upgrades,
    views,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from campaign.arena import Cluster
    from campaign.case import Case, StandaloneCase
    from campaign.scenarios import Scenario
    from campaign.sets.soak import SoakSize

SETS: Final = {
    "A": "a field of a new workload has a wrong, extreme or hostile value",
    "B": "the specification of a live workload changes",
    "C": "the operator is killed between two writes",
    "D": "and once more while it recovers",
    "E": "its view of the cluster is wrong",
    "F": "the API server answers badly, or not at all",
    "G": "the operator lacks a right, or its token is not accepted",
    "H": "the control plane itself fails, or the clock",
    "I": "a kind is not served, or a controller stands still",
    "J": "the leader is killed, stands still, or cannot be reached",
    "K": "the metrics endpoint says nothing, or something absurd",
    "L": "servers, paths and volumes misbehave towards the download program",
    "M": "plugins raise, hang, return nonsense, are slow, clash, or have another version",
    "N": "a user writes what users often write wrong",
    "O": "hours of random work and kills",
    "T": "a day, and years of certificates, pass under a clock of the test",
    "U": "an earlier version of the operator takes the place of this one, and back",
}


ON_CLUSTER: Final = frozenset("ABCDEFGJKN")
"""The sets with cases in a namespace of the campaign's control plane."""


def cluster_cases(cluster: Cluster, scenarios: Sequence[Scenario], seed: int) -> Iterator[Case]:
    """Every case that needs a namespace, for some scenarios whose references are known."""
    yield from fields.cases(cluster)
    yield from updates.cases(cluster, seed)
    yield from crashes.crashes(cluster, scenarios)
    yield from crashes.double_crashes(cluster, scenarios, seed)
    yield from views.cases(scenarios, seed)
    yield from api_faults.cases(cluster, scenarios, seed)
    yield from rights.cases(scenarios)
    yield from leadership.cases(scenarios, seed)
    yield from idle_gpus.cases()
    yield from slips.cases()


def standalone_cases(seed: int, soaking: SoakSize, commit: str = "") -> Iterator[StandaloneCase]:
    """Every case that needs nothing of the campaign's control plane.

    Args:
        seed: chooses random steps.
        soaking: the size of set O.
        commit: of the earlier version of set U; empty for the last release, or what counts as one.
    """
    yield from control_plane.cases()
    yield from dependencies.cases()
    yield from monitoring.cases()
    yield from downloads.cases()
    yield from plugins.cases()
    yield from slips.standalone()
    yield from timers.cases(seed)
    yield from leases.cases(seed)
    yield from upgrades.cases(commit)
    yield from soak.cases(seed, soaking)
