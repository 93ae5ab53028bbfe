"""A slice of the campaign: some cases of each set, on the control plane of the other tests."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from campaign.arena import Cluster
from campaign.runner import Shared, learn, run
from campaign.scenarios import SCENARIOS
from campaign.sets import ON_CLUSTER, cluster_cases

if TYPE_CHECKING:
    from campaign.case import Case

pytestmark = pytest.mark.cluster

SEED = 11
OF_EACH_SET = 2


def chosen(cases: list[Case]) -> list[Case]:
    """A few cases of each set."""
    found: list[Case] = []
    for letter in sorted(ON_CLUSTER):
        of_set = [case for case in cases if case.set == letter]
        found += random.Random(f"{SEED}-{letter}").sample(of_set, OF_EACH_SET)
    return found


@pytest.mark.usefixtures("pristine")
async def test_a_slice_of_every_set_holds_every_oracle(control_plane: Any) -> None:
    """Killed, answered badly, shown a wrong view: the end is that of a run without a fault."""
    scenarios = [SCENARIOS["job-plain"], SCENARIOS["serve-plain"]]
    async with Cluster(control_plane) as cluster:
        async with Shared(cluster) as shared:
            await learn(cluster, shared, scenarios)
            cases = chosen(list(cluster_cases(cluster, scenarios, SEED)))
            together = [case for case in cases if not case.own]
            results = await run(cluster, shared, together, lambda _: None)
        results += await run(cluster, None, [case for case in cases if case.own], lambda _: None)
    assert len(results) == OF_EACH_SET * len(ON_CLUSTER)
    failed = [f"{result.case} {result.oracle}: {result.message}" for result in results if result.oracle]
    assert not failed, "\n".join(failed)
