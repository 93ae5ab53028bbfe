"""Who owns a field of a live child, as the API server notes it."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo.engine.cached_object import managers_of
from kaiwo.workload.field_owners import SCALED_BY, field_owners
from kaiwo.workload.json_access import value_at
from kaiwo.workload.labels import RUN_ID

REPLICAS = ("spec", "replicas")
RECORD = {"f:metadata": {"f:labels": {f"f:{RUN_ID}": {}}}}
REPLICAS_FIELD = {"f:spec": {"f:replicas": {}}}


def owner(replicas: Any, *managed: tuple[str, dict[str, Any]]) -> str | None:
    """Who owns the replicas of a Deployment."""
    live = {
        "metadata": {"managedFields": [{"manager": name, "fieldsV1": fields} for name, fields in managed]},
        "spec": {"replicas": replicas},
    }
    found = field_owners([REPLICAS], lambda path: managers_of(live, path), lambda *path: value_at(live, path))
    return found.get(REPLICAS)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (owner(2, ("kaiwo", {**RECORD, **REPLICAS_FIELD})), "kaiwo"),
        (owner(0, ("kaiwo", {**RECORD, **REPLICAS_FIELD})), "kaiwo"),
        (owner(3, ("kaiwo", RECORD), ("kube-controller-manager", REPLICAS_FIELD)), "kube-controller-manager"),
        (owner(0, ("kaiwo", RECORD)), SCALED_BY),
        (owner(2, ("kaiwo", RECORD)), SCALED_BY),
        (owner("0", ("kaiwo", RECORD)), None),
        (owner(0), None),
        (owner(0, ("velero-server", RECORD)), None),
    ],
)
def test_replicas_without_an_owner_are_those_of_a_scaler(found: str | None, expected: str | None) -> None:
    """The subresource scale takes the field from its owner, and a 0 in it is noted for nobody."""
    assert found == expected
