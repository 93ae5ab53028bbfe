"""Secrets and ConfigMaps that a workload names are found wherever they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kaiwo.api.workload import Workload
from kaiwo.cli.pod_references import Reference, missing_objects, references
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import CONFIG_MAP, SECRET
from kaiwo.testing import job

if TYPE_CHECKING:
    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Resource


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
        ({"imagePullSecrets": [{"name": "registry"}]}, Reference(SECRET, "registry", pulls=True)),
        ({"storage": {"data": {"download": {"s3": [{"key": {"secretName": "s3", "secretKey": "id"}}]}}}},
         Reference(SECRET, "s3", "id")),
        ({"job": {"spec": {"template": {"spec": {"volumes": [
            {"name": "p", "projected": {"sources": [{"secret": {"name": "hub"}}]}}]}}}}},
         Reference(SECRET, "hub")),
        (template(envFrom=[{"configMapRef": {"name": "conf"}}]), Reference(CONFIG_MAP, "conf")),
        (template(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "a"}}}]),
         Reference(CONFIG_MAP, "conf", "a")),
    ],
)  # fmt: skip
def test_a_reference_is_found(spec: dict[str, Any], found: Reference) -> None:
    """Ours, those of embedded templates, and the credentials of downloads."""
    assert references(spec) == [found]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"imagePullSecrets": [{"name": "registry"}]},
         "images that need it cannot be pulled: kubectl create secret docker-registry registry -n team "),
        ({"secretVolumes": [{"secretName": "s3", "key": "two words"}]},
         "kubectl create secret generic s3 -n team '--from-literal=two words=VALUE'"),
        ({"env": [{"valueFrom": {"configMapKeyRef": {"name": "conf", "key": "a"}}}]},
         "pods that use it wait for it: kubectl create configmap conf -n team --from-literal=a=VALUE"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_with_the_command_that_makes_it(spec: dict[str, Any], words: str) -> None:
    """A credential of a registry is of another type, and pods do not wait for it."""

    class Empty:
        """A cluster without objects."""

        def get(self, kind: Resource, namespace: str, name: str) -> Any:
            raise NotFound(404, f"{kind} {namespace}/{name}")

    (said,) = missing_objects(cast("Cluster", Empty()), Workload.from_object(job(namespace="team")), spec)
    assert words in said


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
