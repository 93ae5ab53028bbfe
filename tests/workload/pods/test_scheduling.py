"""Where schedulers let pods run, as Kubernetes documents it."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo.workload.pods.scheduling import expression_matches, required_node_terms, tolerated

TAINT = {"key": "gpu", "value": "true", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "lets"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "true"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "value": "false"}, False),
        ({"key": "gpu"}, False),
        ({"key": "cpu", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_a_toleration_lets_a_pod_to_a_taint_it_matches(toleration: dict[str, Any], lets: bool) -> None:
    """By key, value and effect; an empty effect is each one, and no operator is Equal."""
    assert tolerated([TAINT], [toleration]) is lets


def test_each_taint_needs_a_toleration_but_those_that_only_discourage() -> None:
    """PreferNoSchedule keeps nobody away."""
    assert tolerated([{**TAINT, "effect": "PreferNoSchedule"}], [])
    assert not tolerated([TAINT, {"key": "maintenance", "effect": "NoExecute"}], [{**TAINT}])


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("In", ["a", "7"], True),
        ("In", ["a"], False),
        ("NotIn", ["a"], True),
        ("NotIn", ["7"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["6"], True),
        ("Gt", ["7"], False),
        ("Lt", ["8"], True),
        ("Lt", ["many"], False),
        ("Lt", [], False),
        ("Near", ["7"], False),
    ],
)
def test_a_requirement_compares_a_label(operator: str, values: list[str], matches: bool) -> None:
    """Gt and Lt compare whole numbers; what cannot be compared, or is unknown, matches nothing."""
    requirement = {"key": "racks", "operator": operator, "values": values}
    assert expression_matches(requirement, {"racks": "7"}) is matches


def test_a_label_that_a_node_lacks_is_in_no_list() -> None:
    """So NotIn and DoesNotExist match, and the others do not."""
    found = {
        operator: expression_matches({"key": "racks", "operator": operator, "values": ["7"]}, {})
        for operator in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    }
    assert [operator for operator, matches in found.items() if matches] == ["NotIn", "DoesNotExist"]


@pytest.mark.parametrize(
    "affinity", [None, [], {"nodeAffinity": "x"}, {"nodeAffinity": {}}, {"podAffinity": {}}]
)
def test_a_pod_without_required_node_affinity_has_no_terms(affinity: Any) -> None:
    """Whatever shape the rest has."""
    assert required_node_terms({"affinity": affinity}) == []
