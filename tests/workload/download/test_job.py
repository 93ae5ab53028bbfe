"""The ConfigMap and the Job that download before a workload starts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import kaiwo_batch_job.plugin
import kaiwo_deployment.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_ray_job.plugin
import kaiwo_ray_service.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin
from kaiwo.api.download import DownloadConfig
from kaiwo.plugin.sources import SecretReference, secret_references
from kaiwo.testing import assert_golden, config, job, node, plugins, render, service
from kaiwo.workload.download.secret_mounts import secret_mounts, volume_name
from kaiwo.workload.errors import SpecError

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

GOLDEN = Path(__file__).parent / "golden"
LOADED = plugins(
    kaiwo_batch_job.plugin,
    kaiwo_deployment.plugin,
    kaiwo_gpu_amd.plugin,
    kaiwo_ray_job.plugin,
    kaiwo_ray_service.plugin,
    kaiwo_storage_s3_gcs_azure_git_hf.plugin,
)
NODES = (node("amd-1", gpus={"amd.com/gpu": 8}),)


def value(key: str, name: str = "s3.keys", **more: str) -> dict[str, str]:
    """A reference to a Secret."""
    return {"secretName": name, "secretKey": key, **more}


S3 = {
    "endpointUrl": "https://s3.example.com",
    "accessKeyId": value("id"),
    "secretKey": value("secret"),
    "buckets": [{"name": "models", "files": [{"path": "a.bin", "targetPath": "a.bin"}]}],
}
GIT = {
    "repository": "https://git.example.com/r.git",
    "token": value("token", "git", file="/run/git/token"),
    "targetPath": "src",
}


def storage(**sources: Any) -> dict[str, Any]:
    """A data volume with downloads."""
    return {"storageEnabled": True, "data": {"storageSize": "64Gi", "download": sources}}


def rendered(workload: Object, **how: Any) -> dict[tuple[str, str], Object]:
    """What would be created, by kind and name."""
    documents = yaml.safe_load_all(render(workload, LOADED, nodes=NODES, **how))
    return {(item["kind"], item["metadata"]["name"]): item for item in documents}


def download_pod(workload: Object, **how: Any) -> Object:
    """The specification of the download pod."""
    objects = rendered(workload, **how)
    name = f"{workload['metadata']['name']}-download"
    spec: Object = objects["Job", name]["spec"]["template"]["spec"]
    return spec


def test_everything_that_is_created_for_downloads() -> None:
    """Volumes, ConfigMap and Job of a workload with all that a download pod can have; reviewed as a file."""
    storage_section = {
        **storage(s3=[S3], git=[GIT]),
        "huggingFace": {"storageSize": "200Gi", "preCacheRepos": [{"repoId": "org/model"}]},
    }
    workload = job(
        labels={"team": "vision"},
        annotations={"note": "n"},
        user="jane",
        gpus=1,
        image="train:1",
        imagePullSecrets=[{"name": "pull"}],
        podTemplateSpecLabels={"cost": "7"},
        env=[{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}],
        storage=storage_section,
    )
    settings = config(nodes={"addTaintsToGpuNodes": True}, storage={"downloadImage": "downloader:1"})
    documents = render(workload, LOADED, nodes=NODES, config=settings).split("---\n")
    assert_golden("---\n".join(documents[:-1]), GOLDEN / "download.yaml")


def test_the_document_is_one_that_the_program_reads() -> None:
    """Items as written, the function of each source, the policy of the cluster, the places of the volumes."""
    section = storage(s3=[S3], git=[GIT])
    section["data"]["mountPath"] = "/data"
    settings = config(storage={"allowPrivateEndpoints": False, "ambientCredentials": True})
    text = rendered(job(storage=section), config=settings)["ConfigMap", "train-download"]["data"][
        "config.yaml"
    ]
    document = DownloadConfig.parse(yaml.safe_load(text))
    assert document.items == {"s3": [S3], "git": [GIT]}
    assert document.downloaders["git"] == "kaiwo_storage_s3_gcs_azure_git_hf.download.git:fetch"
    assert (document.data_mount_path, document.hf_mount_path) == ("/data", None)
    assert (document.policy.allow_private_endpoints, document.policy.ambient_credentials) == (False, True)


def test_the_pod_passes_the_restricted_standard() -> None:
    """No root, no privileges, no capabilities, no writable root, and no token of a service account."""
    pod = download_pod(job(storage=storage(git=[GIT])))
    assert pod["automountServiceAccountToken"] is False
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (security["runAsUser"], security["runAsGroup"], security["fsGroup"]) == (1000, 1000, 1000)
    assert security["fsGroupChangePolicy"] == "OnRootMismatch"
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert {"name": "tmp", "emptyDir": {}} in pod["volumes"]


@pytest.mark.parametrize(
    "workload",
    [
        job(storage=storage(git=[GIT]), gpus=1),
        job(storage=storage(git=[GIT]), gpus=1, ray=True),
        service(storage=storage(git=[GIT]), gpus=1),
        service(storage=storage(git=[GIT]), gpus=1, ray=True),
    ],
    ids=["job", "ray-job", "service", "ray-service"],
)
def test_the_download_takes_no_gpu_and_no_queue_and_goes_where_the_workload_may(workload: Object) -> None:
    """The same for all four backends: what the workload tolerates, none of its GPUs, no queue's label."""
    name = workload["metadata"]["name"]
    found = rendered(workload, config=config(nodes={"addTaintsToGpuNodes": True}))["Job", f"{name}-download"]
    pod = found["spec"]["template"]["spec"]
    assert pod["tolerations"] == [
        {"key": "kaiwo.silogen.ai/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "1Gi"},
    }
    assert not any("kueue" in label for label in found["metadata"]["labels"])
    assert found["metadata"]["labels"]["kaiwo.silogen.ai/type"] == "downloader"
    assert "suspend" not in found["spec"]


def test_image_and_size_are_the_administrators() -> None:
    """What KaiwoConfig says of download pods is what they get."""
    large = {"requests": {"cpu": "8"}, "limits": {"memory": "16Gi", "ephemeral-storage": "2Gi"}}
    settings = config(storage={"downloadImage": "mine:2", "downloadResources": large})
    [container] = download_pod(job(storage=storage(git=[GIT])), config=settings)["containers"]
    assert container["image"] == "mine:2"
    assert container["resources"] == large


@pytest.mark.parametrize(
    ("limits", "arguments", "deadline"),
    [
        (None, {"--max-bytes=4398046511104", "--max-files=1000000", "--timeout=86400"}, 5 * 86400),
        (
            {"maxSize": "500Gi", "maxFiles": 20, "timeout": "1h30m"},
            {"--max-bytes=536870912000", "--max-files=20", "--timeout=5400"},
            86400 + 4 * 5400,
        ),
        (
            {"timeout": "10m"},
            {"--max-bytes=4398046511104", "--max-files=1000000", "--timeout=600"},
            86400 + 2400,
        ),
        (
            {"timeout": "2562047h"},
            {"--max-bytes=4398046511104", "--max-files=1000000", "--timeout=9223369200"},
            100 * 365 * 86400,
        ),
    ],
)
def test_the_limits_of_downloads_are_the_administrators(
    limits: dict[str, Any] | None, arguments: set[str], deadline: int
) -> None:
    """As arguments, which nobody in the namespace can edit; the Job ends also where the program hangs.

    Its time fits into what Kubernetes counts in, also where the limit is as good as none.
    """
    settings = config(storage={"downloadLimits": limits} if limits else {})
    made = rendered(job(storage=storage(git=[GIT])), config=settings)["Job", "train-download"]["spec"]
    (container,) = made["template"]["spec"]["containers"]
    assert arguments <= set(container["args"])
    assert made["activeDeadlineSeconds"] == deadline


@pytest.mark.parametrize(
    ("resources", "limit"),
    [
        (None, "1Gi"),
        ({"limits": {"cpu": "8"}}, "1Gi"),
        ({"limits": {"ephemeral-storage": "20Gi"}}, "20Gi"),
        ({"requests": {"ephemeral-storage": "2Gi"}}, None),
    ],
)
def test_a_download_cannot_fill_its_node(resources: dict[str, Any] | None, limit: str | None) -> None:
    """The limit of ephemeral storage has a default, also beside other resources; a given request has none."""
    settings = config(storage={"downloadResources": resources} if resources else {})
    (container,) = download_pod(job(storage=storage(git=[GIT])), config=settings)["containers"]
    assert container["resources"].get("limits", {}).get("ephemeral-storage") == limit


def test_only_the_named_keys_are_mounted_and_each_once() -> None:
    """The same key in two items is one mount; other keys of the Secret are not to be seen."""
    pod = download_pod(job(storage=storage(s3=[S3, S3], git=[GIT])))
    secrets = [volume for volume in pod["volumes"] if "secret" in volume]
    assert [volume["secret"] for volume in secrets] == [
        {
            "secretName": "s3.keys",
            "items": [{"key": "id", "path": "id"}, {"key": "secret", "path": "secret"}],
        },
        {"secretName": "git", "items": [{"key": "token", "path": "token"}]},
    ]
    mounts = [
        mount
        for mount in pod["containers"][0]["volumeMounts"]
        if mount["name"].startswith(("secret-", "file-"))
    ]
    assert [(mount["mountPath"], mount.get("subPath"), mount["readOnly"]) for mount in mounts] == [
        ("/app/secrets/s3.keys", None, True),
        ("/run/git/token", "token", True),
    ]


def test_a_variable_of_the_workloads_own_volume_or_container_is_not_the_download_pods() -> None:
    """The API server refuses a file of a volume that a pod does not have, and the job never started."""
    variables = [
        {"name": "FILE", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
        {
            "name": "MEMORY",
            "valueFrom": {"resourceFieldRef": {"containerName": "main", "resource": "limits.memory"}},
        },
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]
    workload = job(storage=storage(s3=[S3]), image="x", env=variables)
    [download] = download_pod(workload)["containers"]
    assert [item["name"] for item in download["env"]] == ["HOME", "CPU"]
    [own] = rendered(workload)["Job", "train"]["spec"]["template"]["spec"]["containers"]
    assert {"FILE", "MEMORY", "CPU"} <= {item["name"] for item in own["env"]}


def test_the_users_variables_come_after_the_pods_own() -> None:
    """HF_HOME is the cache volume unless the user says otherwise; HOME is always the writable place."""
    section = {
        "storageEnabled": True,
        "huggingFace": {"storageSize": "1Gi", "preCacheRepos": [{"repoId": "a/b"}]},
    }
    [container] = download_pod(job(storage=section, env=[{"name": "X", "value": "1"}]))["containers"]
    assert container["env"] == [
        {"name": "HOME", "value": "/tmp"},
        {"name": "HF_HOME", "value": "/hf_cache"},
        {"name": "X", "value": "1"},
    ]
    own = [{"name": "HOME", "value": "/root"}, {"name": "HF_HOME", "value": "/hf_cache/x"}]
    [container] = download_pod(job(storage=section, env=own))["containers"]
    assert [item["value"] for item in container["env"]] == ["/tmp", "/hf_cache/x"]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("/config/config.yaml", "its configuration"),
        ("/workload/token", "volume data"),
        ("/app/secrets/s3.keys/token", "the keys of Secret s3.keys"),
        ("/run/../config/x", "not an absolute path"),
        ("/run/", "not an absolute path"),
    ],
)
def test_a_file_where_something_else_is_mounted_is_refused(file: str, why: str) -> None:
    """The item is named, and what is there."""
    section = storage(s3=[S3], git=[{**GIT, "token": value("token", "git", file=file)}])
    with pytest.raises(
        AssertionError, match=r"InvalidSpec.*spec\.storage\.data\.download\.git\[0\]"
    ) as caught:
        render(job(storage=section), LOADED)
    assert why in str(caught.value)


