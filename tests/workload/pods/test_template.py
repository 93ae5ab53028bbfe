from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Allocation
from kaiwo.plugin.queues import QueueAssignment
from kaiwo.plugin.rendering import RenderInput, Resolved
from kaiwo.testing import job
from kaiwo.workload.errors import SpecError
from kaiwo.workload.pods.origins import Origins
from kaiwo.workload.pods.template import PodRole, pod_template

if TYPE_CHECKING:
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


def warned(given: Any, **spec: Any) -> list[str]:
    """The warnings about that template."""
    inp = RenderInput(Workload.from_object(job(**spec)), RESOLVED)
    return pod_template(inp, given, ROLE, Origins("spec.job."))[1]


def embedded(**pod: Any) -> Object:
    """An embedded template with one named container."""
    return {"spec": {"containers": [{"name": "mine", "image": "mine:1"}], **pod}}


def env_of(container: Object) -> list[tuple[str, str]]:
    """Names and values of a container's environment."""
    return [(item["name"], item["value"]) for item in container["env"]]


NUMBERS = [("NUM_GPUS", "0"), ("NUM_REPLICAS", "1"), ("NUM_GPUS_PER_REPLICA", "0")]


def test_a_generated_pod_has_the_documented_defaults() -> None:
    """Pull policy, scheduler, security context and shared memory come with a generated pod."""
    pod = template(image="image:1")["spec"]
    container = pod["containers"][0]
    assert (container["name"], container["imagePullPolicy"], container["image"]) == (
        "workload",
        "Always",
        "image:1",
    )
    assert (pod["restartPolicy"], pod["schedulerName"]) == ("Never", "kaiwo-scheduler")
    assert pod["securityContext"] == {
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["volumes"] == [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]
    assert container["volumeMounts"] == [{"name": "dshm", "mountPath": "/dev/shm"}]
    assert container["env"] == [{"name": name, "value": value} for name, value in NUMBERS]


def test_dangerous_pods_have_no_security_context() -> None:
    """Who needs root says so; neither the pod nor its container has one."""
    pod = template(dangerous=True)["spec"]
    assert "securityContext" not in pod
    assert "securityContext" not in pod["containers"][0]


def test_an_embedded_pod_gets_only_what_makes_it_valid() -> None:
    """The user's template stays the user's: no scheduler, shared memory, pull policy or security context."""
    pod = template(embedded(), image="other:1")["spec"]
    assert pod.keys() == {"containers", "restartPolicy"}
    assert pod["containers"][0].keys() == {"name", "image", "env", "resources"}
    assert pod["containers"][0]["image"] == "mine:1"
    assert template(embedded(restartPolicy="OnFailure"))["spec"]["restartPolicy"] == "OnFailure"


@pytest.mark.parametrize(
    "blank",
    [
        {},
        {"spec": {}},
        {"metadata": {"creationTimestamp": None}, "spec": {"containers": None}},
        {"metadata": {"labels": {}}, "spec": {"containers": [], "nodeSelector": {}}},
        {"spec": {"containers": [{}]}},
    ],
)
def test_a_blank_template_is_none(blank: Object) -> None:
    """Go clients write out templates that they leave empty; the pod is generated all the same."""
    assert template(blank, image="image:1") == template(image="image:1")


def test_an_embedded_template_keeps_annotations_of_others_alone() -> None:
    """Kaiwo's own keys are left out also where no annotation is left then."""
    given = embedded()
    given["metadata"] = {"annotations": {"kaiwo.silogen.ai/resolved": "forged"}, "name": "kept"}
    metadata = template(given)["metadata"]
    assert metadata.keys() == {"name", "labels"}
    given["metadata"]["annotations"]["example.com/own"] = "1"
    assert template(given)["metadata"]["annotations"] == {"example.com/own": "1"}


def test_images_are_filled_in_from_the_spec_then_the_configuration() -> None:
    """Containers that name no image get one, init containers too."""
    given = {
        "spec": {
            "containers": [{"name": "a"}, {"name": "b", "image": "b:1"}],
            "initContainers": [{"name": "i"}],
        }
    }
    pod = template(given, image="image:1")["spec"]
    assert [item["image"] for item in pod["containers"] + pod["initContainers"]] == [
        "image:1",
        "b:1",
        "image:1",
    ]
    assert template(given)["spec"]["initContainers"][0]["image"] == "default:1"


def test_labels_follow_their_precedence() -> None:
    """System over podTemplateSpecLabels over the template's over the workload's own."""
    given = embedded()
    given["metadata"] = {"labels": {"a": "template", "b": "template", "kaiwo.silogen.ai/name": "forged"}}
    resolved = Resolved(allocation=Allocation(), labels={"a": "own", "c": "own"})
    labels = template(
        given,
        resolved=resolved,
        user="Jane",
        podTemplateSpecLabels={"b": "spec", "kaiwo.silogen.ai/type": "forged"},
    )["metadata"]["labels"]
    assert labels == {
        "a": "template",
        "b": "spec",
        "c": "own",
        "kaiwo.silogen.ai/user": "jane",
        "kaiwo.silogen.ai/name": "train",
        "kaiwo.silogen.ai/type": "job",
        "kaiwo.silogen.ai/run-id": "11111111-2222-4333-8444-555555555555",
    }


def test_the_environment_keeps_its_order_and_names_stay_unique() -> None:
    """spec.env replaces in place and appends; our numbers always have our values, at the end."""
    given = embedded()
    given["spec"]["containers"][0]["env"] = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "1"},
        {"name": "A", "value": "2"},
        {"name": "NUM_GPUS", "value": "99"},
    ]
    env = [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}, {"name": "C", "value": "5"}]
    assert env_of(template(given, env=env)["spec"]["containers"][0]) == [
        ("A", "2"), ("B", "3"), ("C", "5"), *NUMBERS,
    ]  # fmt: skip


