"""A slice of the sets that need no control plane."""

from __future__ import annotations

import pytest

from campaign.runner import run_standalone
from campaign.sets import standalone_cases
from campaign.sets.soak import SoakSize

SLICE = (
    "K/nan-text",
    "K/other-namespace-server",
    "K/replaced-pod-text",
    "K/hanging-text",
    "K/clock-forward",
    "L/s3-rebinding",
    "L/azureBlob-key-that-climbs",
    "L/git-hidden-git-folder",
    "L/hub-link-out",
    "M/backends-hang",
    "M/call-assign-raise",
    "T/durations",
)


@pytest.mark.parametrize("set_name", sorted({name[0] for name in SLICE}))
async def test_a_slice_of_a_set_holds_every_oracle(set_name: str) -> None:
    """Cases by name: those that found defects, and one of each kind."""
    wanted = {name for name in SLICE if name.startswith(set_name)}
    cases = [case for case in standalone_cases(1, SoakSize(1, 1)) if str(case) in wanted]
    assert {str(case) for case in cases} == wanted
    results = await run_standalone(cases, lambda _: None)
    failed = [f"{result.case} {result.oracle}: {result.message}" for result in results if result.oracle]
    assert not failed, "\n".join(failed)


def test_every_case_has_a_name_of_its_own() -> None:
    """``--only`` runs exactly one."""
    names = [str(case) for case in standalone_cases(1, SoakSize(1, 1))]
    assert len(names) == len(set(names))
