"""The fields that the campaign's sets change."""

from __future__ import annotations

import pytest

from campaign.leaves import Leaf, leaves
from kaiwo.api.crds import WORKLOADS
from kaiwo.plugin.loader import load

VALIDATOR = load().validator()


def test_both_kinds_have_leaves_and_each_once() -> None:
    """A name stands for one case on the command line."""
    names = [str(leaf) for leaf in leaves()]
    assert len(names) == len(set(names))
    assert {leaf.kind for leaf in leaves()} == set(WORKLOADS)
    assert len(names) > 130


@pytest.mark.parametrize("leaf", leaves(), ids=str)
def test_each_leaf_has_a_valid_specification_with_a_value(leaf: Leaf) -> None:
    """A new field needs a value in campaign/leaves.py."""
    spec = leaf.spec()
    parent, key = leaf.place(spec)
    assert parent[key] is not None
    obj = leaf.workload("a", spec)
    obj["metadata"]["namespace"] = "team"
    assert not VALIDATOR.validate(obj).problems
