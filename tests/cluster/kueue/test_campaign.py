"""A slice of the campaign: some cases of the quick sets, on the control plane of the other tests."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from campaign.arena import Cluster
from campaign.runner import Shared, learn, run
from campaign.scenarios import SCENARIOS
from campaign.sets import cluster_cases

if TYPE_CHECKING:
    from campaign.case import Case

pytestmark = pytest.mark.cluster

SEED = 11
OF_EACH_SET = 2
REST = 2.0
"""Seconds without a write; a whole campaign watches for longer."""

SETS = "ABCDEF"
"""A case of set N is in tests/campaign. Those of the other sets wait for Leases and restarts; other tests
have their faults."""


def chosen(cases: list[Case]) -> list[Case]:
    """A few cases of each set."""
    found: list[Case] = []
    for letter in SETS:
        of_set = [case for case in cases if case.set == letter]
        found += random.Random(f"{SEED}-{letter}").sample(of_set, OF_EACH_SET)
    return found


@pytest.mark.usefixtures("pristine")
async def test_a_slice_of_the_quick_sets_holds_every_oracle(control_plane: Any) -> None:
    """Killed, given odd values, answered badly: the end is that of a run without a fault."""
    scenarios = [SCENARIOS["job-plain"], SCENARIOS["serve-plain"]]
    async with Cluster(control_plane) as cluster:
        async with Shared(cluster) as shared:
            await learn(cluster, shared, scenarios)
            cases = chosen(list(cluster_cases(cluster, scenarios, SEED)))
            together = [case for case in cases if not case.own]
            results = await run(cluster, shared, together, lambda _: None, rest=REST)
        results += await run(cluster, None, [case for case in cases if case.own], lambda _: None, rest=REST)
    assert len(results) == OF_EACH_SET * len(SETS)
    failed = [f"{result.case} {result.oracle}: {result.message}" for result in results if result.oracle]
    assert not failed, "\n".join(failed)
