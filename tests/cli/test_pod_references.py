"""Secrets and ConfigMaps that a workload names are found wherever they stand."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo.cli.pod_references import Reference, references
from kaiwo.engine.resource import CONFIG_MAP, SECRET


def template(**container: Any) -> dict[str, Any]:
    """An embedded Job with one container."""
    return {"job": {"spec": {"template": {"spec": {"containers": [{"name": "a", **container}]}}}}}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]},
         Reference(SECRET, "hub", "token")),
        ({"secretVolumes": [{"name": "v", "secretName": "s3", "key": "id", "mountPath": "/s"}]},
         Reference(SECRET, "s3", "id")),
        ({"secretVolumes": [{"name": "v", "secretName": "s3", "mountPath": "/s"}]}, Reference(SECRET, "s3")),
        ({"imagePullSecrets": [{"name": "registry"}]}, Reference(SECRET, "registry")),
        ({"storage": {"data": {"download": {"s3": [{"key": {"secretName": "s3", "secretKey": "id"}}]}}}},
         Reference(SECRET, "s3", "id")),
        (template(envFrom=[{"configMapRef": {"name": "conf"}}]), Reference(CONFIG_MAP, "conf")),
        (template(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "a"}}}]),
         Reference(CONFIG_MAP, "conf", "a")),
    ],
)  # fmt: skip
def test_a_reference_is_found(spec: dict[str, Any], found: Reference) -> None:
    """Ours, those of embedded templates, and the credentials of downloads."""
    assert references(spec) == [found]


@pytest.mark.parametrize(
    "spec",
    [
        {"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b", "optional": True}}}]},
        template(envFrom=[{"secretRef": {"name": "a", "optional": True}}]),
        {"env": "nonsense", "imagePullSecrets": [None, {"name": 3}]},
        {"secretVolumes": [{"secretName": None}]},
        None,
    ],
)
def test_what_is_optional_or_no_reference_is_left_out(spec: Any) -> None:
    """A pod starts without what is optional."""
    assert references(spec) == []


def test_each_is_found_once() -> None:
    """Two variables of one key are one warning."""
    source = {"secretKeyRef": {"name": "hub", "key": "token"}}
    env = [{"name": name, "valueFrom": source} for name in ("A", "B")]
    assert references({"env": env}) == [Reference(SECRET, "hub", "token")]
