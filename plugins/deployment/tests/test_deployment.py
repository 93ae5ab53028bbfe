from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaiwo_deployment.plugin
import kaiwo_gpu_amd.plugin
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.api.workload import Workload
from kaiwo.engine.resource import DEPLOYMENT, SERVICE
from kaiwo.testing import assert_backend_contract, assert_golden, node, plugins, render, service
from kaiwo.testing.builders import NOW, UID
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.model import Apply, Facts, Registry
from kaiwo.workload.plan import plan_object

GOLDEN = Path(__file__).parent / "golden"
LOADED = plugins(kaiwo_deployment.plugin, kaiwo_gpu_amd.plugin)
(BACKEND,) = LOADED.backends
NODES = [node(f"amd-{number}", gpus={"amd.com/gpu": 8}) for number in range(2)]

MINIMAL = service(image="nginx:1", entrypoint="serve --port 8000")
GPUS = service(
    name="chat",
    namespace="research",
    labels={"team": "vision", "app.kubernetes.io/instance": "not-copied"},
    annotations={"note": "kept"},
    user="jane.doe+x@Amd.com",
    version="2",
    gpus=4,
    replicas=2,
    image="registry.example/serve:1",
    imagePullSecrets=[{"name": "pull"}],
    podTemplateSpecLabels={"stage": "prod", "app": "not-used"},
    env=[{"name": "MODE", "value": "fast"}],
)
EMBEDDED = service(
    gpus=2,
    gpusPerReplica=1,
    replicas=2,
    image="registry.example/serve:1",
    deployment={
        "metadata": {"labels": {"tier": "front"}, "annotations": {"own": "yes"}},
        "spec": {
            "replicas": 5,
            "selector": {"matchLabels": {"own": "selector"}},
            "progressDeadlineSeconds": 120,
            "strategy": {"type": "Recreate"},
            "template": {
                "metadata": {"labels": {"own": "selector"}, "creationTimestamp": None},
                "spec": {
                    "containers": [
                        {
                            "name": "api",
                            "ports": [
                                {"containerPort": 8000, "name": "http"},
                                {"containerPort": 8000, "name": "web"},
                                {"containerPort": 9000},
                                {"containerPort": 9000, "protocol": "UDP"},
                            ],
                            "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
                        },
                        {"name": "sidecar", "image": "proxy:1", "ports": [{"containerPort": 1}]},
                    ]
                },
            },
        },
    },
)
RUN_ID = "kaiwo.silogen.ai/run-id"
SCALED = service(name="asleep", replicas=0, gpus=2)


def planned(obj: Any, **facts: Any) -> Any:
    """The plan of a service on the two nodes."""
    nodes = tuple(node_fact(item, LOADED.vendors) for item in NODES)
    known = Facts(now=NOW, config=ResolvedConfig.defaults(), nodes=nodes, **facts)
    return plan_object(obj, Registry.of(LOADED), known)


def deployment(obj: Any) -> Any:
    """The Deployment that is created for a service."""
    (write,) = [item for item in planned(obj).writes if item.resource == DEPLOYMENT]
    assert isinstance(write, Apply)
    return write.obj


def test_it_keeps_the_contract() -> None:
    """What the host relies on holds for every form."""
    assert_backend_contract(BACKEND, [MINIMAL, GPUS, EMBEDDED, SCALED], vendors=LOADED.vendors, nodes=NODES)


@pytest.mark.parametrize(
    ("name", "obj"), [("minimal", MINIMAL), ("gpus", GPUS), ("embedded", EMBEDDED), ("scaled", SCALED)]
)
def test_what_is_created(name: str, obj: Any) -> None:
    """The whole objects, as a user would read them."""
    assert_golden(render(obj, LOADED, nodes=NODES), GOLDEN / f"{name}.yaml")


def test_it_serves_kaiwoservices_without_ray() -> None:
    """A KaiwoService is a Deployment unless it requests Ray or embeds a RayService."""
    assert not BACKEND.load().serves(Workload.from_object(service(ray=True, deployment={"spec": {}})))
    assert not BACKEND.load().serves(Workload.from_object(service(rayService={})))
    assert BACKEND.load().serves(Workload.from_object(service(ray=False, deployment={"spec": {}})))


