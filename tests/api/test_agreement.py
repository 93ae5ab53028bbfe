"""The models and the API server take and refuse the same objects.

One table serves both: without a cluster it is checked against validation, with one against the API server,
which judges by the CRDs of the repository.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api import spec_rules
from kaiwo.api.errors import InvalidWorkload
from kaiwo.api.name_rules import ON_RAY, PLAIN
from kaiwo.api.validate import Validator
from kaiwo.testing import render

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo.plugin.registry import Plugins
    from kaiwo_sandbox.sandbox import Sandbox

_PLURALS = {"KaiwoJob": "kaiwojobs", "KaiwoService": "kaiwoservices", "KaiwoConfig": "kaiwoconfigs"}
_SERVED_WITHIN_SECONDS = 30


def job(name: str = "agreement", **spec: Any) -> dict[str, Any]:
    """A KaiwoJob with that spec."""
    return {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def service(name: str = "agreement", **spec: Any) -> dict[str, Any]:
    """A KaiwoService with that spec."""
    return {**job(name, **spec), "kind": "KaiwoService"}


def config(**spec: Any) -> dict[str, Any]:
    """A KaiwoConfig with that spec."""
    return {**job(**spec), "apiVersion": "config.kaiwo.silogen.ai/v1alpha1", "kind": "KaiwoConfig"}


def storage(**parts: Any) -> dict[str, Any]:
    """A KaiwoJob with storage switched on."""
    return job(storage={"storageEnabled": True, **parts})


def download(**sources: Any) -> dict[str, Any]:
    """A KaiwoJob that downloads into a data volume."""
    return storage(data={"storageSize": "1Gi", "download": sources})


def files(count: int) -> list[dict[str, str]]:
    """Files of a bucket, listed one by one."""
    return [{"path": f"p{index}", "targetPath": f"t{index}"} for index in range(count)]


def secret_volumes(count: int) -> list[dict[str, str]]:
    """Secrets, each mounted somewhere else."""
    return [{"name": f"v{index}", "secretName": "s", "mountPath": f"/m{index}"} for index in range(count)]


BUCKET = {"name": "b", "files": [{"path": "x", "targetPath": "y"}]}
REFERENCE = {"secretName": "s", "secretKey": "k"}
VOLUME = {"name": "v", "secretName": "s", "mountPath": "/secrets"}

VALID: dict[str, dict[str, Any]] = {
    "empty job": job(),
    "empty service": service(),
    "no spec": {key: value for key, value in job().items() if key != "spec"},
    "vendor in capitals": job(gpus=1, gpuVendor="AMD"),
    "vendor default": job(gpus=1, gpuVendor="default"),
    "whole number with a point": job(gpus=4.0, replicas=2.0),
    "largest replicas": job(replicas=2**31 - 1),
    "service scaled to zero": service(replicas=0),
    "gpusPerReplica 0": job(replicas=1, gpusPerReplica=0),
    "name of 63": job("a" * 63),
    "name with digits first": job("1a"),
    "ray name of 47": job("a" * 47, ray=True),
    "4,096 variables": job(env=[{"name": f"V{index}", "value": "x"} for index in range(4096)]),
    "1,024 secret volumes": job(secretVolumes=secret_volumes(1024)),
    "1,024 labels of pods": job(podTemplateSpecLabels={f"l{index}": "x" for index in range(1024)}),
    "256 resources": job(resources={"limits": {f"example.com/r{index}": 1 for index in range(256)}}),
    "4,000 files": download(
        s3=[{"endpointUrl": "https://x", "buckets": [{"name": "b", "files": files(4000)}]}]
    ),
    "longest value of a variable": job(env=[{"name": "A", "value": "x" * 131_071}]),
    "duplicate variables": job(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    "variable without value": job(env=[{"name": "A"}]),
    "all sources of variables": job(
        env=[
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}},
            {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            {"name": "E", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
        ]
    ),
    "longest entrypoint": job(entrypoint="x" * 131_071),
    "nulls": job(gpus=None, user=None, storage=None, env=None, image=None),
    "empty texts": job(
        image="",
        entrypoint="",
        user="",
        version="",
        gpuVendor="",
        clusterQueue="",
        priorityClass="",
        duration="",
        preferredTopologyLabel="",
        requiredTopologyLabel="rack",
        storage={
            "storageEnabled": True,
            "storageClassName": "",
            "data": {"mountPath": "", "storageSize": ""},
            "huggingFace": {"mountPath": "", "storageSize": ""},
        },
    ),
    "empty serve config": service(serveConfigV2=""),
    "quantities": job(resources={"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "1500m"}}),
    "odd quantities": job(resources={"limits": {"cpu": ".5", "memory": "1e9", "example.com/x": "2."}}),
    "claims": job(resources={"claims": [{"name": "c", "request": "r"}]}),
    "pull secrets": job(imagePullSecrets=[{"name": "reg.cred-1"}]),
    "any first line on Ray": job(ray=True, entrypoint="#!/usr/bin/env lua\nprint(1)"),
    "key in the data": job(
        secretVolumes=[
            {**VOLUME, "key": "k", "mountPath": "/x"},
            {**VOLUME, "name": "hf", "mountPath": "/y"},
        ],
        storage={
            "storageEnabled": True,
            "data": {"storageSize": "1Gi", "mountPath": "/x"},
            "huggingFace": {"mountPath": "/y"},
        },
    ),
    "two keys in a directory": job(
        secretVolumes=[VOLUME, {**VOLUME, "name": "w", "key": "a"}, {**VOLUME, "name": "x", "key": "b"}]
    ),
    "secret volume": job(secretVolumes=[{**VOLUME, "key": "k", "subPath": "f"}]),
    "duration": job(duration="1h30m"),
    "fraction of an hour": job(duration="1.5h"),
    "topology": job(preferredTopologyLabel="cloud.example.com/rack"),
    "models": job(gpuModels=["mi300x", "mi250"]),
    "pod labels": job(podTemplateSpecLabels={"team": "A_1.b"}),
    "storage off": job(storage={"storageEnabled": False, "data": {"mountPath": "/d"}}),
    "all access modes": storage(accessMode="ReadWriteOncePod"),
    "volumes": storage(
        storageClassName="fast",
        accessMode="ReadWriteOnce",
        data={"mountPath": "/data", "storageSize": "100Gi"},
        huggingFace={"mountPath": "/hf", "storageSize": "1Ti", "preCacheRepos": [{"repoId": "org/model"}]},
    ),
    "s3": download(
        s3=[
            {
                "endpointUrl": "https://s3.example.com",
                "accessKeyId": REFERENCE,
                "secretKey": REFERENCE,
                "buckets": [BUCKET],
            }
        ]
    ),
    "gcs": download(gcs=[{"applicationCredentials": REFERENCE, "buckets": [BUCKET]}]),
    "azure": download(azureBlob=[{"connectionString": REFERENCE, "containers": [BUCKET]}]),
    "git": download(git=[{"repository": "https://example.com/r.git", "branch": "main", "targetPath": "r"}]),
    "embedded job": job(job={"spec": {"template": {"spec": {"whatever": [1, None, {}]}}}}),
    "embedded ray job": job(rayJob={"spec": {}}),
    "embedded deployment": service(deployment={"spec": {"replicas": 3}}),
    "serve config": service(ray=True, serveConfigV2="applications: []\n"),
    "empty config": config(),
    "older section": config(data={"defaultStorageClass": "x"}),
    "whole config": config(
        ray={"defaultRayImage": "x", "headPodMemory": "1Gi"},
        storage={
            "downloadImage": "x",
            "downloadResources": {"limits": {"cpu": 1}},
            "downloadLimits": {"maxSize": "1Ti", "maxFiles": 10, "timeout": "1h"},
            "ambientCredentials": True,
        },
        nodes={"expectedGpus": [{"vendor": "amd", "gpusPerNode": 8, "maxNodes": 0}]},
        scheduling={"pendingThresholdForPreemption": "90s"},
        resourceMonitoring={
            "lowUtilizationThreshold": 0.5,
            "targetNamespaces": ["a"],
            "profile": "gpu",
            "terminateUnderutilizedAfter": "1h30m",
        },
        plugins={"kueue": {"labelNamespaces": False}, "unknown_plugin": {"any": [1]}},
    ),
    "threshold as whole number": config(resourceMonitoring={"lowUtilizationThreshold": 0}),
    "largest threshold": config(resourceMonitoring={"lowUtilizationThreshold": 100}),
}

INVALID: dict[str, dict[str, Any]] = {
    "unknown field": job(gpu=1),
    "unknown field below": storage(data={"storageSiz": "1Gi"}),
    "unknown field in a list": job(env=[{"name": "A", "valu": "1"}]),
    "unknown field in a download": download(
        s3=[{"endpointUrl": "https://x", "buckets": [], "colour": "red"}]
    ),
    "unknown source": download(ftp=[]),
    "unknown metadata": {**job(), "metadata": {"name": "a", "lables": {}}},
    "snake case": job(gpu_vendor="amd"),
    "block of the other kind": service(job={}),
    "text for a number": job(gpus="4"),
    "truth for a number": job(gpus=True),
    "fraction": job(gpus=0.5),
    "number for a text": job(image=5),
    "text for a truth": job(ray="true"),
    "mapping for a list": job(env={"A": "b"}),
    "list for a mapping": job(storage=[]),
    "null in a list": job(env=[None]),
    "number as variable": job(env=[{"name": "A", "value": 1}]),
    "variable without name": job(env=[{"value": "x"}]),
    "empty name of a variable": job(env=[{"name": ""}]),
    "negative gpus": job(gpus=-1),
    "negative per replica": job(replicas=1, gpusPerReplica=-1),
    "replicas 2^31": job(replicas=2**31),
    "replicas 2^63": job(replicas=2**63),
    "job of no replicas": job(replicas=0),
    "name of 64": job("a" * 64),
    "ray name of 48": job("a" * 48, ray=True),
    "ray block, name of 48": job("a" * 48, rayJob={}),
    "ray name with digit first": service("1a", rayService={}),
    "name with a dot": job("a.b"),
    "name in capitals": job("Train"),
    "unicode name": job("übung"),
    "both topologies": job(preferredTopologyLabel="a", requiredTopologyLabel="b"),
    "entrypoint of 128 KiB": job(entrypoint="x" * 131_072),
    "entrypoint of 1 MB": job(entrypoint="x" * 1_000_000),
    "entrypoint of too many bytes": job(entrypoint="é" * 65_536),
    "value of a variable that no program can get": job(env=[{"name": "A", "value": "x" * 131_072}]),
    "4,097 variables": job(env=[{"name": f"V{index}", "value": "x"} for index in range(4097)]),
    "1,025 secret volumes": job(secretVolumes=secret_volumes(1025)),
    "1,025 secrets for images": job(imagePullSecrets=[{"name": f"s{index}"} for index in range(1025)]),
    "1,025 labels of pods": job(podTemplateSpecLabels={f"l{index}": "x" for index in range(1025)}),
    "257 resources": job(resources={"limits": {f"example.com/r{index}": 1 for index in range(257)}}),
    "1,025 downloads": download(git=[{"repository": "https://x/r", "targetPath": "t"}] * 1025),
    "10,001 files": download(
        s3=[{"endpointUrl": "https://x", "buckets": [{"name": "b", "files": files(10_001)}]}]
    ),
    "10,001 files of a repository": storage(
        huggingFace={"storageSize": "1Gi", "preCacheRepos": [{"repoId": "a/b", "files": ["f"] * 10_001}]}
    ),
    "long image": job(image="x" * 4097),
    "long user": job(user="x" * 1025),
    "quantity of 101 characters": job(resources={"limits": {"cpu": "1" * 101}}),
    "duration of 201 characters": job(duration="0" * 200 + "1s"),
    "quantity with a blank": job(resources={"limits": {"memory": "1 Gi"}}),
    "truth as quantity": job(resources={"limits": {"cpu": True}}),
    "quantity as fraction": job(resources={"limits": {"cpu": 1.5}}),
    "quantity in lower case": job(resources={"limits": {"memory": "1gi"}}),
    "days": job(duration="1d"),
    "duration as number": job(duration=5),
    "access mode": storage(accessMode="RWX"),
    "size": storage(data={"storageSize": "big"}),
    "size as number": storage(data={"storageSize": 100}),
    "relative mount path": storage(data={"mountPath": "data"}),
    "secret volume twice": job(secretVolumes=[VOLUME, VOLUME]),
    "secret volume without path": job(secretVolumes=[{"name": "v", "secretName": "s"}]),
    "volume name": job(secretVolumes=[{**VOLUME, "name": "A_b"}]),
    "secret name": job(imagePullSecrets=[{"name": "Not_a_name"}]),
    "label value": job(podTemplateSpecLabels={"a": "b c"}),
    "model": job(gpuModels=["mi 300"]),
    "embedded job as list": job(job=[]),
    "serve config as mapping": service(serveConfigV2={}),
    "queue name": job(clusterQueue="No Queue"),
    "queue name that is no label value": job(clusterQueue="q" * 64),
    "default queue name that is no label value": config(defaultClusterQueueName="q" * 64),
    "profile": config(resourceMonitoring={"profile": "cpu"}),
    "negative threshold": config(resourceMonitoring={"lowUtilizationThreshold": -0.1}),
    "threshold above 100": config(resourceMonitoring={"lowUtilizationThreshold": 100.5}),
    "truth as threshold": config(resourceMonitoring={"lowUtilizationThreshold": True}),
    "days before termination": config(resourceMonitoring={"terminateUnderutilizedAfter": "1d"}),
    "head memory": config(ray={"headPodMemory": "much"}),
    "nodes without GPUs expected": config(
        nodes={"expectedGpus": [{"vendor": "amd", "gpusPerNode": 0, "maxNodes": 1}]}
    ),
    "unknown section": config(gpus={}),
    "unknown setting": config(plugins={"kueue": {"labelNamespace": True}}),
}

REFUSED_BEFORE_SENDING: dict[str, dict[str, Any]] = {
    "too many values": job(job={"spec": {"anything": [0] * 20_001}}),
    "gpusPerReplica alone": job(gpusPerReplica=2),
    "download without a volume": storage(data={"download": {"gcs": [{"buckets": [BUCKET]}]}}),
    "interpreter that takes no script": job(entrypoint="#!/usr/bin/env lua\nprint(1)"),
    "two volumes at one place": storage(
        data={"storageSize": "1Gi", "mountPath": "/x"}, huggingFace={"storageSize": "1Gi", "mountPath": "/x/"}
    ),
    "secret over the data": job(
        secretVolumes=[{**VOLUME, "mountPath": "/x"}],
        storage={"storageEnabled": True, "data": {"storageSize": "1Gi", "mountPath": "/x"}},
    ),
    "secret called like the data": job(
        secretVolumes=[{**VOLUME, "name": "data"}],
        storage={"storageEnabled": True, "data": {"storageSize": "1Gi"}},
    ),
    "two secrets at one place": job(
        secretVolumes=[VOLUME, {**VOLUME, "name": "w", "mountPath": f"{VOLUME['mountPath']}/"}]
    ),
    "two keys of one file": job(
        secretVolumes=[{**VOLUME, "key": "a"}, {**VOLUME, "name": "w", "key": "b", "subPath": "a"}]
    ),
    "request above its limit": job(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    "negative amount": job(resources={"limits": {"cpu": "-1"}}),
    "resource without a domain": job(resources={"limits": {"gpu": 1}}),
    "value and source": job(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]),
    "settings of an unknown plugin as text": config(plugins={"other": "x"}),
    "label key": job(podTemplateSpecLabels={"a b": "c"}),
}
"""What a schema cannot say; the controller, or Kubernetes' validation of the pod, refuses it later."""

