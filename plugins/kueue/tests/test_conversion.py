from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo_kueue.conversion import contains, from_v1beta2, normal_form, ordered, to_v1beta2
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE

Object = dict[str, Any]


def group(quota: Any) -> Object:
    """A resource group with one quota."""
    resources = [{"name": "cpu", "nominalQuota": quota}]
    return {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}


SAME: list[tuple[Object, Object]] = [
    ({"cohort": "a"}, {"cohortName": "a"}),
    ({"resourceGroups": [group("1500m")]}, {"resourceGroups": [group("1.5")]}),
    ({"resourceGroups": [group("1Gi")]}, {"resourceGroups": [group(2**30)]}),
    (
        {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}},
        {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}},
    ),
    (
        {"admissionChecks": ["x", "y"]},
        {"admissionChecksStrategy": {"admissionChecks": [{"name": "x"}, {"name": "y"}]}},
    ),
    (
        {},
        {
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
            "preemption": {
                "reclaimWithinCohort": "Never",
                "withinClusterQueue": "Never",
                "borrowWithinCohort": {"policy": "Never"},
            },
        },
    ),
    ({"fairSharing": {"weight": "1000m"}}, {"fairSharing": {"weight": 1}}),
    ({"cohort": None, "preemption": None}, {}),
    ({"cohort": "", "cohortName": ""}, {}),
    ({"cohort": "a", "cohortName": ""}, {"cohortName": "a"}),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_both_generations_mean_the_same(old: Object, new: Object) -> None:
    """What a server returns in its own words is no difference; else every pass would write."""
    assert normal_form(CLUSTER_QUEUE, old) == normal_form(CLUSTER_QUEUE, new)


@pytest.mark.parametrize(
    "more", [{"admissionChecks": "x"}, {"admissionChecks": ["x"], "admissionChecksStrategy": {"a": []}}]
)
def test_admission_checks_that_cannot_be_converted_stay(more: Object) -> None:
    """The API server refuses them by name; a queue without its checks would admit what it must not."""
    for version in ("v1beta1", "v1beta2"):
        converted = from_v1beta2(CLUSTER_QUEUE, to_v1beta2(CLUSTER_QUEUE, more), version)
        assert converted["admissionChecks"] == more["admissionChecks"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"cohort": "a"}, {"cohortName": "b"}),
        ({"resourceGroups": [group("1")]}, {"resourceGroups": [group("2")]}),
        ({"preemption": {"withinClusterQueue": "LowerPriority"}}, {}),
        ({"admissionChecks": ["x"]}, {}),
    ],
)
def test_what_differs_in_meaning_differs(one: Object, other: Object) -> None:
    """A real change is written."""
    assert normal_form(CLUSTER_QUEUE, one) != normal_form(CLUSTER_QUEUE, other)


def test_the_older_generation_gets_its_own_words() -> None:
    """Kueue 0.12 knows neither cohortName nor MayStopSearch."""
    spec = to_v1beta2(
        CLUSTER_QUEUE,
        {"cohort": "a", "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}},
    )
    assert spec["flavorFungibility"]["whenCanBorrow"] == "MayStopSearch"
    assert from_v1beta2(CLUSTER_QUEUE, spec, "v1beta2") == spec
    assert from_v1beta2(CLUSTER_QUEUE, spec, "v1beta1") == {
        "cohort": "a",
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
    }
    assert from_v1beta2(LOCAL_QUEUE, {"clusterQueue": "q"}, "v1beta1") == {"clusterQueue": "q"}


def test_resources_of_a_flavor_are_ordered_like_the_covered_ones() -> None:
    """Kueue refuses another order; resources that are not covered come last, so that Kueue names them."""
    resources = [{"name": name, "nominalQuota": 1} for name in ("odd", "memory", "cpu")]
    spec = {
        "resourceGroups": [
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "f", "resources": resources}]}
        ]
    }
    (flavor,) = ordered(spec)["resourceGroups"][0]["flavors"]
    assert [item["name"] for item in flavor["resources"]] == ["cpu", "memory", "odd"]


@pytest.mark.parametrize(
    ("written", "sent"), [(1.5, "1500m"), (1e12, "1T"), (0.0, "0"), (4, 4), ("1.5", "1.5")]
)
def test_a_quantity_may_be_written_as_a_fraction(written: object, sent: object) -> None:
    """Kueue's schema takes whole numbers and texts only; what it takes is sent as it is written."""
    spec = to_v1beta2(CLUSTER_QUEUE, {"resourceGroups": [group(written)], "fairSharing": {"weight": written}})
    assert spec == {"resourceGroups": [group(sent)], "fairSharing": {"weight": sent}}


def test_a_quantity_that_is_none_is_left_to_the_api_server() -> None:
    """It is compared as it is and refused by Kueue with its own words."""
    assert normal_form(CLUSTER_QUEUE, {"resourceGroups": [group("lots")]})["resourceGroups"][0] == group(
        "lots"
    )


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
keys = st.sampled_from(
    ["cohort", "admissionChecks", "flavorFungibility", "preemption", "resourceGroups", "fairSharing", "x"]
)


@given(st.dictionaries(keys, json))
def test_no_spec_breaks_it(spec: Object) -> None:
    """The API server keeps whatever an administrator wrote below spec; nonsense never crashes."""
    form = normal_form(CLUSTER_QUEUE, spec)
    assert normal_form(CLUSTER_QUEUE, form) == form
    assert contains(form, form)
    again = normal_form(
        CLUSTER_QUEUE, from_v1beta2(CLUSTER_QUEUE, to_v1beta2(CLUSTER_QUEUE, spec), "v1beta1")
    )
    assert contains(again, again)
