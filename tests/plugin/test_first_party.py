"""What the project's own distributions promise in their metadata is what their plugins do."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from kaiwo.api.validate import Validator
from kaiwo.plugin.discovery import announced_fields
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection

PLUGINS = Path(__file__).parents[2] / "plugins"
PROJECTS: list[dict[str, Any]] = [
    tomllib.loads(path.read_text(encoding="utf-8"))["project"] | {"folder": path.parent.name}
    for path in sorted(PLUGINS.glob("*/pyproject.toml"))
]


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project["folder"])
def test_a_plugin_alone_loads_and_declares_the_fields_that_its_metadata_announces(
    project: dict[str, Any],
) -> None:
    """The recorded fields of an unselected plugin match those when selected; no plugin needs another."""
    name, distribution = project["folder"], project["name"]
    assert distribution == f"kaiwo-{name.replace('_', '-')}"
    assert list(project["entry-points"]["kaiwo.plugins"]) == [name]
    (plugin,) = load(PluginSelection(names=(name,), required=frozenset({name}))).loaded
    assert (plugin.name, plugin.distribution) == (name, distribution)
    declared = {(field.kind, ".".join(field.path)) for field in plugin.fields()}
    assert declared == {
        (field.kind, field.path) for field in announced_fields() if field.distribution == distribution
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"secretVolumes": [{"name": "a", "secretName": "b", "mountPath": "/c", "namespace": "other"}]},
        {"imagePullSecrets": [{"name": "a", "namespace": "other"}]},
        {"storage": {"data": {"download": {"git": [
            {"repository": "https://a/b.git", "targetPath": "c",
             "token": {"secretName": "d", "secretKey": "e", "namespace": "other"}}]}}}},
        {"storage": {"data": {"download": {"s3": [
            {"endpointUrl": "https://a", "buckets": [],
             "secretKey": {"secretName": "d", "secretKey": "e", "namespace": "other"}}]}}}},
    ],
    ids=["volume", "pull secret", "git", "s3"],
)  # fmt: skip
def test_a_reference_to_a_secret_has_no_namespace(spec: dict[str, Any]) -> None:
    """A workload reaches the Secrets of its own namespace only."""
    workload = {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    found = Validator(load().fields()).validate(workload)
    assert [str(p).partition(": ")[2][:13] for p in found.problems if ".namespace: " in str(p)] == [
        "unknown field"
    ]


def test_all_of_them_load_together() -> None:
    """Installing everything is a working installation."""
    names = tuple(project["folder"] for project in PROJECTS)
    plugins = load(PluginSelection(names=names, required=frozenset(names)))
    assert {plugin.name for plugin in plugins.loaded} == set(names)
    assert {backend.name for backend in plugins.backends} == {
        "batch_job",
        "deployment",
        "ray_job",
        "ray_service",
    }
    assert {vendor.name for vendor in plugins.vendors} == {"amd", "nvidia"}