def test_two_values_cannot_have_one_file() -> None:
    """One of them would never be seen."""
    pairs = [("a", SecretReference("s", "x", "/run/x")), ("b", SecretReference("s", "y", "/run/x"))]
    with pytest.raises(SpecError, match="b: file /run/x is where key x of Secret s goes"):
        secret_mounts(pairs, {})


@pytest.mark.parametrize("place", ["/config", "/tmp", "/app/secrets/x", "/config/deep", "/"])
def test_a_volume_where_the_download_pod_has_its_own_is_refused(place: str) -> None:
    """Before anything is created, with the field."""
    section = storage(git=[GIT])
    section["data"]["mountPath"] = place
    with pytest.raises(AssertionError, match=r"InvalidSpec: spec\.storage\.data\.mountPath: is"):
        render(job(storage=section), LOADED)


NAMES = st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")


@given(st.lists(NAMES, min_size=2, max_size=2, unique=True))
def test_every_secret_name_gives_a_legal_volume_name_of_its_own(names: list[str]) -> None:
    """A DNS label of at most 63 characters, whatever dots and length the Secret's name has."""
    first, second = (volume_name(name) for name in names)
    assert first != second
    for found in (first, second):
        assert len(found) <= 63
        assert found.strip("-") == found
        assert found.replace("-", "").isalnum()