def test_hf_home_points_to_the_cache_unless_set() -> None:
    """A Hugging Face volume sets HF_HOME; a user's own value stays."""
    storage = {"storageEnabled": True, "huggingFace": {"storageSize": "1Gi"}}
    env = env_of(template(storage=storage)["spec"]["containers"][0])
    assert env == [("HF_HOME", "/hf_cache"), *NUMBERS]
    env = env_of(template(storage=storage, env=[{"name": "HF_HOME", "value": "/x"}])["spec"]["containers"][0])
    assert env == [("HF_HOME", "/x"), *NUMBERS]


def test_only_the_primary_container_gets_the_environment_and_the_entrypoint() -> None:
    """Side cars and init containers run what they ran before."""
    given = {
        "spec": {
            "containers": [{"name": "a", "command": ["x"], "args": ["y"]}, {"name": "b", "args": ["z"]}],
            "initContainers": [{"name": "i"}],
        }
    }
    pod = template(given, entrypoint="echo", env=[{"name": "A", "value": "1"}])["spec"]
    first, second, init = *pod["containers"], *pod["initContainers"]
    assert first["command"] == ["/bin/sh", "-c", "echo"]
    assert "args" not in first
    assert second["args"] == ["z"]
    assert "env" not in second
    assert "env" not in init


