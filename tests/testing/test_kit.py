from __future__ import annotations

import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pydantic import BaseModel, Field

import kaiwo_batch_job.plugin
from kaiwo import testing
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.api.workload import Workload
from kaiwo.plugin import hookimpl
from kaiwo.plugin.commands import Command
from kaiwo.plugin.sources import DownloadSource

if TYPE_CHECKING:
    from pathlib import Path


def module(name: str, **members: Any) -> types.ModuleType:
    """A plugin module made by hand."""
    made = types.ModuleType(name)
    made.__dict__.update({"KAIWO_API": 1} | members)
    return made


@hookimpl
def kaiwo_commands() -> list[Command]:
    """One command."""
    return [Command(name="acme", load="shlex:split", help="Acme.")]


def test_a_test_sees_only_the_plugins_it_names() -> None:
    """What else is installed on a machine cannot change the outcome of a plugin's tests."""
    loaded = testing.plugins(module("kaiwo_acme.plugin", kaiwo_commands=kaiwo_commands))
    assert [(plugin.name, plugin.distribution) for plugin in loaded.loaded] == [("acme", "kaiwo-acme")]
    assert testing.plugins().loaded == ()


def test_a_plugin_that_would_be_broken_fails_the_test_with_the_reason() -> None:
    """A plugin that does not load fails without a check of its state."""
    with pytest.raises(AssertionError, match="acme: kaiwo_acme states no API version"):
        testing.plugins(module("kaiwo_acme", KAIWO_API=None))


def test_two_plugins_that_conflict_fail_the_test() -> None:
    """The kit knows the same rules as the real loader."""
    first = module("kaiwo_one", kaiwo_commands=kaiwo_commands)
    second = module("kaiwo_two", kaiwo_commands=kaiwo_commands)
    with pytest.raises(AssertionError, match="two: command acme is also declared by plugin one of kaiwo-one"):
        testing.plugins(first, second)


def test_builders_make_what_kaiwo_reads() -> None:
    """Built objects are taken by the same code that reads real ones."""
    job = Workload.from_object(testing.job("a", gpus=2, job={"spec": {}}, gpuVendor="acme"))
    assert (job.kind, job.name, job.spec.gpus, set(job.blocks)) == ("KaiwoJob", "a", 2, {"job"})
    service = Workload.from_object(testing.service(labels={"team": "x"}, annotations={"note": "y"}))
    assert (service.kind, dict(service.labels), dict(service.annotations)) == (
        "KaiwoService",
        {"team": "x"},
        {"note": "y"},
    )
    config = testing.config(storage={"defaultDataMountPath": "/data"})
    assert ResolvedConfig.from_object(config).default_data_mount_path == "/data"


def test_golden_files_are_compared_and_written_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing or different file fails with the difference; KAIWO_GOLDEN=write accepts what is there now."""
    monkeypatch.delenv("KAIWO_GOLDEN", raising=False)
    path = tmp_path / "golden" / "a.yaml"
    with pytest.raises(AssertionError, match=r"does not exist; .* KAIWO_GOLDEN=write"):
        testing.assert_golden("a: 1\n", path)
    monkeypatch.setenv("KAIWO_GOLDEN", "write")
    testing.assert_golden("a: 1\n", path)
    monkeypatch.delenv("KAIWO_GOLDEN")
    testing.assert_golden("a: 1\n", path)
    with pytest.raises(AssertionError, match=r"-a: 1\n\+a: 2"):
        testing.assert_golden("a: 2\n", path)


class Item(BaseModel, extra="forbid"):
    """An item as it should be."""

    reference: str = Field(min_length=1, description="What to fetch.")


class Undescribed(BaseModel, extra="forbid"):
    """An item whose field kubectl explain cannot explain."""

    reference: str


class Lenient(BaseModel):
    """An item that swallows misspelt fields."""

    reference: str = Field(description="What to fetch.")


def source(item: type[BaseModel], downloader: str | None = None) -> DownloadSource:
    """A source of such items."""
    path = ("data", "download", "oci")
    return DownloadSource(name="oci", path=path, item=item, description="Images.", downloader=downloader)


def test_a_good_source_passes() -> None:
    """The contract requires nothing that cannot be done."""
    testing.assert_source_contract(source(Item), valid=[{"reference": "a"}], invalid=[{}, {"reference": ""}])


@pytest.mark.parametrize(
    ("made", "valid", "invalid", "message"),
    [
        (source(Undescribed), {"reference": "a"}, {}, "oci.reference has no description"),
        (source(Lenient), {"reference": "a"}, {}, "should be refused and is accepted"),
        (source(Item), {"reference": "a"}, {"reference": "b"}, "should be refused and is accepted"),
        (source(Item, "os:name"), {"reference": "a"}, {}, "os:name is no function"),
    ],
)
def test_a_bad_source_fails_with_what_is_wrong(
    made: DownloadSource, valid: dict[str, Any], invalid: dict[str, Any], message: str
) -> None:
    """An author learns from the kit what users would meet later."""
    with pytest.raises(AssertionError, match=message):
        testing.assert_source_contract(made, valid=[valid], invalid=[invalid])


def test_the_kit_imports_only_what_is_used() -> None:
    """A test of a vendor need not pay for the models of workloads, nor install pytest."""
    script = "import sys, kaiwo.testing; print(sorted({'pydantic', 'pytest', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_everything_the_kit_offers_is_there() -> None:
    """Every documented name can be imported; a wrong one is an ordinary error."""
    for name in testing.__all__:
        assert callable(getattr(testing, name))
        assert f"`{name}`" in (testing.__doc__ or "")
    with pytest.raises(AttributeError, match="no attribute 'surely_not'"):
        testing.surely_not  # noqa: B018 - looking it up is the test


def test_rendering_shows_what_would_be_created_without_the_operators_bookkeeping() -> None:
    """A golden file holds what a user would see, and is the same every time."""
    loaded = testing.plugins(kaiwo_batch_job.plugin)
    text = testing.render(testing.job(image="registry.example/a:1", entrypoint="echo hi\necho ho"), loaded)
    (made,) = yaml.safe_load_all(text)
    assert (made["kind"], made["metadata"]["name"]) == ("Job", "train")
    assert "kaiwo.silogen.ai/resolved" not in text
    assert text == testing.render(
        testing.job(image="registry.example/a:1", entrypoint="echo hi\necho ho"), loaded
    )


def test_rendering_what_cannot_run_fails_with_the_reason() -> None:
    """A test that renders a workload nobody serves says so instead of showing nothing."""
    with pytest.raises(AssertionError, match="nothing would be created: BackendNotLoaded: "):
        testing.render(testing.job(), testing.plugins())


def test_the_configuration_counts_when_rendering() -> None:
    """A plugin's test can show what an administrator's setting changes."""
    loaded = testing.plugins(kaiwo_batch_job.plugin)
    config = testing.config(scheduling={"kubeSchedulerName": "packer"})
    (made,) = yaml.safe_load_all(testing.render(testing.job(), loaded, config=config))
    assert made["spec"]["template"]["spec"]["schedulerName"] == "packer"
