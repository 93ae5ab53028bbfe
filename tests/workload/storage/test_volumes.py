from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.workload import Workload
from kaiwo.engine.resource import JOB, PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.facts import Allocation
from kaiwo.plugin.rendering import RenderInput, Resolved
from kaiwo.testing import job
from kaiwo.workload.errors import SpecError
from kaiwo.workload.pods.origins import Origins
from kaiwo.workload.pods.template import PodRole, pod_template

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object

ROLE = PodRole(path="spec.job.spec.template")
RESOLVED = Resolved(
    allocation=Allocation(),
    default_image="default:1",
    scheduler_name="kaiwo-scheduler",
    mount_paths={"data": "/workload", "hf": "/hf_cache"},
    vendor_keys=("amd.com/gpu", "nvidia.com/gpu"),
)
GPUS = Allocation("amd", "amd.com/gpu", replicas=1, gpus_per_replica=4)


def template(
    given: Any = None,
    *,
    resolved: Resolved = RESOLVED,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """The pod template of a job with that spec and that embedded template."""
    inp = RenderInput(Workload.from_object(job(labels=labels, **spec)), resolved)
    return pod_template(inp, given, ROLE, Origins("spec.job."))[0]


def embedded(**pod: Any) -> Object:
    """An embedded template with one named container."""
    return {"spec": {"containers": [{"name": "mine", "image": "mine:1"}], **pod}}


def test_repeated_mounts_and_ports_are_merged_and_the_last_wins() -> None:
    """Repetition that server-side apply would answer with an error 500 never leaves the house."""
    given = embedded(volumes=[{"name": "v", "emptyDir": {}}])
    given["spec"]["containers"][0] |= {
        "volumeMounts": [{"name": "v", "mountPath": "/workload"}, {"name": "v", "mountPath": "/v"}],
        "ports": [
            {"containerPort": 80},
            {"containerPort": 80, "protocol": "TCP", "name": "http"},
            {"containerPort": 80, "protocol": "UDP"},
        ],
    }
    storage = {"storageEnabled": True, "data": {"storageSize": "1Gi"}}
    container = template(given, storage=storage)["spec"]["containers"][0]
    assert container["volumeMounts"] == [
        {"name": "data", "mountPath": "/workload"},
        {"name": "v", "mountPath": "/v"},
    ]
    assert [port.get("protocol") for port in container["ports"]] == ["TCP", "UDP"]


def test_storage_is_mounted_everywhere() -> None:
    """Every container sees the volumes, init containers too, where the user or the configuration says."""
    given = {"spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}}
    storage = {
        "storageEnabled": True,
        "data": {"storageSize": "1Gi", "mountPath": "/d"},
        "huggingFace": {"storageSize": "1Gi"},
    }
    pod = template(given, storage=storage)["spec"]
    for container in pod["containers"] + pod["initContainers"]:
        assert container["volumeMounts"] == [
            {"name": "data", "mountPath": "/d"},
            {"name": "hf", "mountPath": "/hf_cache"},
        ]
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]] == [
        "train-data",
        "train-hf",
    ]


def secret(**fields: Any) -> Object:
    """A secret volume."""
    return {"name": "s", "secretName": "credentials", "mountPath": "/secrets", **fields}


@pytest.mark.parametrize(
    ("item", "source", "mount"),
    [
        (secret(), {}, {"mountPath": "/secrets"}),
        (secret(key="token"), {"items": [{"key": "token", "path": "token"}]}, {"mountPath": "/secrets"}),
        (
            secret(key="token", subPath="t.txt"),
            {"items": [{"key": "token", "path": "t.txt"}]},
            {"mountPath": "/secrets"},
        ),
        (secret(subPath="a"), {}, {"mountPath": "/secrets", "subPath": "a"}),
    ],
)
def test_secrets_are_mounted(item: Object, source: Object, mount: Object) -> None:
    """A whole secret, one key of it under its own or another name, or one file."""
    pod = template(embedded(), secretVolumes=[item])["spec"]
    assert pod["volumes"] == [{"name": "s", "secret": {"secretName": "credentials", **source}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "s", "readOnly": True, **mount}]


def test_keys_of_several_secrets_share_a_directory() -> None:
    """Two keys in one directory do not hide each other."""
    items = [secret(key="a"), secret(key="b", name="t", secretName="other")]
    pod = template(embedded(), secretVolumes=items)["spec"]
    assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == [
        "/secrets/a",
        "/secrets/b",
    ]


STORAGE = {"storageEnabled": True, "data": {"storageSize": "1Gi"}}


def test_a_key_in_the_data_volume_does_not_hide_the_data() -> None:
    """A file is put into the directory where a volume is mounted; both are there."""
    pod = template(storage=STORAGE, secretVolumes=[secret(key="token", mountPath="/workload/")])["spec"]
    assert pod["containers"][0]["volumeMounts"][1:] == [
        {"name": "data", "mountPath": "/workload"},
        {"name": "s", "mountPath": "/workload/token", "subPath": "token", "readOnly": True},
    ]


@pytest.mark.parametrize(
    ("given", "spec", "path"),
    [
        (
            embedded(volumes=[{"name": "s", "emptyDir": {}}]),
            {"secretVolumes": [secret()]},
            "spec.secretVolumes[0]",
        ),
        (None, {"secretVolumes": [secret(name="dshm")]}, "spec.secretVolumes[0]"),
        (None, {"secretVolumes": [secret(), secret(mountPath="/x")]}, "spec.secretVolumes[1]"),
        (
            None,
            {
                "secretVolumes": [secret(name="data")],
                "storage": {"storageEnabled": True, "data": {"storageSize": "1Gi"}},
            },
            "spec.secretVolumes[0]",
        ),
        (
            None,
            {
                "storage": {
                    "storageEnabled": True,
                    "data": {"storageSize": "1Gi", "mountPath": "/x"},
                    "huggingFace": {"storageSize": "1Gi", "mountPath": "/x/"},
                }
            },
            "spec.storage.huggingFace.mountPath",
        ),
        (
            None,
            {"secretVolumes": [secret(mountPath="/workload")], "storage": STORAGE},
            "spec.secretVolumes[0].mountPath",
        ),
        (
            None,
            {"secretVolumes": [secret(), secret(name="t", secretName="other", mountPath="/secrets/")]},
            "spec.secretVolumes[1].mountPath",
        ),
        (
            None,
            {"secretVolumes": [secret(key="a"), secret(name="t", key="b", subPath="a")]},
            "spec.secretVolumes[1].mountPath",
        ),
    ],
)
def test_volumes_that_clash_are_refused_by_name(given: Any, spec: dict[str, Any], path: str) -> None:
    """Two volumes of one name, or at one place, are the user's to sort out."""
    with pytest.raises(SpecError) as caught:
        template(given, **spec)
    assert caught.value.path == path


def test_volumes_of_a_job_are_claims_it_owns(world: World) -> None:
    """The claims are created before the Job, owned by the workload, with the requested class and mode."""
    world.obj["spec"]["storage"] = {
        "storageEnabled": True,
        "storageClassName": "fast",
        "accessMode": "ReadWriteOnce",
        "data": {"storageSize": "10Gi"},
    }
    plan = world.settle()
    assert [write.resource for write in world.writes] == [PERSISTENT_VOLUME_CLAIM, JOB]
    claim = world.created(PERSISTENT_VOLUME_CLAIM)
    assert claim["metadata"]["name"] == "train-data"
    assert claim["metadata"]["ownerReferences"][0]["controller"] is True
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
        "storageClassName": "fast",
    }
    assert plan.statuses
    assert world.condition("StorageReady")["status"] == "True"
