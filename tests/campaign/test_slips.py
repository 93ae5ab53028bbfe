"""The files of mistakes that users make."""

from __future__ import annotations

import pytest

from campaign.runner import run_standalone
from campaign.sets import slips


def test_there_are_sixty_and_each_has_its_verdict() -> None:
    """A file without words to expect would hold whatever is said."""
    found = slips.slips()
    assert len(found) >= 60
    for slip in found:
        assert slip.about.endswith("."), slip.file
        assert slip.check in ("plan", "cluster", "why"), slip.file
        assert slip.expect, slip.file


@pytest.mark.parametrize("wrong", [False, True])
async def test_a_slip_without_a_cluster_is_compared_with_its_verdict(
    monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    """It holds as it is, and fails where the verdict lacks one of the words."""
    if wrong:
        monkeypatch.setattr(slips.Slip, "lacks", lambda *_: ["another word"])
    cases = [case for case in slips.standalone() if case.name == "quoted-gpus"]
    (result,) = await run_standalone(cases, lambda _: None)
    assert bool(result.oracle) == wrong, result.message
    assert ("another word" in result.message) == wrong
