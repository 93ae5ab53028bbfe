"""What simulated nodes gave up."""

from __future__ import annotations

import json

from campaign.simulated_nodes import given_up


def test_a_pod_whose_stage_was_refused_is_found_in_the_log() -> None:
    """Each time that it was refused; leases of nodes, and lines that are cut off, are not taken for pods."""
    failed = {"level": "ERROR", "msg": "failed to apply stage", "err": "no space", "pod": "team/train-x7k2p"}
    lease = {"level": "ERROR", "msg": "Failed to sync lease", "err": "no space"}
    lines = [json.dumps(record) for record in (failed, lease, failed)]
    assert given_up("\n".join([*lines, '{"msg": "failed to app'])) == ["team/train-x7k2p"] * 2
    assert given_up("") == []