ONE_MESSAGE: dict[str, tuple[dict[str, Any], str]] = {
    "both topologies": (INVALID["both topologies"], spec_rules.ONE_TOPOLOGY_LABEL.message),
    "entrypoint of too many bytes": (
        INVALID["entrypoint of too many bytes"],
        spec_rules.ENTRYPOINT_LENGTH.message,
    ),
    "name in capitals": (INVALID["name in capitals"], PLAIN.requirement),
    "ray name of 48": (INVALID["ray name of 48"], ON_RAY.requirement),
    "too many values": (REFUSED_BEFORE_SENDING["too many values"], spec_rules.SPEC_SIZE.message),
    "download without a volume": (
        REFUSED_BEFORE_SENDING["download without a volume"],
        spec_rules.DOWNLOAD_NEEDS_VOLUME.message,
    ),
    "resource without a domain": (
        REFUSED_BEFORE_SENDING["resource without a domain"],
        spec_rules.RESOURCE_NAME.message,
    ),
}
"""Objects that break one rule, each with the message that every surface shows."""


@pytest.fixture(scope="module")
def validator(first_party: Plugins) -> Validator:
    """Validation with the first-party plugins."""
    return Validator(first_party.fields(), first_party.settings_models())


@pytest.fixture(scope="module")
def api_server(control_plane: Sandbox, crd_files: list[Path]) -> Sandbox:
    """A control plane that serves the CRDs of the repository."""
    for path in crd_files:
        crd = yaml.safe_load(path.read_text())
        control_plane.api.apply(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}", crd
        )
    for _ in range(_SERVED_WITHIN_SECONDS):
        # A definition that was served before takes a moment to change: ask until the newest rules answer.
        if (
            _answer(control_plane, VALID["s3"]) == 201
            and _answer(control_plane, INVALID["name in capitals"]) != 201
        ):
            return control_plane
        time.sleep(1)
    raise AssertionError("the definitions are not served")


