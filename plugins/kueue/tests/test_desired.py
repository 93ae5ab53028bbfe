from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.resource import Object
    from kaiwo_kueue.desired import DesiredObjects

    Wants = Callable[..., DesiredObjects]


def flavor(name: str = "f", **entry: Any) -> Object:
    """An entry of resourceFlavors."""
    return {"name": name, "nodeLabels": {"pool": name}, **entry}


def test_a_flavor_gets_the_worker_label_where_there_is_room(wants: Wants) -> None:
    """Not with a topology, not as a ninth label; taints and tolerations go along."""
    eight = {str(n): "x" for n in range(8)}
    asked = wants(
        {
            "resourceFlavors": [
                flavor("f", taints=[{"key": "t", "effect": "NoSchedule"}], tolerations=[{"key": "t"}]),
                flavor("g", topologyName="t"),
                flavor("h", nodeLabels=eight),
            ]
        }
    )
    f, g, h = asked.objects
    assert f.spec == {
        "nodeLabels": {"pool": "f", "kaiwo/worker": "true"},
        "nodeTaints": [{"key": "t", "effect": "NoSchedule"}],
        "tolerations": [{"key": "t"}],
    }
    assert g.spec == {"nodeLabels": {"pool": "g"}, "topologyName": "t"}
    assert h.spec == {"nodeLabels": eight}


def test_empty_fields_of_taints_and_tolerations_mean_none(wants: Wants) -> None:
    """Kubernetes takes them empty; sent as they are, a server that leaves them out would seem to differ."""
    empty = {"key": "t", "value": "", "effect": ""}
    asked = wants(
        {
            "resourceFlavors": [
                flavor(
                    taints=[{"key": "t", "value": "", "effect": "NoSchedule"}],
                    tolerations=[{**empty, "operator": ""}, {"key": "", "operator": "Exists"}],
                    topologyName="",
                )
            ]
        }
    )
    assert asked.objects[0].spec == {
        "nodeLabels": {"pool": "f", "kaiwo/worker": "true"},
        "nodeTaints": [{"key": "t", "effect": "NoSchedule"}],
        "tolerations": [{"key": "t"}, {"operator": "Exists"}],
    }


def test_the_time_of_a_taint_is_not_written(wants: Wants) -> None:
    """It is of a node, as ``kubectl`` shows it; Kueue's webhook writes another form of the same time."""
    taint = {"key": "t", "effect": "NoSchedule", "timeAdded": "2026-01-01T02:00:00+02:00"}
    asked = wants({"resourceFlavors": [flavor(taints=[taint])]})
    assert asked.objects[0].spec["nodeTaints"] == [{"key": "t", "effect": "NoSchedule"}]


def test_of_many_wrong_quotas_five_are_named(wants: Wants) -> None:
    """A template that was not filled in is wrong everywhere; the message stays one that can be read."""
    resources = [{"name": f"x.com/r{number}", "nominalQuota": "{{ quota }}" * 50} for number in range(60)]
    group = {
        "coveredResources": [resource["name"] for resource in resources],
        "flavors": [{"name": "f", "resources": resources}],
    }
    asked = wants({"clusterQueues": [{"name": "q", "spec": {"resourceGroups": [group]}}]})
    (problem,) = [item for item in asked.problems if item.reason == "InvalidQuantity"]
    assert "and 55 more; write quantities as" in problem.message
    assert len(problem.message) < 1000


@pytest.mark.parametrize(
    ("count", "named"), [(5, "a0, a1, a2, a3, a4 does"), (7, "a0, a1, a2, a3, a4 and 2 more does")]
)
def test_of_many_missing_namespaces_five_are_named(wants: Wants, count: int, named: str) -> None:
    """The message stays one line that can be read."""
    namespaces = [f"a{number}" for number in range(count)]
    asked = wants({"clusterQueues": [{"name": "q", "namespaces": namespaces}]}, namespaces=set())
    (problem,) = [item for item in asked.problems if "does not exist" in item.message]
    assert problem.message.startswith(f"ClusterQueue q: namespace {named} not exist; ")