def test_dots_and_dashes_do_not_fall_together() -> None:
    """``a.b`` and ``a-b`` are two Secrets."""
    assert volume_name("a-b") == "secret-a-b"
    assert volume_name("a.b") != volume_name("a-b")


def test_references_are_found_wherever_a_source_puts_them() -> None:
    """A source of another package needs no code of its own for its Secrets to be mounted."""
    item = {"auth": [{"basic": value("user", "web")}, {"basic": value("user", "web")}], "url": "x"}
    assert secret_references(item) == (SecretReference("web", "user"),)


def test_long_names_get_short_derived_ones() -> None:
    """ConfigMap and Job have a legal name that is not another workload's."""
    objects = rendered(job("a" * 63, storage=storage(git=[GIT])))
    names = {name for kind, name in objects if name.endswith("-download")}
    assert len(names) == 1
    assert len(names.pop()) <= 63


def test_an_item_that_its_source_does_not_take_is_named() -> None:
    """The API server's schema may be older than the plugin; then the operator says what is wrong."""
    section = storage(s3=[S3, {**S3, "endpointUrl": "ftp://x"}])
    with pytest.raises(
        AssertionError, match=r"InvalidSpec: spec\.storage\.data\.download\.s3\[1\]\.endpointUrl"
    ):
        render(job(storage=section), LOADED)


class Mirror(BaseModel):
    """Settings of a plugin with a download source."""

    base_url: str = Field("https://mirror.example", alias="baseUrl")


def test_settings_of_a_source_are_given_to_its_downloader() -> None:
    """Under the key of its items, in JSON names; a source without settings has none."""
    loaded = tuple(
        dataclasses.replace(source, settings=Mirror) if source.name == "s3" else source
        for source in LOADED.loaded[-1].sources
    )
    changed = dataclasses.replace(LOADED.loaded[-1], sources=loaded)
    mirrored = dataclasses.replace(LOADED, loaded=(*LOADED.loaded[:-1], changed))
    section = {changed.name: {"baseUrl": "https://own.example"}}
    workload = job(storage=storage(s3=[S3], git=[GIT]))

    def document(**how: Any) -> DownloadConfig:
        documents = yaml.safe_load_all(render(workload, mirrored, nodes=NODES, **how))
        (text,) = (item["data"]["config.yaml"] for item in documents if item["kind"] == "ConfigMap")
        return DownloadConfig.parse(yaml.safe_load(text))

    assert document().settings == {"s3": {"baseUrl": "https://mirror.example"}}
    assert document(config=config(plugins=section)).settings == {"s3": {"baseUrl": "https://own.example"}}
