"""Every mistake is answered with what, where, why and the next step; nothing crashes validation."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field as PydanticField

from kaiwo.api.base_model import Model
from kaiwo.api.plugin_fields import Field, WorkloadKind
from kaiwo.api.scalars import Opaque
from kaiwo.api.spec_rules import RESOURCE_NAME
from kaiwo.api.validate import Validator, validate


class Item(Model):
    """A download of an invented store."""

    url: Annotated[str, PydanticField(min_length=1, description="Where from.")]


class Settings(Model):
    """Settings of an invented plugin."""

    speed: Annotated[int, PydanticField(ge=1, description="How fast.")] = 1


KINDS: tuple[WorkloadKind, ...] = ("KaiwoJob", "KaiwoService")
FIELDS = [
    Field("KaiwoJob", ("job",), Opaque, "A Job."),
    Field("KaiwoJob", ("rayJob",), Opaque, "A RayJob."),
    Field("KaiwoService", ("deployment",), Opaque, "A Deployment."),
    Field("KaiwoService", ("serveConfigV2",), str, "Ray Serve."),
    *(Field(kind, ("storage", "data", "download", "acme"), list[Item], "Acme.") for kind in KINDS),
]
VALIDATOR = Validator(FIELDS, {"acme": Settings})


def obj(kind: str = "KaiwoJob", name: str = "train", **spec: Any) -> dict[str, Any]:
    """An object of a kind with that spec."""
    group = "config.kaiwo.silogen.ai" if kind == "KaiwoConfig" else "kaiwo.silogen.ai"
    return {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def problems(value: object, **options: bool) -> list[str]:
    """The problems as users see them."""
    return [str(problem) for problem in VALIDATOR.validate(value, **options).problems]


def warnings(value: object) -> list[str]:
    """The warnings as users see them."""
    found = VALIDATOR.validate(value)
    assert found.ok, found.problems
    return [str(warning) for warning in found.warnings]


DOWNLOAD = {"acme": [{"url": "acme://x"}]}

WRONG: list[tuple[dict[str, Any], str]] = [
    (obj(gpu=1), 'spec.gpu: unknown field (did you mean "gpus"?)'),
    (
        obj(serveConfigV2="applications: []"),
        "spec.serveConfigV2: unknown field (KaiwoService has this field, KaiwoJob does not)",
    ),
    (
        obj("KaiwoService", rayJob={}),
        "spec.rayJob: unknown field (KaiwoJob has this field, KaiwoService does not)",
    ),
    (obj(GPUS=1), 'spec.GPUS: unknown field (did you mean "gpus"?)'),
    (
        obj(tolerations=[]),
        "spec.tolerations: unknown field (a field of pods: write it in the pod template of spec.job)",
    ),
    (
        obj(nodeselector={}, rayJob={}),
        "spec.nodeselector: unknown field (a field of pods: write it in the pod template of spec.rayJob)",
    ),
    (
        obj("KaiwoService", ports=[]),
        "spec.ports: unknown field (a field of containers: write it in the pod template of spec.deployment)",
    ),
    (
        obj(backoffLimit=1),
        "spec.backoffLimit: unknown field (a field of Jobs: write it below spec.job.spec)",
    ),
    (
        obj("KaiwoService", backoffLimit=1),
        "spec.backoffLimit: unknown field (see the reference for the known fields)",
    ),
    (obj(gpu_vendor="amd"), 'spec.gpu_vendor: unknown field (did you mean "gpuVendor"?)'),
    (obj(gpus="4"), 'spec.gpus: expected a whole number, got the string "4" (for example 8)'),
    (obj(gpus=True), "spec.gpus: expected a whole number, got the boolean true (for example 8)"),
    (obj(gpus=-1), "spec.gpus: -1 is less than 0 (the smallest value is 0)"),
    (
        obj(replicas=2**31),
        "spec.replicas: 2147483648 is greater than 2147483647 (the largest value is 2147483647)",
    ),
    (obj(replicas=0), "spec.replicas: 0 is less than 1 (the smallest value is 1)"),
    (obj(ray="yes"), 'spec.ray: expected true or false, got the string "yes" (no quotes)'),
    (
        obj(entrypoint=["python", "train.py"]),
        "spec.entrypoint: expected a string, got a list (write it as one string)",
    ),
    (
        obj(podTemplateSpecLabels={"team": None}),
        "spec.podTemplateSpecLabels.team: has no value (give it one, or remove it)",
    ),
    (obj(env=[None]), "spec.env[0]: has no value (give it one, or remove it)"),
    (obj(image=5), 'spec.image: expected a string, got the number 5 (quote it: "5")'),
    (
        obj(env={"A": "b"}),
        (
            "spec.env: expected a list, got a mapping "
            "(write each variable as two lines: - name: NAME, and value: VALUE indented below name)"
        ),
    ),
    (obj(env=[{"value": "x"}]), "spec.env[0].name: is required (add it)"),
    (
        obj(env=[{"name": "A=B", "value": "x"}]),
        'spec.env[0].name: "A=B" is not a valid variable name (use ASCII letters, digits and _)',
    ),
    (
        obj(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
        "spec.env[0].valueFrom: excludes value (remove one of them)",
    ),
    (
        obj(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"secretName": "s", "key": "k"}}}]),
        'spec.env[0].valueFrom.secretKeyRef.secretName: unknown field of secretKeyRef (did you mean "name"?)',
    ),
    (
        obj(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s", "key": ""}}}]),
        "spec.env[0].valueFrom.configMapKeyRef.key: is required (add it)",
    ),
    (
        obj(env=[{"name": "A", "valueFrom": {"secretKeyRef": "s"}}]),
        "spec.env[0].valueFrom.secretKeyRef: expected a mapping, got a string (give name and key)",
    ),
    (
        obj(env=[{"name": "A", "valueFrom": {"secretKeyReff": {}}}]),
        'spec.env[0].valueFrom.secretKeyReff: unknown source (did you mean "secretKeyRef"?)',
    ),
    (
        obj(gpusPerReplica=2),
        "spec.gpusPerReplica: needs replicas (add replicas, for example replicas: 1)",
    ),
    (
        obj(preferredTopologyLabel="rack", requiredTopologyLabel="rack"),
        (
            "spec.requiredTopologyLabel: preferredTopologyLabel and requiredTopologyLabel exclude each "
            "other: give one of them"
        ),
    ),
    (
        obj(requiredTopologyLabel="rack 1"),
        (
            'spec.requiredTopologyLabel: "rack 1" is not a valid label key; write it like team or '
            "example.com/team, at most 63 after the slash"
        ),
    ),
    (
        obj(duration="1d"),
        'spec.duration: "1d" is not a duration; write it as "24h"',
    ),
    (
        obj(duration=90),
        'spec.duration: expected a duration with a unit, got the number 90; write "90s" or "90m"',
    ),
    (
        obj(duration="90"),
        'spec.duration: "90" is not a duration; write it as "90s", "30m", "1h30m" or "1.5h"',
    ),
    (
        obj(resources={"limits": {"memory": "1 Gi"}}),
        'spec.resources.limits.memory: "1 Gi" is not a quantity; write "1Gi", or "1G" for powers of ten',
    ),
    (
        obj(resources={"requests": {"cpu": 4}, "limits": {"cpu": "2"}}),
        "spec.resources.requests.cpu: 4 is more than the limit 2 (lower the request or raise the limit)",
    ),
    (
        obj(resources={"requests": {"cpu": "-1"}}),
        "spec.resources.requests.cpu: must be greater than or equal to 0, got -1",
    ),
    (
        obj(resources={"limits": {"gpu": 2}}),
        f"spec.resources.limits.gpu: {RESOURCE_NAME.message} (request GPUs with spec.gpus)",
    ),
    (
        obj(resources={"requests": {"CPU": 2}}),
        f'spec.resources.requests.CPU: {RESOURCE_NAME.message} (did you mean "cpu"?)',
    ),
    (obj(resources={"requests": {"ram": "1Gi"}}), f"spec.resources.requests.ram: {RESOURCE_NAME.message}"),
    (
        obj(secretVolumes=[{"name": "a", "secretName": "s", "mountPath": "/a"}] * 2),
        'spec.secretVolumes[1].name: "a" is the name of spec.secretVolumes[0] too (rename it)',
    ),
    *(
        (
            obj(secretVolumes=[{"name": "a", "secretName": "s", "mountPath": "/a", "subPath": path}]),
            (
                f'spec.secretVolumes[0].subPath: "{path}" is not a path inside mountPath (write a file name, '
                "without / in front and without ..)"
            ),
        )
        for path in ("/etc/x", "../x", "a/..")
    ),
    (
        obj(secretVolumes=[{"name": "a", "secretName": "s", "mountPath": "a"}]),
        'spec.secretVolumes[0].mountPath: "a" is not a path that starts with / and has no colon',
    ),
    (
        obj(podTemplateSpecLabels={"a b": "c"}),
        (
            'spec.podTemplateSpecLabels["a b"]: "a b" is not a valid label key; write it like team or '
            "example.com/team, at most 63 after the slash"
        ),
    ),
    (
        obj(storage={"storageEnabled": True, "accessMode": "RWX"}),
        (
            "spec.storage.accessMode: unknown value \"RWX\" (expected 'ReadWriteOnce', 'ReadOnlyMany', "
            "'ReadWriteMany' or 'ReadWriteOncePod')"
        ),
    ),
    (
        obj(storage={"storageEnabled": True, "data": {"download": DOWNLOAD}}),
        (
            "spec.storage.data.storageSize: is required for downloads: give the volume a size, for example "
            '"100Gi"'
        ),
    ),
    (
        obj(storage={"storageEnabled": True, "data": {"storageSize": "0"}}),
        (
            'spec.storage.data.storageSize: must be greater than 0, got "0" '
            '(give an amount, for example "100Gi")'
        ),
    ),
    (
        obj(storage={"storageEnabled": True, "data": {"storageSize": "1Gi", "download": {"acmee": []}}}),
        'spec.storage.data.download.acmee: unknown field (did you mean "acme"?)',
    ),
    (
        obj(
            storage={
                "storageEnabled": True,
                "data": {"storageSize": "1Gi", "download": {"acme": [{"url": "x", "urll": "x"}]}},
            }
        ),
        'spec.storage.data.download.acme[0].urll: unknown field (did you mean "url"?)',
    ),
    (
        obj(entrypoint="x" * 1_048_576),
        (
            "spec.entrypoint: longer than 131071 bytes, the longest argument Linux takes: "
            "put the script into the image or the data volume and call it"
        ),
    ),
    (
        obj(entrypoint="é" * 100_000),
        (
            "spec.entrypoint: longer than 131071 bytes, the longest argument Linux takes: "
            "put the script into the image or the data volume and call it"
        ),
    ),
    (
        obj(name="Train_1"),
        (
            'metadata.name: "Train_1" may have at most 63 characters and only lower-case letters, digits '
            "and '-', with a letter or digit at both ends; for example \"train-1\""
        ),
    ),
    (
        obj(name="übung"),
        (
            'metadata.name: "übung" may have at most 63 characters and only lower-case letters, digits '
            "and '-', with a letter or digit at both ends; for example \"bung\""
        ),
    ),
    (
        obj(name="a" * 64),
        (
            f'metadata.name: "{"a" * 64}" (64 characters) may have at most 63 characters and only lower-case '
            f"letters, digits and '-', with a letter or digit at both ends; for example \"{'a' * 63}\""
        ),
    ),
    (
        obj(name="a" * 48, ray=True),
        (
            f'metadata.name: "{"a" * 48}" (48 characters) may have at most 47 characters and only lower-case '
            "letters, digits and '-', with a letter first and a letter or digit last; for example "
            f'"{"a" * 47}" (a workload on Ray)'
        ),
    ),
    (
        obj(name="1st", rayJob={}),
        (
            'metadata.name: "1st" may have at most 47 characters and only lower-case letters, digits and '
            "'-', with a letter first and a letter or digit last; for example \"w-1st\" (a workload on Ray)"
        ),
    ),
    ({**obj(), "sepc": {}}, 'sepc: unknown field (did you mean "spec"?)'),
    ({**obj(), "metadata": {"labels": {}}}, "metadata.name: is required (give the object a name)"),
    (
        {**obj(), "metadata": {"name": "a", "lables": {}}},
        'metadata.lables: unknown field (did you mean "labels"?)',
    ),
    (
        {**obj(), "apiVersion": "v1"},
        "apiVersion: unknown value \"v1\" (expected 'kaiwo.silogen.ai/v1alpha1')",
    ),
    ({**obj(), "kind": "KaiwoJbo"}, 'kind: unknown kind "KaiwoJbo" (did you mean "KaiwoJob"?)'),
    (
        obj(
            "KaiwoConfig",
            "kaiwo",
            nodes={"addTaintsToGpuNodes": True, "defaultGpuTaintKey": "node.kubernetes.io/not-ready"},
        ),
        (
            'spec.nodes.defaultGpuTaintKey: "node.kubernetes.io/not-ready" is a taint by which Kubernetes '
            "shows the state of a node (take another key, for example kaiwo.silogen.ai/gpu)"
        ),
    ),
    (
        obj("KaiwoConfig", "kaiwo", plugins={"acme": {"sped": 1}}),
        'spec.plugins.acme.sped: unknown field (did you mean "speed"?)',
    ),
    (
        obj("KaiwoConfig", "kaiwo", plugins={"other": 1}),
        "spec.plugins.other: expected a mapping, got a number (write it as indented key: value lines)",
    ),
]


@pytest.mark.parametrize(
    ("value", "answer"), WRONG, ids=lambda value: value.split(":")[0] if isinstance(value, str) else ""
)
def test_a_mistake_is_answered_with_the_way_out(value: dict[str, Any], answer: str) -> None:
    """The sentence names the field, the value, the rule and what to write instead; and it is the only one."""
    assert problems(value) == [answer]


LEGAL: list[dict[str, Any]] = [
    obj(),
    obj(gpus=8, gpuVendor="AMD", gpuModels=["mi300x"], duration="1.5h", entrypoint="#!/bin/bash\necho hi"),
    obj(name="a" * 63),
    obj(name="a" * 47, ray=True, replicas=2, gpusPerReplica=4),
    obj("KaiwoService", replicas=0),
    obj("KaiwoService", ray=True, serveConfigV2="applications: []"),
    obj(job={"spec": {"template": {"anything": [1, None]}}}),
    obj(entrypoint="x" * 131_071),
    obj(env=[{"name": f"V{index}", "value": str(index)} for index in range(4096)]),
    obj(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p", "volumeName": "v"}}}]),
    obj(resources={"requests": {"cpu": 2, "example.com/thing": "1"}, "limits": {"cpu": "2000m"}}),
    obj(resources={"limits": {"hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}}),
    obj(storage={"storageEnabled": True, "data": {"storageSize": "1Gi", "download": DOWNLOAD}}),
    obj(secretVolumes=[{"name": "a", "secretName": "s", "mountPath": "/a", "subPath": "b/c..d"}]),
    obj(user=None, storage=None, env=None),
    {**obj(), "metadata": {"generateName": "a" * 63}},
    {**obj(), "status": {"whatever": 1}},
    obj("KaiwoConfig", "kaiwo", plugins={"acme": {"speed": 2}}),
]


@pytest.mark.parametrize("value", LEGAL, ids=range(len(LEGAL)))
def test_legal_objects_pass(value: dict[str, Any]) -> None:
    """What the documents allow is allowed."""
    assert problems(value) == []


def test_after_defaulting_replicas_cannot_be_missed() -> None:
    """At the API server gpusPerReplica alone means one replica, so the webhook does not refuse it."""
    assert problems(obj(gpusPerReplica=2), defaulted=True) == []


def test_what_is_ignored_or_odd_is_warned_about() -> None:
    """A legal object that probably does not do what was meant says so."""
    assert warnings(obj(storage={"data": {"storageSize": "1Gi"}})) == [
        "spec.storage.data: is ignored: set storageEnabled: true to use it"
    ]
    assert warnings(obj(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])) == [
        'spec.env: "A" is given 2 times, and the last one wins (remove the others)'
    ]
    assert warnings(obj(env=[{"name": "NUM_GPUS", "value": "1"}])) == [
        (
            "spec.env: NUM_GPUS is not used: it always has the number of GPUs or replicas that the workload "
            "gets (use another name)"
        )
    ]
    (own,) = warnings(obj(podTemplateSpecLabels={"team": "a", "kaiwo.silogen.ai/user": "b"}))
    assert "kaiwo.silogen.ai/user" in own
    assert "is ignored: the prefix kaiwo.silogen.ai is reserved" in own
    assert warnings(obj(ray=True, gpus=3, replicas=2, gpusPerReplica=4)) == [
        "spec.gpus: 3 becomes 8: replicas times gpusPerReplica (leave gpus out)"
    ]
    assert warnings(obj("KaiwoService", gpus=3, replicas=2, gpusPerReplica=4)) == [
        "spec.gpus: 3 becomes 8: replicas times gpusPerReplica (leave gpus out)"
    ]
    assert warnings(obj("KaiwoService", gpus=3, replicas=0, gpusPerReplica=4)) == []
    assert warnings(obj("KaiwoConfig", "other", data={}, plugins={"acm": {}})) == [
        'metadata.name: "other" is ignored; only "kaiwo" counts (name it "kaiwo")',
        'spec.data: is the older name of this section (rename it to "storage")',
        'spec.plugins.acm: belongs to no loaded plugin that has settings (did you mean "acme"?)',
    ]


def test_what_a_backend_ignores_is_not_the_hosts_to_say() -> None:
    """Another backend than batch_job may use replicas; the one that runs the workload warns."""
    assert warnings(obj(replicas=3)) == []
    assert warnings(obj("KaiwoService", ray=True, entrypoint="x")) == []


def test_a_field_of_a_plugin_that_is_not_loaded_is_unknown() -> None:
    """Without its plugin a block is an unknown field, not silently dropped."""
    found = validate(obj(job={}))
    assert [problem.path for problem in found.problems] == ["spec.job"]
    assert not found.ok


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=4)
    ),
    max_leaves=10,
)
spec_fields = st.sampled_from(
    [
        "env",
        "resources",
        "storage",
        "secretVolumes",
        "podTemplateSpecLabels",
        "entrypoint",
        "gpus",
        "plugins",
        "ray",
    ]
)


@settings(max_examples=100)
@given(
    st.sampled_from(["KaiwoJob", "KaiwoService", "KaiwoConfig"]),
    st.dictionaries(spec_fields | st.text(max_size=5), json_values, max_size=4) | json_values,
    json_values,
)
def test_nothing_that_yaml_can_hold_crashes_validation(kind: str, spec: Any, meta: Any) -> None:
    """The answer to any object is a list of sentences."""
    value = {**obj(kind), "spec": spec, "metadata": meta}
    assert all(isinstance(text, str) for text in problems(value))


@pytest.mark.parametrize("name", [[], {}, [["a"]], 7])
def test_a_variable_without_a_usable_name_is_a_problem_beside_downloads(name: object) -> None:
    """A name of any type is answered, also where variables are searched for the Hub's token."""
    storage = {"storageEnabled": True, "huggingFace": {"storageSize": "1Gi"}}
    spec = {"env": [{"name": name, "value": "x"}], "storage": storage}
    obj = {"apiVersion": "kaiwo.silogen.ai/v1alpha1", "kind": "KaiwoJob", "metadata": {"name": "a"}}
    assert [problem.path for problem in validate({**obj, "spec": spec}).problems] == ["spec.env[0].name"]