def _answer(sandbox: Sandbox, obj: dict[str, Any], namespace: str = "default") -> int:
    from kaiwo_sandbox.api import SandboxApiError

    try:
        _create(sandbox, obj, namespace)
    except SandboxApiError as error:
        return error.status
    return 201


def _create(sandbox: Sandbox, obj: dict[str, Any], namespace: str = "default") -> None:
    place = "" if obj["kind"] == "KaiwoConfig" else f"namespaces/{namespace}/"
    path = f"/apis/{obj['apiVersion']}/{place}{_PLURALS[obj['kind']]}"
    sandbox.api.create(f"{path}?dryRun=All&fieldValidation=Strict", obj)


@pytest.mark.parametrize("obj", VALID.values(), ids=VALID)
def test_validation_takes_what_is_valid(validator: Validator, obj: dict[str, Any]) -> None:
    """The command line sends what the API server would take."""
    assert validator.validate(obj).problems == ()


@pytest.mark.parametrize(
    "obj", (INVALID | REFUSED_BEFORE_SENDING).values(), ids=(INVALID | REFUSED_BEFORE_SENDING)
)
def test_validation_refuses_what_is_invalid(validator: Validator, obj: dict[str, Any]) -> None:
    """The command line refuses what the API server would refuse, and with a sentence each."""
    assert validator.validate(obj).problems