def test_gpu_pods_go_to_gpu_nodes_of_the_wanted_models() -> None:
    """The toleration and the model requirement are added to the user's own, and only for GPUs."""
    resolved = Resolved(
        allocation=Allocation("amd", "amd.com/gpu", gpus_per_replica=1, models=("mi300x", "mi250")),
        gpu_taint_key="kaiwo.silogen.ai/gpu",
        vendor_keys=("amd.com/gpu",),
    )
    wanted = {"key": "kaiwo/gpu-model", "operator": "In", "values": ["mi300x", "mi250"]}
    zone = {"key": "zone", "operator": "Exists"}
    terms = [{"matchExpressions": [zone]}, {"matchFields": [{"key": "metadata.name"}]}, {}]
    given = embedded(
        tolerations=[{"key": "a"}],
        affinity={
            "podAffinity": {"x": []},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
        },
    )
    pod = template(given, resolved=resolved, gpus=1)["spec"]
    assert pod["tolerations"] == [
        {"key": "a"},
        {"key": "kaiwo.silogen.ai/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ]
    affinity = pod["affinity"]
    assert affinity["podAffinity"] == {"x": []}
    assert affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ] == [
        {"matchExpressions": [zone, wanted]},
        {"matchFields": [{"key": "metadata.name"}], "matchExpressions": [wanted]},
        {},
    ], "an empty term matches no node"
    plain = template(embedded(), resolved=Resolved(allocation=Allocation(), gpu_taint_key="k"))["spec"]
    assert plain.keys().isdisjoint({"tolerations", "affinity"})


def test_containers_share_what_their_pod_has_as_a_whole() -> None:
    """The API server takes no container with more than its pod; what the pod lacks has its default."""
    pod = template(embedded(resources={"limits": {"memory": "4Gi"}}))["spec"]
    assert pod["resources"] == {"limits": {"memory": "4Gi"}}
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    earlier = dataclasses.replace(RESOLVED, template_version=3)
    kept = template(embedded(resources={"limits": {"memory": "32Gi"}}), resolved=earlier)["spec"]
    assert kept["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "16Gi"}
    with pytest.raises(SpecError, match=r"resources\.limits: must be an object"):
        template(embedded(resources={"limits": 4}))


def test_a_field_beside_the_spec_of_a_template_is_reported() -> None:
    """Kubernetes has none there; the generated container would run in place of the user's."""
    with pytest.raises(SpecError) as found:
        template({"containers": [{"name": "mine", "image": "mine:1"}]})
    assert str(found.value) == (
        "spec.job.spec.template.containers: unknown field of a pod template; write it below "
        "spec.job.spec.template.spec"
    )
    assert template({**embedded(), "status": {}, "containers": None})["spec"]["containers"]


def test_gpus_in_an_init_container_are_tolerated_too() -> None:
    """Any container's GPU brings the pod to a tainted node, a MIG slice as well."""
    given = embedded(initContainers=[{"name": "i", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}])
    resolved = Resolved(allocation=Allocation(), gpu_taint_key="k", vendor_keys=("nvidia.com/mig-*",))
    assert template(given, resolved=resolved)["spec"]["tolerations"][0]["key"] == "k"


@pytest.mark.parametrize("group", ["containers", "initContainers"])
@pytest.mark.parametrize("amount", [0, "0"])
def test_zero_gpus_are_not_tolerated(group: str, amount: Any) -> None:
    """A pod that says it wants no GPU keeps away from tainted nodes; existing children stay as they are."""
    resolved = Resolved(allocation=Allocation(), gpu_taint_key="k", vendor_keys=("nvidia.com/gpu",))
    given = embedded()
    given["spec"].setdefault(group, [{"name": "i"}])[0]["resources"] = {"limits": {"nvidia.com/gpu": amount}}
    assert "tolerations" not in template(copy.deepcopy(given), resolved=resolved)["spec"]
    warnings = warned(copy.deepcopy(given), gpuModels=["mi300x"])
    assert warnings == ["spec.gpuModels is ignored: the workload requests no GPUs"]
    earlier = dataclasses.replace(resolved, template_version=3)
    assert template(given, resolved=earlier)["spec"]["tolerations"][0]["key"] == "k"


def test_topology_and_queue_annotate_the_pods() -> None:
    """Topology labels become the annotations that the queue reads."""
    inp = RenderInput(
        Workload.from_object(job(preferredTopologyLabel="rack")),
        RESOLVED,
        queue=QueueAssignment("q", {}, pod_annotations={"a": "b"}),
    )
    annotations = pod_template(inp, None, ROLE, Origins())[0]["metadata"]["annotations"]
    assert annotations == {"a": "b", "kueue.x-k8s.io/podset-preferred-topology": "rack"}


def test_pull_secrets_are_appended_once() -> None:
    """The template's own secrets stay, and none comes twice."""
    given = embedded(imagePullSecrets=[{"name": "a"}])
    pod = template(given, imagePullSecrets=[{"name": "a"}, {"name": "b"}])["spec"]
    assert pod["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    twice = embedded(imagePullSecrets=[{"name": "a"}, {"name": "a"}])
    assert template(twice)["spec"]["imagePullSecrets"] == [{"name": "a"}]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ([], ""),
        ({"spec": "x"}, ".spec"),
        ({"spec": {"containers": {"name": "a"}}}, ".spec.containers"),
        ({"spec": {"containers": ["x"]}}, ".spec.containers[0]"),
        ({"spec": {"containers": [{"env": {"A": "b"}}]}}, ".spec.containers[0].env"),
        ({"spec": {"containers": [{"ports": 1}]}}, ".spec.containers[0].ports"),
        ({"spec": {"containers": [{"volumeMounts": [1]}]}}, ".spec.containers[0].volumeMounts[0]"),
        ({"spec": {"initContainers": "x"}}, ".spec.initContainers"),
        ({"metadata": {"labels": ["a"]}}, ".metadata.labels"),
        ({"metadata": {"labels": {"a": 1}}}, ".metadata.labels[a]"),
    ],
)
def test_nonsense_in_an_embedded_template_names_the_field(given: Any, path: str) -> None:
    """A list where a map belongs is answered with its path as the user wrote it."""
    with pytest.raises(SpecError) as caught:
        template(given)
    assert caught.value.path == f"spec.job.spec.template{path}"


def test_a_mount_and_a_port_that_another_one_replaces_are_reported() -> None:
    """Each once, by its place; a probe may name the port, and a program may need the files."""
    storage = {"storageEnabled": True, "data": {"storageSize": "1Gi", "mountPath": "/data"}}
    ports = [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "name": "metrics"}]
    mounts = [{"name": "own", "mountPath": "/data"}]
    twice = embedded(containers=[{"name": "a", "ports": [*ports, ports[1]], "volumeMounts": mounts}])
    made, warnings = template(twice, storage=storage), warned(twice, storage=storage)
    (container,) = made["spec"]["containers"]
    assert [port["name"] for port in container["ports"]] == ["metrics"]
    assert [mount["name"] for mount in container["volumeMounts"]] == ["data"]
    for place in ("volumeMounts[0] (own) is not used", "ports[0] (http) is not used"):
        assert sum(place in warning for warning in warnings) == 1
    assert len(warnings) == 2


def test_nulls_do_not_survive() -> None:
    """Null fields of an embedded template are absent in what is created."""
    given = embedded(nodeSelector=None)
    given["metadata"] = {"creationTimestamp": None}
    result = template(given)
    assert "creationTimestamp" not in result["metadata"]
    assert "nodeSelector" not in result["spec"]
