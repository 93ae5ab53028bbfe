"""Which nodes a pod may use: as the scheduler decides it."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo_gpu_preemption.node_fit import may_use, required_labels

LABELS = {"pool": "a", "gpus": "8", "empty": ""}
NODE = {"metadata": {"name": "n0", "labels": LABELS}, "spec": {}}


def terms(*expressions: Any, **term: Any) -> Any:
    """A place with one required term."""
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": list(expressions), **term}]
                }
            }
        }
    }


def expression(key: str, operator: str, *values: str) -> Any:
    """A match expression."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("place", "fits"),
    [
        ({}, True),
        ({"nodeSelector": {"pool": "a"}}, True),
        ({"nodeSelector": {"pool": "b"}}, False),
        ({"nodeSelector": {"pool": "a", "other": "x"}}, False),
        (terms(expression("pool", "In", "a", "b")), True),
        (terms(expression("pool", "In", "b")), False),
        (terms(expression("other", "In", "a")), False),
        (terms(expression("pool", "NotIn", "b")), True),
        (terms(expression("pool", "NotIn", "a")), False),
        (terms(expression("other", "NotIn", "a")), True),
        (terms(expression("empty", "Exists")), True),
        (terms(expression("other", "Exists")), False),
        (terms(expression("other", "DoesNotExist")), True),
        (terms(expression("empty", "DoesNotExist")), False),
        (terms(expression("gpus", "Gt", "4")), True),
        (terms(expression("gpus", "Gt", "8")), False),
        (terms(expression("gpus", "Lt", "16")), True),
        (terms(expression("pool", "Gt", "4")), False),
        (terms(expression("other", "Lt", "4")), False),
        (terms(expression("pool", "Like", "a")), False),
        (terms(expression("pool", "In", "a"), expression("gpus", "Gt", "8")), False),
        (terms(matchFields=[expression("metadata.name", "In", "n0")]), True),
        (terms(matchFields=[expression("metadata.name", "In", "n1")]), False),
        (terms(), False),
    ],
)
def test_selector_and_affinity_choose_nodes(place: Any, fits: bool) -> None:
    """Each operator; an empty term chooses no node."""
    assert may_use(place, NODE) is fits


def test_one_of_several_terms_is_enough() -> None:
    """And the expressions of a term hold together."""
    place = terms(expression("pool", "In", "b"))
    listed = place["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    listed["nodeSelectorTerms"].append({"matchExpressions": [expression("gpus", "In", "8")]})
    assert may_use(place, NODE)
    assert required_labels(place) == {}


def test_preferences_do_not_count() -> None:
    """The scheduler may put the pod elsewhere."""
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
    assert may_use({"affinity": {"nodeAffinity": preferred}}, NODE)


TAINT = {"key": "gpu", "value": "true", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        (TAINT, None, False),
        ({**TAINT, "effect": "NoExecute"}, None, False),
        ({**TAINT, "effect": "PreferNoSchedule"}, None, True),
        (TAINT, {"key": "gpu", "value": "true"}, True),
        (TAINT, {"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}, True),
        (TAINT, {"key": "gpu", "value": "false"}, False),
        (TAINT, {"key": "gpu"}, False),
        (TAINT, {"key": "gpu", "operator": "Exists"}, True),
        (TAINT, {"operator": "Exists"}, True),
        (TAINT, {"key": "other", "operator": "Exists"}, False),
        (TAINT, {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "effect": "NoSchedule"}, {"key": "gpu", "value": ""}, True),
    ],
)
def test_taints_keep_pods_away_that_do_not_tolerate_them(taint: Any, toleration: Any, fits: bool) -> None:
    """By key, value, operator and effect."""
    place = {"tolerations": [toleration] if toleration else []}
    assert may_use(place, {**NODE, "spec": {"taints": [taint]}}) is fits


def test_every_taint_has_to_be_tolerated() -> None:
    """One toleration may be enough for all of them."""
    node = {**NODE, "spec": {"taints": [TAINT, {"key": "other", "effect": "NoExecute"}]}}
    assert not may_use({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, node)
    assert may_use({"tolerations": [{"operator": "Exists"}]}, node)


def test_a_cordoned_node_takes_no_pods() -> None:
    """Whatever the pod tolerates."""
    assert not may_use({"tolerations": [{"operator": "Exists"}]}, {**NODE, "spec": {"unschedulable": True}})


@pytest.mark.parametrize(
    ("place", "labels"),
    [
        ({}, {}),
        ({"nodeSelector": {"pool": "a"}}, {"pool": {"a"}}),
        (terms(expression("pool", "In", "a", "b")), {"pool": {"a", "b"}}),
        (terms(expression("pool", "NotIn", "a"), expression("gpus", "Gt", "4")), {}),
        ({"nodeSelector": {"pool": "b"}, **terms(expression("pool", "In", "a", "b"))}, {"pool": {"b"}}),
    ],
)
def test_labels_are_required_as_far_as_their_values_are_listed(place: Any, labels: Any) -> None:
    """By these a queue leaves flavors out."""
    assert required_labels(place) == labels