@pytest.mark.parametrize(("obj", "message"), ONE_MESSAGE.values(), ids=ONE_MESSAGE)
def test_validation_shows_the_message_of_the_rule(
    validator: Validator, obj: dict[str, Any], message: str
) -> None:
    """The command line names the rule in its own words."""
    (problem,) = validator.validate(obj).problems
    assert message in problem.message


@pytest.mark.parametrize(("obj", "message"), ONE_MESSAGE.values(), ids=ONE_MESSAGE)
def test_the_operator_shows_the_message_of_the_rule(
    first_party: Plugins, obj: dict[str, Any], message: str
) -> None:
    """An object that reached the operator all the same gets the same words as its status."""
    with pytest.raises((AssertionError, InvalidWorkload), match=re.escape(message)):
        render(obj, first_party)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("obj", "message"),
    [value for value in ONE_MESSAGE.values() if value[0] in INVALID.values()],
    ids=[name for name in ONE_MESSAGE if name in INVALID],
)
def test_the_api_server_shows_the_message_of_the_rule(
    api_server: Sandbox, obj: dict[str, Any], message: str
) -> None:
    """Kubectl and other clients show the words that the command line shows."""
    from kaiwo_sandbox.api import SandboxApiError

    with pytest.raises(SandboxApiError, match=re.escape(message)):
        _create(api_server, obj)


@pytest.mark.cluster
@pytest.mark.parametrize(
    "obj", (VALID | REFUSED_BEFORE_SENDING).values(), ids=(VALID | REFUSED_BEFORE_SENDING)
)
def test_the_api_server_takes_what_is_valid(api_server: Sandbox, obj: dict[str, Any]) -> None:
    """Nothing that we call valid is refused by the cluster."""
    assert _answer(api_server, obj) == 201


@pytest.mark.cluster
@pytest.mark.parametrize("obj", INVALID.values(), ids=INVALID)
def test_the_api_server_refuses_what_is_invalid(api_server: Sandbox, obj: dict[str, Any]) -> None:
    """Other clients than ours are stopped too."""
    assert _answer(api_server, obj) in (400, 422)