def test_a_rollout_on_gpus_needs_no_more_gpus() -> None:
    """With a full queue a surge pod would wait for ever; without GPUs the usual strategy stays."""
    assert deployment(GPUS)["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert "strategy" not in deployment(MINIMAL)["spec"]
    assert deployment(EMBEDDED)["spec"]["strategy"] == {"type": "Recreate"}
    empty = service(gpus=1, image="image:1", deployment={"spec": {"strategy": {}}})
    assert deployment(empty)["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_pods_are_found_by_labels_that_no_others_have() -> None:
    """The documented label ``app``, and the workload's uid, whatever was embedded; a warning reports it."""
    for obj in (MINIMAL, GPUS, EMBEDDED):
        made = deployment(obj)
        labels = made["spec"]["template"]["metadata"]["labels"]
        assert made["spec"]["selector"] == {"matchLabels": {"app": "chat", RUN_ID: UID}}
        assert (labels["app"], labels[RUN_ID]) == ("chat", UID)
    warnings = planned(EMBEDDED).warnings
    assert any("spec.deployment.spec.selector is not used" in text for text in warnings)
    assert any("spec.deployment.spec.replicas: 5 is not used, it is 2" in text for text in warnings)


def test_a_label_app_of_another_name_is_reported() -> None:
    """A Service of the user's own that selects by it would find no pod any more."""
    template = {"metadata": {"labels": {"app": "vllm"}}, "spec": {"containers": [{"name": "a"}]}}
    pasted = service(image="x", deployment={"spec": {"template": template}})
    for obj, reported in (
        (pasted, True),
        (service(image="x", podTemplateSpecLabels={"app": "mine"}), True),
        (service("vllm", image="x", deployment={"spec": {"template": template}}), False),
    ):
        assert any("label app=" in warning for warning in planned(obj).warnings) is reported


def test_a_service_that_was_never_sent_is_selected_by_its_name() -> None:
    """`kaiwo plan` renders it without a uid; a selector cannot be empty."""
    obj = {**MINIMAL, "metadata": {key: value for key, value in MINIMAL["metadata"].items() if key != "uid"}}
    made = deployment(obj)
    selector = made["spec"]["selector"]["matchLabels"]
    assert selector == {"app": "chat", "kaiwo.silogen.ai/name": "chat"}
    assert selector.items() <= made["spec"]["template"]["metadata"]["labels"].items()


def test_a_live_deployment_keeps_its_selector() -> None:
    """It is immutable, also where somebody removed the record that says which templates it was made with."""
    live = copy.deepcopy(deployment(MINIMAL))
    live["metadata"] |= {"uid": "live", "resourceVersion": "7", "annotations": {}}
    live["spec"]["selector"] = {"matchLabels": {"app": "chat"}}
    obj = copy.deepcopy(MINIMAL)
    obj["spec"]["image"] = "image:2"
    obj["status"] = {"status": "READY", "childUID": "live"}
    (write,) = planned(obj, live=live, made=frozenset({"live"})).writes
    assert write.obj["spec"]["selector"] == {"matchLabels": {"app": "chat"}}
    assert write.obj["spec"]["template"]["metadata"]["labels"]["app"] == "chat"


def test_the_bookkeeping_of_a_pasted_object_stays_behind() -> None:
    """What `kubectl get -o yaml` shows beside the user's own annotations is the controllers' to write."""
    pasted = {
        "annotations": {
            "deployment.kubernetes.io/revision": "3",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "note": "mine",
        }
    }
    assert deployment(service(deployment={"metadata": pasted}))["metadata"]["annotations"].keys() == {
        "note",
        "kaiwo.silogen.ai/resolved",
    }


def test_declared_ports_get_a_service() -> None:
    """A ClusterIP Service of the same name, one port per declared port of the primary container."""
    (write,) = [item for item in planned(EMBEDDED).writes if item.resource == SERVICE]
    made = write.obj
    assert made["metadata"]["name"] == "chat"
    assert made["spec"]["type"] == "ClusterIP"
    assert made["spec"]["selector"] == {"app": "chat", RUN_ID: UID}
    assert [(p["name"], p["port"], p["protocol"]) for p in made["spec"]["ports"]] == [
        ("web", 8000, "TCP"),
        ("port-9000", 9000, "TCP"),
        ("port-9000-udp", 9000, "UDP"),
    ]
    assert not [item for item in planned(MINIMAL).writes if item.resource == SERVICE]


def test_a_name_that_no_service_can_have_is_reported() -> None:
    """A Deployment may start with a digit, a Service may not: the user learns why there is none."""
    container = {"name": "a", "ports": [{"containerPort": 80}]}
    obj = service(name="7b-chat", deployment={"spec": {"template": {"spec": {"containers": [container]}}}})
    found = planned(obj)
    assert [item.resource for item in found.writes] == [DEPLOYMENT]
    assert any("no Service is made" in text for text in found.warnings)


def test_a_service_of_somebody_else_stops_the_workload() -> None:
    """It is not touched, and nothing is created beside it."""
    theirs = {"metadata": {"name": "chat", "namespace": "default", "uid": "other"}}
    found = planned(EMBEDDED, auxiliaries={(SERVICE, "chat"): theirs})
    assert found.writes == ()
    assert found.statuses[-1]["reason"] == "NameConflict"
    assert "Service chat" in found.statuses[-1]["message"]


@pytest.mark.parametrize(
    ("spec", "each", "replicas"),
    [
        ({"gpus": 4, "replicas": 2}, 2, 2),
        ({"gpus": 99, "gpusPerReplica": 3, "replicas": 2}, 3, 2),
        ({"gpus": 2}, 2, 1),
        ({"gpus": 2, "replicas": 0}, 2, 0),
    ],
)
def test_gpus_are_shared_evenly(spec: Any, each: int, replicas: int) -> None:
    """R is replicas; P is gpusPerReplica if given, else gpus / R."""
    made = deployment(service(**spec))
    container = made["spec"]["template"]["spec"]["containers"][0]
    env = {item["name"]: item.get("value") for item in container["env"]}
    assert made["spec"]["replicas"] == replicas
    assert container["resources"]["limits"]["amd.com/gpu"] == str(each)
    assert (env["NUM_GPUS"], env["NUM_REPLICAS"]) == (str(each * replicas), str(replicas))


def test_a_count_that_is_not_used_is_reported() -> None:
    """Who writes three numbers that contradict each other learns which two count, from the operator too."""
    warning = "spec.gpus: 99 becomes 6: replicas times gpusPerReplica; leave gpus out"
    assert warning in planned(service(gpus=99, gpusPerReplica=3, replicas=2)).warnings
    assert planned(service(gpus=6, gpusPerReplica=3, replicas=2)).warnings == ()
    assert planned(service(gpus=6, gpusPerReplica=3, replicas=0)).warnings == ()


def test_gpus_that_cannot_be_shared_are_refused_with_the_nearest() -> None:
    """Never reduced silently."""
    found = planned(service(gpus=5, replicas=2))
    assert found.writes == ()
    assert "4 or 6" in found.statuses[-1]["message"]


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ([], "spec.deployment:"),
        ({"spec": 1}, "spec.deployment.spec:"),
        ({"metadata": []}, "spec.deployment.metadata:"),
        ({"spec": {"template": []}}, "spec.deployment.spec.template:"),
        ({"spec": {"replicas": "3"}}, "spec.deployment.spec.replicas:"),
        (
            {"spec": {"template": {"spec": {"containers": {}}}}},
            "spec.deployment.spec.template.spec.containers:",
        ),
        ({"replicas": 3}, "spec.deployment.replicas:"),
        ({"kind": "StatefulSet", "spec": {}}, "spec.deployment.kind:"),
    ],
)
def test_nonsense_is_reported_by_its_field(block: Any, path: str) -> None:
    """The user finds the place in the file."""
    (status,) = planned(service(deployment=block)).statuses
    assert status["reason"] == "InvalidSpec"
    assert path in status["message"]


