"""Defaults of a namespace that change while a workload waits for its download, or runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kaiwo_batch_job.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin
from kaiwo.engine.resource import CONFIG_MAP, JOB
from kaiwo.plugin.namespace_defaults import DefaultsProblem, DefaultValues, ItemCredentials, SecretVariable
from kaiwo.plugin.sources import SecretReference
from kaiwo.testing import job, plugins
from kaiwo.workload.applied_record import decode
from kaiwo.workload.model import Create, Delete, Registry
from kaiwo.workload.namespace_defaults import combined

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object

REGISTRY = Registry.of(plugins(kaiwo_batch_job.plugin, kaiwo_storage_s3_gcs_azure_git_hf.plugin))
NAME = "train-download"
GCS = ("data", "download", "gcs")
ITEM = {"buckets": [{"name": "b", "folders": [{"path": ".", "targetPath": "m"}]}]}


def values(secret: str, **more: Any) -> DefaultValues:
    """Defaults that name one Secret for everything."""
    return DefaultValues(
        variables=(SecretVariable("HF_TOKEN", secret, "token", "data"),),
        image_pull_secrets=(secret,),
        credentials=(ItemCredentials(GCS, {"applicationCredentials": SecretReference(secret, "json")}),),
        **more,
    )


@pytest.fixture
def fetching(world: World) -> World:
    """A job whose download takes credentials of the namespace."""
    world.registry = REGISTRY
    world.set(namespace_defaults=values("one"))
    storage = {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": {"gcs": [ITEM]}}}
    world.obj = job(image="image:1", storage=storage)
    world.settle()
    return world


def live(world: World, kind: Any) -> Object:
    """The live download Job or its ConfigMap."""
    found: Object = world.facts.auxiliaries[kind, NAME]
    return found


def test_a_download_that_has_not_begun_follows(fetching: World) -> None:
    """Its Secret may not exist, and the new defaults name another: the Job is replaced, then both are new."""
    assert "one" in live(fetching, CONFIG_MAP)["data"]["config.yaml"]
    fetching.writes.clear()
    fetching.set(namespace_defaults=values("two"))
    fetching.settle()
    assert any(isinstance(write, Delete) and write.resource == JOB for write in fetching.writes)
    rest = {key: obj for key, obj in fetching.facts.auxiliaries.items() if key != (JOB, NAME)}
    fetching.set(auxiliaries=rest)
    fetching.settle()
    assert '"two"' in live(fetching, CONFIG_MAP)["data"]["config.yaml"]
    spec = live(fetching, JOB)["spec"]["template"]["spec"]
    assert spec["imagePullSecrets"] == [{"name": "two"}]
    assert [v["secret"]["secretName"] for v in spec["volumes"] if "secret" in v] == ["two"]


def test_a_download_that_has_begun_keeps_what_it_has(fetching: World) -> None:
    """Also the ConfigMap, which a further try reads: its Secrets are those that the Job mounts."""
    status = {"failed": 1, "active": 1}
    changed = {**live(fetching, JOB), "status": status}
    fetching.set(auxiliaries={**fetching.facts.auxiliaries, (JOB, NAME): changed})
    fetching.settle()
    fetching.writes.clear()
    for defaults in (values("two"), DefaultValues()):
        fetching.set(namespace_defaults=defaults)
        fetching.settle()
        assert fetching.writes == []
    assert '"one"' in live(fetching, CONFIG_MAP)["data"]["config.yaml"]


def test_defaults_that_it_does_not_take_replace_no_download(fetching: World) -> None:
    """Keys for another store, a variable for another volume, a Secret that it names itself."""
    fetching.writes.clear()
    other = ItemCredentials(("data", "download", "s3"), {"accessKeyId": SecretReference("x", "y")})
    before = values("one")
    after = DefaultValues(
        (*before.variables, SecretVariable("OTHER", "x", "y", "huggingFace")),
        before.image_pull_secrets,
        (*before.credentials, other),
    )
    fetching.set(namespace_defaults=after)
    fetching.settle()
    assert fetching.writes == []


def test_what_runs_keeps_the_defaults_of_its_creation(world: World) -> None:
    """They are in its record; new ones change nothing, and a lost child is made with the new."""
    world.registry = REGISTRY
    world.set(namespace_defaults=DefaultValues(image_pull_secrets=("one",)))
    world.obj = job(image="image:1")
    world.settle()
    assert world.facts.live is not None
    record = decode(world.facts.live)
    assert record is not None
    assert record.resolved.image_pull_secrets == ("one",)
    world.writes.clear()
    world.set(namespace_defaults=DefaultValues(image_pull_secrets=("two",)))
    world.settle()
    assert world.writes == []


def test_variables_are_read_back_from_the_record(world: World) -> None:
    """As they were written, so that an update of a service renders the same pods."""
    world.registry = REGISTRY
    variable = SecretVariable("HF_TOKEN", "hub", "token", "huggingFace", ("HF_TOKEN_PATH",))
    world.set(namespace_defaults=DefaultValues(variables=(variable,)))
    world.obj = job(image="image:1")
    world.settle()
    record = decode(world.facts.live or {})
    assert record is not None
    assert record.resolved.variables == (variable,)


def test_a_problem_of_all_stops_everything_that_is_new_and_heals(world: World) -> None:
    """A part that cannot be read may be what the pods need."""
    world.registry = REGISTRY
    world.set(namespace_defaults=DefaultValues(problems=(DefaultsProblem("TeamDefaults a: spec is a list"),)))
    world.obj = job(image="image:1")
    world.settle()
    assert world.writes == []
    assert (world.status["status"], world.status["reason"]) == ("ERROR", "InvalidNamespaceDefaults")
    world.set(namespace_defaults=DefaultValues())
    world.settle()
    assert [write.resource for write in world.writes if isinstance(write, Create)] == [JOB]


def test_of_two_plugins_the_first_one_counts() -> None:
    """For a variable of the same name; pull secrets of both are added, each once."""
    other = DefaultValues((SecretVariable("HF_TOKEN", "b", "t"), SecretVariable("X", "b", "x")), ("one", "b"))
    found = combined([values("one"), other])
    assert [(v.name, v.secret) for v in found.variables] == [("HF_TOKEN", "one"), ("X", "b")]
    assert found.image_pull_secrets == ("one", "b")
