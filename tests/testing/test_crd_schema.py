"""Objects are checked against the schema of their CustomResourceDefinition as the API server checks them."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo import testing
from kaiwo.api.crds import render_crds
from kaiwo.testing.crd_schema import crd_of, known_crd

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["mode"],
            "properties": {
                "mode": {"type": "string", "enum": ["fast", "slow"]},
                "count": {"type": "integer", "minimum": 1, "maximum": 8},
                "share": {"type": "number"},
                "port": {"x-kubernetes-int-or-string": True},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "hosts": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "none": {"type": "string", "nullable": True},
                "either": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                },
                "not": {"type": "string", "not": {"enum": ["never"]}},
            },
        }
    },
}
CRD: dict[str, Any] = {
    "metadata": {"name": "runs.acme.com"},
    "spec": {
        "group": "acme.com",
        "names": {"kind": "Run", "plural": "runs"},
        "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
FINE = {
    "mode": "fast",
    "count": 8,
    "share": 1,
    "port": "http",
    "name": "abc",
    "hosts": ["a"],
    "labels": {"a": "b"},
    "open": {"any": [1]},
    "none": None,
    "either": {"a": "x"},
    "not": "often",
}


def run(**spec: Any) -> dict[str, Any]:
    """A Run."""
    metadata = {"name": "train", "labels": {"a": "b"}}
    return {"apiVersion": "acme.com/v1", "kind": "Run", "metadata": metadata, "spec": {**FINE, **spec}}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"mode": "medium"}, "spec.mode is 'medium', expected one of 'fast', 'slow'"),
        ({"count": "2"}, "spec.count is a string, expected integer"),
        ({"count": True}, "spec.count is a boolean, expected integer"),
        ({"count": 9}, "spec.count is above maximum 8"),
        ({"count": 0}, "spec.count is below minimum 1"),
        ({"count": None}, "spec.count is null"),
        ({"port": 1.5}, "spec.port is float, expected an integer or a string"),
        ({"name": "A"}, r"spec.name is 'A', which does not match \^\[a-z\]\+\$"),
        ({"name": "abcdef"}, "spec.name is above maxLength 5"),
        ({"hosts": []}, "spec.hosts is below minItems 1"),
        ({"hosts": ["a", 1]}, r"spec.hosts\[1\] is an integer, expected string"),
        ({"labels": {"a": 1}}, "spec.labels.a is an integer, expected string"),
        ({"modes": "fast"}, "spec.modes is unknown"),
        ({"either": {"a": "x", "b": "y"}}, "spec.either does not match oneOf of its schema"),
        ({"not": "never"}, "spec.not matches what its schema excludes"),
    ],
)
def test_what_the_api_server_would_refuse_or_drop_is_named(spec: dict[str, Any], message: str) -> None:
    """Every problem with its path, all at once."""
    testing.assert_matches_crd(run(), CRD)
    with pytest.raises(AssertionError, match=message):
        testing.assert_matches_crd(run(**spec), CRD)


def test_a_missing_field_another_version_and_another_kind_are_named() -> None:
    """The object has to be one that the CRD is about."""
    bare = {**run(), "spec": {}}
    with pytest.raises(AssertionError, match=r"Run train does not match its CRD: spec.mode is missing"):
        testing.assert_matches_crd(bare, CRD)
    with pytest.raises(AssertionError, match=r"version v2 is not served \(served: v1\)"):
        testing.assert_matches_crd({**run(), "apiVersion": "acme.com/v2"}, CRD)
    with pytest.raises(AssertionError, match=r"the object is a Walk of acme.com, expected Run"):
        testing.assert_matches_crd({**run(), "kind": "Walk"}, CRD)


def test_workloads_match_the_crds_of_this_project() -> None:
    """The schemas that Kaiwo renders itself can be read, and hold for what the builders make."""
    crds = render_crds(())
    for obj in (testing.job(gpus=2, entrypoint="python train.py"), testing.service(replicas=2)):
        crd = next(crd for crd in crds if crd["spec"]["names"]["kind"] == obj["kind"])
        testing.assert_matches_crd(obj, crd)
    wrong = testing.job(gpus="two")
    with pytest.raises(AssertionError, match=r"spec.gpus is a string, expected integer"):
        testing.assert_matches_crd(wrong, next(c for c in crds if c["spec"]["names"]["kind"] == "KaiwoJob"))


def test_a_crd_is_found_among_the_given_ones_first() -> None:
    """A kind without a CRD anywhere is not checked; those of the core group have none."""
    assert crd_of([CRD], "runs", "acme.com") is CRD
    assert crd_of([], "runs", "acme.com") is None
    assert crd_of([CRD], "pods", "") is None
    found = known_crd("appwrappers", "workload.codeflare.dev")
    assert found is None or found["metadata"]["name"] == "appwrappers.workload.codeflare.dev"
