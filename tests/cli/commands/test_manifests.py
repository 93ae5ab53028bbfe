"""``kaiwo manifests crds`` never takes away a field that is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


def job_fields(text: str) -> set[str]:
    """Fields of a KaiwoJob's spec in rendered CRDs."""
    crds = {crd["metadata"]["name"]: crd for crd in yaml.safe_load_all(text)}
    (version,) = crds["kaiwojobs.kaiwo.silogen.ai"]["spec"]["versions"]
    return set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


def test_fields_are_those_of_the_chosen_plugins(cli: Cli) -> None:
    """--plugins decides which plugins' fields are rendered."""
    fields = job_fields(cli("manifests", "crds", "--plugins", "batch_job").out)
    assert "job" in fields
    assert "rayJob" not in fields


def test_a_foreign_claim_to_a_plugins_name_does_not_stop_the_rendering(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin that was asked for loads, so its fields are rendered."""
    info = tmp_path / "a_rogue-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a-rogue\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kaiwo.plugins]\nbatch_job = a_rogue\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = cli("manifests", "crds", "--plugins", "batch_job")
    assert done.code == 0
    assert "job" in job_fields(done.out)
    assert "plugin name batch_job belongs to distribution kaiwo-batch-job" in done.err


def test_previous_definitions_are_widened_never_narrowed(cli: Cli) -> None:
    """A field whose plugin is gone stays, so that live objects keep its values; also from a List."""
    everything = cli("manifests", "crds").out
    Path("before.yaml").write_text(everything)
    kept = cli("manifests", "crds", "--plugins", "batch_job", "--previous", "before.yaml")
    assert kept.code == 0
    assert job_fields(kept.out) == job_fields(everything)
    listed = {"apiVersion": "v1", "kind": "List", "items": list(yaml.safe_load_all(everything))}
    Path("list.yaml").write_text(yaml.safe_dump(listed))
    again = cli("manifests", "crds", "--plugins", "batch_job", "--previous", "list.yaml")
    assert again.out == kept.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [\n", "before.yaml:2:1: invalid YAML"),
        ("kind: ConfigMap\n", "before.yaml: no CustomResourceDefinition in this file"),
        ("kind: List\nitems: 5\n", "before.yaml: no CustomResourceDefinition in this file"),
        ("", "before.yaml: no CustomResourceDefinition in this file"),
    ],
)
def test_a_previous_file_that_cannot_be_used_is_reported(cli: Cli, content: str, message: str) -> None:
    """Rendering without it would lose fields, so it is no warning but an error."""
    Path("before.yaml").write_text(content)
    result = cli("manifests", "crds", "--previous", "before.yaml")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {message}")
    assert "kubectl get crd -o yaml" in result.err


def test_two_sources_of_previous_definitions_are_refused(cli: Cli) -> None:
    """It would not be clear which one counts."""
    Path("before.yaml").write_text("{}")
    result = cli("manifests", "crds", "--previous", "before.yaml", "--from-cluster")
    assert result.code == 2
    assert "exclude each other" in result.err


def test_a_plugin_that_is_not_installed_is_reported(cli: Cli) -> None:
    """A misspelt name must not silently render fewer fields."""
    result = cli("manifests", "crds", "--plugins", "batch_jbo")
    assert "batch_jbo" in result.err
    assert "batch_job" in result.err
