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
