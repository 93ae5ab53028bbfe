"""What a source finds odd in its items, told wherever other warnings are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import kaiwo_batch_job.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin
from kaiwo.api.validate import validate
from kaiwo.engine.resource import JOB
from kaiwo.testing import job, plugins
from kaiwo.workload.model import Registry

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object

LOADED = plugins(kaiwo_batch_job.plugin, kaiwo_storage_s3_gcs_azure_git_hf.plugin)
GIT = {"repository": "https://git.example.com/r.git"}
ITEMS = [
    {**GIT, "targetPath": "a", "branch": "main"},
    {**GIT, "targetPath": "b", "branch": "main", "commit": "0123456789" * 4},
]
COMMIT = "spec.storage.data.download.git[1].commit"
WARNING = f"{COMMIT}: is ignored: the branch decides (remove branch to check out exactly this commit)"


def wanting(*items: Object) -> Object:
    """A job that wants git repositories."""
    data = {"storageSize": "10Gi", "download": {"git": list(items)}}
    return job(image="image:1", storage={"storageEnabled": True, "data": data})


def test_validation_names_the_field() -> None:
    """As ``kaiwo submit`` prints it; the object is valid all the same."""
    found = validate(wanting(*ITEMS), LOADED.fields())
    assert found.ok
    assert [str(warning) for warning in found.warnings] == [WARNING]
    assert validate(wanting(ITEMS[0]), LOADED.fields()).warnings == ()


def test_what_is_refused_is_not_warned_about_too() -> None:
    """A source is given items that it takes, and nothing else."""
    found = validate(wanting({**ITEMS[1], "targetPath": "../x"}), LOADED.fields())
    assert not found.ok
    assert found.warnings == ()


def test_the_operator_reports_it_once_the_workload_runs(world: World) -> None:
    """In the plan from the beginning, in the condition that other warnings are in."""
    world.registry = Registry.of(LOADED)
    world.obj = wanting(*ITEMS)
    assert world.plan().warnings == (WARNING,)
    world.settle()
    key = (JOB, "train-download")
    done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-02T03:05:00Z"}
    ended = {**world.facts.auxiliaries[key], "status": {"conditions": [done]}}
    world.set(auxiliaries={**world.facts.auxiliaries, key: ended})
    world.settle()
    assert WARNING in world.condition("SpecApplied")["message"]


def test_a_source_that_fails_to_warn_is_named(world: World) -> None:
    """A defect of a plugin is reported as one, and nothing crashes."""

    def broken(_: Any) -> Any:
        raise RuntimeError("oops")

    registry = Registry.of(LOADED)
    sources = tuple(replace(source, warnings=broken) for source in registry.sources)
    fields = [
        replace(field, warn=source.warn)
        for source in sources
        for field in LOADED.fields()
        if field.path == ("storage", *source.path)
    ]
    (warning,) = validate(wanting(*ITEMS), fields).warnings
    assert "spec.storage.data.download.git: was not checked" in str(warning)
    assert "oops" in str(warning)
    world.registry = replace(registry, sources=sources)
    world.obj = wanting(*ITEMS)
    world.settle()
    assert "oops" in world.status["message"]
    assert "git" in world.status["message"]


S3 = {"endpointUrl": "https://s3.example.com"}


def wanting_objects(glob: str) -> Object:
    """A job that wants the objects of a folder that match."""
    folders = [{"path": "a", "targetPath": "a"}, {"path": "b", "targetPath": "b", "glob": glob}]
    item = {**S3, "buckets": [{"name": "data", "folders": folders}]}
    data = {"storageSize": "10Gi", "download": {"s3": [item]}}
    return job(image="image:1", storage={"storageEnabled": True, "data": data})


def test_a_glob_of_another_program_is_warned_about_before_it_matches_nothing() -> None:
    """Shells and rclone know braces; here they stand for themselves, and the download fails."""
    found = validate(wanting_objects("*.{json,txt}"), LOADED.fields())
    (warning,) = map(str, found.warnings)
    assert warning.startswith("spec.storage.data.download.s3[0].buckets[0].folders[1].glob: braces stand")
    assert "name the folder once for each alternative" in warning
    assert validate(wanting_objects("*.json"), LOADED.fields()).warnings == ()


def test_a_glob_that_cannot_be_read_is_refused_before_anything_is_created() -> None:
    """It was the download Job that failed for it."""
    found = validate(wanting_objects("a[b"), LOADED.fields())
    (error,) = map(str, found.problems)
    assert error.startswith("spec.storage.data.download.s3[0].buckets[0].folders[1].glob: glob 'a[b' has an")


def test_patterns_in_the_place_of_file_names_of_the_hub_are_warned_about() -> None:
    """The Hub's own client takes patterns there."""
    repository = {"repoId": "org/model", "files": ["config.json", "*.safetensors"]}
    hub = {"storageSize": "10Gi", "preCacheRepos": [repository]}
    obj = job(image="image:1", storage={"storageEnabled": True, "huggingFace": hub})
    (warning,) = map(str, validate(obj, LOADED.fields()).warnings)
    assert warning.startswith("spec.storage.huggingFace.preCacheRepos[0].files[1]: is the name of one file")
