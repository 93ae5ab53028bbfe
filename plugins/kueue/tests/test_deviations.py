from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_kueue.conversion import normal_form, to_v1beta2
from kaiwo_kueue.deviations import correction, deviations, newer_checks
from kaiwo_kueue.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object


def groups(**limits: Any) -> list[Object]:
    """One resource group with a quota of 10 cores."""
    resources = [{"name": "cpu", "nominalQuota": "10", **limits}]
    return [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}]


QUEUE: Object = {"namespaceSelector": {}, "resourceGroups": groups()}
FLAVOR: Object = {"nodeLabels": {"pool": "a"}}


def found(kind: Any, live: Object, wanted: Object, *, owned: bool = True) -> tuple[str, ...]:
    """The fields that deviate."""
    return deviations(kind, normal_form(kind, live), normal_form(kind, wanted), owned=owned)


@pytest.mark.parametrize(
    ("kind", "wanted", "added", "fields"),
    [
        pytest.param(CLUSTER_QUEUE, QUEUE, {}, (), id="nothing"),
        pytest.param(CLUSTER_QUEUE, QUEUE, {"fairSharing": {"weight": "2"}}, (), id="a field of others"),
        pytest.param(
            CLUSTER_QUEUE, QUEUE, {"resourceGroups": groups(borrowingLimit="3")}, ("resourceGroups",),
            id="a limit",
        ),
        pytest.param(
            CLUSTER_QUEUE, QUEUE, {"namespaceSelector": {"matchLabels": {"a": "b"}}}, ("namespaceSelector",),
            id="a selector",
        ),
        pytest.param(CLUSTER_QUEUE, QUEUE, {"cohort": "other"}, ("cohortName",), id="a cohort"),
        pytest.param(
            CLUSTER_QUEUE, QUEUE, {"admissionChecks": ["dry"]}, ("admissionChecksStrategy",), id="a check"
        ),
        pytest.param(
            CLUSTER_QUEUE, QUEUE, {"preemption": {"withinClusterQueue": "LowerPriority"}}, ("preemption",),
            id="another value than the default",
        ),
        pytest.param(CLUSTER_QUEUE, QUEUE, {"stopPolicy": "Hold"}, ("stopPolicy",), id="a stop"),
        pytest.param(
            RESOURCE_FLAVOR, FLAVOR, {"nodeLabels": {"pool": "a", "zone": "b"}}, ("nodeLabels",), id="a label"
        ),
        pytest.param(
            RESOURCE_FLAVOR, FLAVOR, {"nodeTaints": [{"key": "k", "effect": "NoSchedule"}]}, ("nodeTaints",),
            id="a taint",
        ),
        pytest.param(RESOURCE_FLAVOR, FLAVOR, {"nodeTaints": []}, (), id="no taints"),
    ],
)  # fmt: skip
def test_what_somebody_adds_to_a_queue_or_flavor_is_noticed(
    kind: Any, wanted: Object, added: Object, fields: tuple[str, ...]
) -> None:
    """A limit, a cohort or a taint by hand changes who is admitted as much as a quota does."""
    assert found(kind, {**wanted, **added}, wanted) == fields


def test_what_is_not_listed_of_an_object_of_others_stays() -> None:
    """Its own manager may well need the taint; listing an object does not take it over."""
    live = {**FLAVOR, "nodeTaints": [{"key": "k", "effect": "NoSchedule"}]}
    assert found(RESOURCE_FLAVOR, live, FLAVOR, owned=False) == ()
    assert found(CLUSTER_QUEUE, {**QUEUE, "cohort": "theirs"}, QUEUE, owned=False) == ()


@pytest.mark.parametrize(
    ("version", "added", "patch"),
    [
        ("v1beta2", {}, {}),
        ("v1beta2", {"stopPolicy": "Hold"}, {"stopPolicy": "None"}),
        (
            "v1beta2",
            {"preemption": {"withinClusterQueue": "LowerPriority"}},
            {
                "preemption": {
                    "reclaimWithinCohort": "Never",
                    "withinClusterQueue": "Never",
                    "borrowWithinCohort": {"policy": "Never"},
                }
            },
        ),
        ("v1beta2", {"cohortName": "other"}, {"cohortName": None}),
        ("v1beta1", {"cohort": "other"}, {"cohort": None}),
        (
            "v1beta2",
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]}},
            {"admissionChecksStrategy": None},
        ),
        ("v1beta1", {"admissionChecks": ["c"]}, {"admissionChecksStrategy": None, "admissionChecks": None}),
        (
            "v1beta1",
            {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}},
            {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}},
        ),
    ],
)
def test_a_correction_sets_just_what_deviates(version: str, added: Object, patch: Object) -> None:
    """In the words of the served version, with the defaults of what is not listed."""
    live = {**QUEUE, **added}
    assert correction(CLUSTER_QUEUE, version, live, to_v1beta2(CLUSTER_QUEUE, QUEUE), owned=True) == patch


def test_checks_in_the_older_form_are_moved_to_the_newer_one() -> None:
    """Kueue 0.12 refuses a queue with both, so a listed queue of somebody else could not be managed."""
    wanted = to_v1beta2(CLUSTER_QUEUE, {"admissionChecks": ["dry"]})
    newer = {"admissionChecks": [{"name": "dry"}]}
    moved = {"admissionChecksStrategy": newer, "admissionChecks": None}
    assert newer_checks({"admissionChecks": ["dry"]}, wanted) == moved
    assert newer_checks({"admissionChecksStrategy": newer}, wanted) == {}
    assert newer_checks({"admissionChecks": ["dry"]}, {}) == {}
