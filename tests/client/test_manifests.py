"""What scripts may give to the client as a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.validate import Validator
from kaiwo.client import manifests
from kaiwo.client.errors import InvalidArgument, InvalidManifest
from kaiwo.client.user_config import UserConfig

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoJob
metadata:
  name: train
spec:
  image: registry.example/train:1
"""


def test_text_file_mapping_and_model_are_the_same(tmp_path: Path) -> None:
    """Whatever form a script has at hand."""
    path = tmp_path / "job.yaml"
    path.write_text(TEXT, encoding="utf-8")
    (read,) = manifests.read(TEXT)
    model = Validator().model("KaiwoJob").parse(read)
    assert manifests.read(path) == manifests.read(str(path)) == manifests.read(read) == [read]
    assert manifests.read(model) == [read]


def test_what_a_script_gave_is_not_changed() -> None:
    """The same mapping may be submitted again under another name."""
    given: dict[str, Any] = {"kind": "KaiwoJob", "metadata": {"name": "train"}, "spec": {"image": "x"}}
    (read,) = manifests.read(given)
    manifests.complete([read], Validator(), UserConfig(user="jane", cluster_queue="team-a"), "team")
    assert given == {"kind": "KaiwoJob", "metadata": {"name": "train"}, "spec": {"image": "x"}}
    assert read["spec"] == {"image": "x", "user": "jane", "clusterQueue": "team-a"}
    assert read["metadata"]["namespace"] == "team"
    assert read["apiVersion"] == "kaiwo.silogen.ai/v1alpha1"


def test_several_workloads_come_in_one_text() -> None:
    """Documents and lists, as kubectl takes them."""
    assert len(manifests.read(f"{TEXT}---{TEXT}")) == 2


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a: [", "the text:2:1: invalid YAML"),
        ("- x", "expected a workload"),
        ("", "no workload"),
        ("missing.yaml", "missing.yaml: cannot be read: No such file"),
    ],
)
def test_what_is_no_workload_is_an_error(source: str, message: str) -> None:
    """With the place, before anything is sent."""
    with pytest.raises(InvalidArgument, match=message):
        manifests.read(source)


def test_a_mistake_is_found_before_anything_is_sent() -> None:
    """Every problem with its field, as on the command line."""
    wrong = {"kind": "KaiwoJob", "metadata": {"name": "train"}, "spec": {"gpus": "two", "imgae": "x"}}
    with pytest.raises(InvalidManifest) as invalid:
        manifests.complete([wrong], Validator(), UserConfig(), "team")
    assert [problem.partition(":")[0] for problem in invalid.value.problems] == ["spec.gpus", "spec.imgae"]
    other = {
        "apiVersion": "config.kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoConfig",
        "metadata": {"name": "kaiwo"},
    }
    with pytest.raises(InvalidManifest, match="KaiwoConfig is not a workload"):
        manifests.complete([other], Validator(), UserConfig(), "team")


def test_a_generated_name_is_made_here() -> None:
    """Server-side apply needs a name."""
    obj: dict[str, Any] = {"kind": "KaiwoJob", "metadata": {"generateName": "train-"}, "spec": {"image": "x"}}
    manifests.complete([obj], Validator(), UserConfig(), "team")
    assert obj["metadata"]["name"].startswith("train-")
    assert "generateName" not in obj["metadata"]