NAMES = st.sampled_from(
    ["spec", "metadata", "labels", "template", "containers", "initContainers", "ports", "containerPort",
     "protocol", "name", "replicas", "selector", "strategy", "env", "resources", "limits", "amd.com/gpu",
     "cpu", "image", "volumes", "volumeMounts", "annotations", "tolerations", "affinity"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**33) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)


@given(block=JSON, gpus=st.integers(0, 3))
def test_no_embedded_block_crashes_a_plan(block: Any, gpus: int) -> None:
    """Whatever JSON is embedded: an object is created, or the status is ERROR with the reason."""
    for shape in (block, {"spec": block}, {"spec": {"template": {"spec": block}}}):
        found = planned(service(gpus=gpus, deployment=shape))
        (status,) = found.statuses
        assert status["status"] == ("PENDING" if found.writes else "ERROR")
        assert status["message"]
        assert found.statuses[-1]["reason"] != "PluginError"


def stored(mode: str, **more: Any) -> Any:
    """A service with a data volume of that access mode."""
    storage = {"storageEnabled": True, "accessMode": mode, "data": {"storageSize": "1Gi"}}
    return service(image="nginx:1", storage=storage, **more)


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_a_rollout_leaves_a_volume_of_one_node_to_the_old_pod_first(mode: str) -> None:
    """A new pod beside it waits for the volume, and the old one is kept until the new one is ready."""
    strategy = deployment(stored(mode))["spec"]["strategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def test_a_rollout_of_pods_that_share_their_volume_stays_that_of_kubernetes() -> None:
    """No service is down for a volume that any node can use, or that is not made."""
    assert "strategy" not in deployment(stored("ReadWriteMany"))["spec"]
    unsized = service(image="nginx:1", storage={"storageEnabled": True, "accessMode": "ReadWriteOncePod"})
    assert "strategy" not in deployment(unsized)["spec"]


@pytest.mark.parametrize(
    ("strategy", "warned"),
    [
        ({"type": "RollingUpdate"}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, False),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 1}}, False),
        ({"type": "Recreate"}, False),
    ],
)
def test_an_embedded_strategy_that_a_volume_blocks_is_kept_and_warned_about(
    strategy: Any, *, warned: bool
) -> None:
    """The user may know better, for example where all pods run on one node."""
    found = planned(stored("ReadWriteOncePod", deployment={"spec": {"strategy": strategy}}))
    assert any("spec.deployment.spec.strategy" in text for text in found.warnings) is warned
    (write,) = [item for item in (*found.writes, *found.later) if item.resource == DEPLOYMENT]
    assert write.obj["spec"]["strategy"] == strategy
