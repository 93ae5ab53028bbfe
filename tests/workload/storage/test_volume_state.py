"""Volumes before the start: what they wait for, and what of them may change."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import kaiwo_batch_job.plugin
import kaiwo_deployment.plugin
import kaiwo_ray_job.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin
from kaiwo.engine.resource import PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.observation import Finding
from kaiwo.testing import job, plugins, service
from kaiwo.testing.builders import NOW
from kaiwo.workload.model import Registry
from kaiwo.workload.storage.classes import StorageClass

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object

REGISTRY = Registry.of(plugins(kaiwo_batch_job.plugin, kaiwo_storage_s3_gcs_azure_git_hf.plugin))
GIT = {"repository": "https://git.example.com/r.git", "targetPath": "src"}


def storage(**more: Any) -> Object:
    """A data volume into which a git repository is cloned."""
    return {"storageEnabled": True, "data": {"storageSize": "10Gi", "download": {"git": [GIT]}}, **more}


@pytest.fixture
def fetching(world: World) -> World:
    """A job that waits for its download, which was just created."""
    world.registry = REGISTRY
    world.obj = job(image="image:1", storage=storage())
    world.settle()
    return world


def reported(world: World) -> tuple[str, str]:
    """Status and reason."""
    return world.status["status"], world.status["reason"]


def claim(world: World, **parts: Any) -> None:
    """Change the live claim."""
    key = (PERSISTENT_VOLUME_CLAIM, "train-data")
    live = {**world.facts.auxiliaries[key], **parts}
    world.set(auxiliaries={**world.facts.auxiliaries, key: live})


def test_a_volume_that_stays_pending_is_what_the_download_waits_for(fetching: World) -> None:
    """With the class, that it does not exist, and what the provisioner says."""
    fetching.set(storage_classes={"slow": StorageClass("slow")})
    claim(fetching, status={"phase": "Pending"}, spec={"storageClassName": "fast"})
    fetching.at(NOW + timedelta(seconds=5))
    fetching.settle()
    assert reported(fetching) == ("PENDING", "VolumePending")
    assert "no StorageClass 'fast' exists; existing: slow" in fetching.status["message"]
    assert fetching.plan().needs_events == fetching.facts.auxiliaries[PERSISTENT_VOLUME_CLAIM, "train-data"]
    fetching.set(
        warning_event=Finding("ProvisioningFailed", "the pool is full"), warning_event_uid="uid-of-train-data"
    )
    fetching.settle()
    assert fetching.condition("StorageReady")["status"] == "False"
    assert "the pool is full" in fetching.condition("StorageReady")["message"]


def test_without_any_class_the_message_says_what_to_set(fetching: World) -> None:
    """No class is requested, and none is the default."""
    fetching.set(storage_classes={"slow": StorageClass("slow")})
    claim(fetching, status={"phase": "Pending"}, spec={})
    fetching.settle()
    assert reported(fetching) == ("PENDING", "Downloading")
    fetching.at(NOW + timedelta(seconds=5))
    fetching.settle()
    assert "storageClassName" in fetching.status["message"]


def test_a_class_that_waits_for_the_first_pod_is_no_error(fetching: World) -> None:
    """Nothing has gone wrong, and no problem is reported."""
    fetching.set(storage_classes={"local": StorageClass("local", waits=True)})
    claim(fetching, status={"phase": "Pending"}, spec={"storageClassName": "local"})
    fetching.at(NOW + timedelta(seconds=60))
    plan = fetching.settle()
    assert reported(fetching) == ("PENDING", "Downloading")
    ready = fetching.condition("StorageReady")
    assert (ready["status"], ready["reason"]) == ("Unknown", "WaitForFirstConsumer")
    assert plan.needs_events is None


def test_a_volume_grows_before_the_start(fetching: World) -> None:
    """Where its class lets it; where not, the message says so and nothing is sent."""
    bigger = storage()
    bigger["data"] = {**bigger["data"], "storageSize": "20Gi"}
    claim(fetching, spec={**fetching.created(PERSISTENT_VOLUME_CLAIM)["spec"], "storageClassName": "fixed"})
    fetching.set(storage_classes={"fixed": StorageClass("fixed")})
    fetching.edit(storage=bigger)
    writes = len(fetching.writes)
    fetching.settle()
    assert reported(fetching) == ("ERROR", "VolumeNotExpandable")
    assert "allowVolumeExpansion" in fetching.status["message"]
    assert len(fetching.writes) == writes
    fetching.set(storage_classes={"fixed": StorageClass("fixed", expands=True)})
    fetching.settle()
    [write] = fetching.writes[writes:]
    assert write.obj["spec"]["resources"]["requests"]["storage"] == "20Gi"


@pytest.mark.parametrize(
    ("more", "field"),
    [({"storageClassName": "other"}, "storageClassName"), ({"accessMode": "ReadWriteOnce"}, "accessMode")],
)
def test_what_a_claim_cannot_become_is_refused_by_name(fetching: World, more: Object, field: str) -> None:
    """The claim may hold data: it is never deleted for a change."""
    fetching.edit(storage=storage(**more))
    fetching.settle()
    assert reported(fetching) == ("ERROR", "VolumeImmutable")
    assert f"spec.storage.{field}" in fetching.status["message"]


def test_a_smaller_size_than_the_volume_has_is_only_warned_of(fetching: World) -> None:
    """A volume cannot shrink, and a larger one does no harm."""
    smaller = storage()
    smaller["data"] = {**smaller["data"], "storageSize": "1Gi"}
    fetching.edit(storage=smaller)
    assert any("cannot shrink" in warning for warning in fetching.plan().warnings)


def test_a_running_jobs_volume_grows_only_where_its_class_allows(world: World) -> None:
    """Where it does not, nothing is sent, the run continues, and two conditions have the cause."""
    world.obj = job(image="image:1", storage={"storageEnabled": True, "data": {"storageSize": "10Gi"}})
    world.settle()
    claim(world, spec={**world.created(PERSISTENT_VOLUME_CLAIM)["spec"], "storageClassName": "fixed"})
    world.set(storage_classes={"fixed": StorageClass("fixed")})
    world.edit(storage={"storageEnabled": True, "data": {"storageSize": "20Gi"}})
    writes = len(world.writes)
    world.settle()
    assert len(world.writes) == writes
    assert reported(world)[0] == "STARTING"
    for kind in ("StorageReady", "SpecApplied"):
        found = world.condition(kind)
        assert (found["status"], found["reason"]) == ("False", "VolumeNotExpandable")
    world.edit(storage={"storageEnabled": True, "data": {"storageSize": "10240Mi"}})
    world.settle()
    assert world.condition("SpecApplied")["status"] == "True"


def test_a_growing_volume_says_so(world: World) -> None:
    """Bound, and not yet as large as it will be."""
    world.obj = job(image="image:1", storage={"storageEnabled": True, "data": {"storageSize": "10Gi"}})
    world.settle()
    claim(world, status={"phase": "Bound", "capacity": {"storage": "5Gi"}})
    world.settle()
    ready = world.condition("StorageReady")
    assert (ready["status"], ready["reason"]) == ("True", "VolumeExpanding")
    assert "from 5Gi to 10Gi" in ready["message"]


@pytest.mark.parametrize(
    ("mode", "replicas", "who"),
    [
        ("ReadWriteOnce", 2, "only pods on one node"),
        ("ReadWriteOncePod", 2, "only one pod"),
        ("ReadWriteOnce", 1, ""),
        ("ReadWriteMany", 2, ""),
    ],
)
def test_a_volume_that_the_pods_cannot_share_is_warned_of(
    world: World, mode: str, replicas: int, who: str
) -> None:
    """Nothing fails: the pods of other nodes wait for ever."""
    world.registry = Registry.of(plugins(kaiwo_deployment.plugin))
    volume = {"storageEnabled": True, "accessMode": mode, "data": {"storageSize": "1Gi"}}
    world.obj = service(image="image:1", replicas=replicas, storage=volume)
    found = [text for text in world.plan().warnings if "spec.storage.accessMode" in text]
    assert len(found) == bool(who)
    assert not who or (who in found[0] and "write ReadWriteMany" in found[0])
    world.settle()
    messages = " ".join(item["message"] for item in world.status["conditions"])
    assert ("share the volume" in messages) == bool(who)


@pytest.mark.parametrize("spec", [{"ray": True}, {"rayJob": {}}])
def test_the_head_of_a_ray_cluster_shares_the_volume_too(world: World, spec: dict[str, Any]) -> None:
    """With ReadWriteOncePod the only worker would wait for ever: the head has the volume."""
    world.registry = Registry.of(plugins(kaiwo_ray_job.plugin))
    volume = {"storageEnabled": True, "accessMode": "ReadWriteOncePod", "data": {"storageSize": "1Gi"}}
    world.obj = job(image="image:1", entrypoint="python a.py", storage=volume, **spec)
    (found,) = [text for text in world.plan().warnings if "spec.storage.accessMode" in text]
    assert "2 pods share the volume" in found
