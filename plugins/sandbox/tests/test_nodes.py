"""Fake nodes come from presets and files, and bad files are refused with their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kaiwo_sandbox import nodes
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path


def test_default_preset_is_the_promised_mixed_cluster() -> None:
    """Two AMD machines and one NVIDIA machine of eight GPUs, and one machine without."""
    found = nodes.load(nodes.DEFAULT_PRESET)
    gpus = [
        (item["status"]["capacity"].get("amd.com/gpu"), item["status"]["capacity"].get("nvidia.com/gpu"))
        for item in found
    ]
    assert gpus == [("8", None), ("8", None), (None, "8"), (None, None)]


@pytest.mark.parametrize("preset", sorted(nodes.PRESETS))
def test_every_node_of_a_preset_is_played_by_kwok_and_offers_all_it_has(preset: str) -> None:
    """A node without the annotation would never become Ready; allocatable is what schedulers count."""
    for item in nodes.load(preset):
        assert item["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
        assert item["status"]["allocatable"] == item["status"]["capacity"]


def test_each_call_gives_nodes_that_may_be_changed() -> None:
    """A test that edits a preset's node must not change the next test's."""
    nodes.load("small")[0]["metadata"]["name"] = "changed"
    assert nodes.load("small")[0]["metadata"]["name"] == "amd-1"


def test_a_file_as_kubectl_prints_it_becomes_fake_nodes(tmp_path: Path) -> None:
    """A list copied from a real cluster works: server-set fields go, capacity and labels stay."""
    real = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "acme-1", "uid": "x", "resourceVersion": "9", "labels": {"a": "b"}},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"capacity": {"cpu": "8", "acme.com/gpu": "8"}, "conditions": [{"type": "Ready"}]},
    }
    file = tmp_path / "nodes.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [real]}))
    (item,) = nodes.load(str(file))
    assert item["metadata"] == {
        "name": "acme-1",
        "labels": {"a": "b"},
        "annotations": {"kwok.x-k8s.io/node": "fake"},
    }
    assert item["status"]["allocatable"] == {"cpu": "8", "acme.com/gpu": "8"}


@pytest.mark.parametrize(
    "text",
    ["kind: Pod\nmetadata: {name: x}", "kind: Node", "- 1", "just text", "kind: Node\nmetadata: {name: 3}"],
)
def test_a_document_that_is_no_node_is_refused_with_its_number(tmp_path: Path, text: str) -> None:
    """The message says which document of which file."""
    file = tmp_path / "nodes.yaml"
    file.write_text(f"kind: Node\nmetadata: {{name: fine}}\n---\n{text}\n")
    with pytest.raises(SandboxError, match=r"nodes\.yaml, document 2"):
        nodes.load(str(file))


def test_a_wrong_preset_names_the_right_ones() -> None:
    """Somebody who mistypes a preset sees what there is."""
    with pytest.raises(SandboxError, match="small, amd-nvidia, bench"):
        nodes.load("amd-nvida")


@given(data=st.binary(max_size=200))
def test_no_file_can_crash_it(tmp_path: Path, data: bytes) -> None:
    """Whatever a file holds, the answer is nodes or a SandboxError."""
    file = tmp_path / "nodes.yaml"
    file.write_bytes(data)
    try:
        found = nodes.load(str(file))
    except SandboxError:
        return
    assert all(item["kind"] == "Node" for item in found)
