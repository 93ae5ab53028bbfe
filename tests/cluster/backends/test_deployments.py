"""A KaiwoService on a Deployment, as its user sees it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.engine.resource import DEPLOYMENT, POD, SERVICE, Resource
from kaiwo.testing.builders import UID
from kaiwo.workload.applied_record import content, digest
from kaiwo.workload.labels import RESOLVED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

PLUGINS = "deployment,gpu_amd,gpu_nvidia"
RUN_ID = "kaiwo.silogen.ai/run-id"
EARLIER = Path(__file__).parents[2] / "workload" / "plans" / "earlier" / "deployment-with-ports.yaml"
ENDPOINT_SLICE = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
KIND = "KaiwoService"


def embedded(annotations: dict[str, str] | None = None, *, ports: tuple[int, ...] = (), **spec: Any) -> Any:
    """An embedded Deployment with ports; ``annotations`` say how the fake nodes run its pods."""
    container = {"name": "api", "ports": [{"containerPort": port} for port in ports]}
    template = {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [container]}}
    return {"spec": {"template": template, **spec}}


def container_of(deployment: Any) -> Any:
    """The primary container of a Deployment."""
    return deployment["spec"]["template"]["spec"]["containers"][0]


async def test_a_service_gets_ready_and_scales_to_zero_and_back(operator: Start, user: Any) -> None:
    """READY with its times; with zero replicas it is PENDING/ScaledToZero, with more it is READY again."""
    await operator(plugins=PLUGINS)
    created = await user.submit(
        KIND, "chat", gpus=2, replicas=2, user="jane", deployment=embedded(ports=(8000,))
    )
    status = await user.reaches(KIND, "chat", "READY")
    assert status["allocation"]["gpusPerReplica"] == 1
    assert status["startTime"]

    deployment = await user.client.get(DEPLOYMENT, user.namespace, "chat")
    service = await user.client.get(SERVICE, user.namespace, "chat")
    assert status["childUID"] == deployment["metadata"]["uid"]
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert service["spec"]["selector"] == {"app": "chat", RUN_ID: created["metadata"]["uid"]}
    for obj in (deployment, service):
        assert obj["metadata"]["labels"]["kaiwo.silogen.ai/run-id"] == created["metadata"]["uid"]
        assert obj["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]

    await user.edit(KIND, "chat", replicas=0)
    status = await user.reaches(KIND, "chat", "PENDING", reason="ScaledToZero")
    assert "startTime" not in status
    await user.edit(KIND, "chat", replicas=1)
    await user.reaches(KIND, "chat", "READY")
    assert (await user.client.get(DEPLOYMENT, user.namespace, "chat"))["spec"]["replicas"] == 1


async def test_a_change_is_rolled_out_and_what_was_removed_goes(operator: Start, user: Any) -> None:
    """New image and environment; a variable, a port and its Service go when they are removed."""
    await operator(plugins=PLUGINS)
    env = [{"name": "MODE", "value": "fast"}, {"name": "OLD", "value": "1"}]
    await user.submit(KIND, "chat", env=env, deployment=embedded(ports=(8000, 9000)))
    first = await user.reaches(KIND, "chat", "READY")

    await user.edit(
        KIND, "chat", image="registry.example/serve:2", env=env[:1], deployment=embedded(ports=(8000,))
    )
    changed = await user.sees(
        DEPLOYMENT, "chat", lambda obj: container_of(obj)["image"] == "registry.example/serve:2"
    )
    names = [item["name"] for item in container_of(changed)["env"]]
    assert names == ["MODE", "NUM_GPUS", "NUM_REPLICAS", "NUM_GPUS_PER_REPLICA"]
    service = await user.sees(SERVICE, "chat", lambda obj: len(obj["spec"]["ports"]) == 1)
    assert service["spec"]["ports"][0]["port"] == 8000
    status = await user.reaches(KIND, "chat", "READY", generation=2)
    assert status["childUID"] == first["childUID"]

    await user.edit(KIND, "chat", deployment=None)
    await user.gone(SERVICE, "chat")
    await user.reaches(KIND, "chat", "READY", generation=3)


async def test_what_others_own_stays_and_what_is_ours_is_restored(operator: Start, user: Any) -> None:
    """Replicas of an autoscaler and foreign annotations stay; our image and Service come back."""
    await operator(plugins=PLUGINS)
    await user.submit(KIND, "chat", deployment=embedded(ports=(8000,)))
    await user.reaches(KIND, "chat", "READY")

    await user.client.merge_patch(
        DEPLOYMENT, user.namespace, "chat",
        {"metadata": {"annotations": {"example.com/foreign": "kept"}}, "spec": {"replicas": 3}},
        field_manager="autoscaler",
    )  # fmt: skip
    await user.sees(DEPLOYMENT, "chat", lambda obj: obj.get("status", {}).get("availableReplicas") == 3)
    await user.client.merge_patch(
        DEPLOYMENT, user.namespace, "chat",
        {"spec": {"template": {"spec": {"containers": [
            {"name": "api", "image": "evil:1", "ports": [{"containerPort": 1}]}
        ]}}}}, field_manager="somebody",
    )  # fmt: skip
    live = await user.sees(
        DEPLOYMENT, "chat", lambda obj: container_of(obj)["image"] == "registry.example/serve:1"
    )
    assert live["spec"]["replicas"] == 3
    assert live["metadata"]["annotations"]["example.com/foreign"] == "kept"

    await user.edit(KIND, "chat", image="registry.example/serve:2")
    live = await user.sees(
        DEPLOYMENT, "chat", lambda obj: container_of(obj)["image"] == "registry.example/serve:2"
    )
    assert live["spec"]["replicas"] == 3
    await user.reaches(KIND, "chat", "READY", generation=2)

    before = await user.client.get(SERVICE, user.namespace, "chat")
    await user.client.delete(SERVICE, user.namespace, "chat")
    await user.sees(SERVICE, "chat", lambda obj: obj["metadata"]["uid"] != before["metadata"]["uid"])


async def test_a_service_that_is_scaled_to_zero_by_others_stays_there(operator: Start, user: Any) -> None:
    """KEDA and kubectl use the subresource scale, which leaves replicas of 0 without an owner."""
    await operator(plugins=PLUGINS)
    await user.submit(KIND, "chat", replicas=2, deployment=embedded(ports=(8000,)))
    await user.reaches(KIND, "chat", "READY")
    await scale(user, 0)
    status = await user.reaches(KIND, "chat", "PENDING", reason="ScaledToZero")
    assert "by an autoscaler or kubectl scale; spec.replicas, 2, is not used" in status["message"]
    await user.edit(KIND, "chat", image="registry.example/serve:2")
    live = await user.sees(
        DEPLOYMENT, "chat", lambda obj: container_of(obj)["image"] == "registry.example/serve:2"
    )
    assert live["spec"]["replicas"] == 0
    await scale(user, 1)
    await user.reaches(KIND, "chat", "READY")
    await user.edit(KIND, "chat", image="registry.example/serve:3")
    live = await user.sees(
        DEPLOYMENT, "chat", lambda obj: container_of(obj)["image"] == "registry.example/serve:3"
    )
    assert live["spec"]["replicas"] == 1


async def scale(user: Any, replicas: int) -> None:
    """Scale the Deployment as autoscalers do."""
    await user.client.merge_patch(
        DEPLOYMENT, user.namespace, "chat", {"spec": {"replicas": replicas}},
        subresource="scale", field_manager="keda",
    )  # fmt: skip


async def test_a_stuck_rollout_says_why_and_heals(operator: Start, user: Any) -> None:
    """An image that cannot be pulled, then the deadline, then a good image: STARTING, ERROR, READY."""
    await operator(plugins=PLUGINS)
    bad = {"kaiwo-sandbox/image-pull-error": "manifest unknown"}
    await user.submit(KIND, "chat", deployment=embedded(bad, progressDeadlineSeconds=8))
    status = await user.reaches(KIND, "chat", "STARTING", reason="ImagePullBackOff")
    assert "registry.example/serve:1" in status["message"]
    status = await user.reaches(KIND, "chat", "ERROR", reason="ProgressDeadlineExceeded")
    assert "8 s" in status["message"]
    assert "cannot be pulled" in status["message"]

    healed = {"metadata": {"annotations": None}}
    await user.edit(KIND, "chat", deployment={"spec": {"template": healed, "progressDeadlineSeconds": 60}})
    await user.reaches(KIND, "chat", "READY", generation=2)


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"spec": {"nonsense": 1}}, "nonsense"),
        ({"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}, "restartPolicy"),
        ({"spec": {"minReadySeconds": -1}}, "minReadySeconds"),
        ({"spec": {"strategy": "quick"}}, "strategy"),
    ],
)
async def test_a_rejection_by_the_api_server_is_reported(
    operator: Start, user: Any, block: Any, words: str
) -> None:
    """Its own words, with the field; and a corrected spec runs."""
    await operator(plugins=PLUGINS)
    await user.submit(KIND, "chat", deployment=block)
    status = await user.reaches(KIND, "chat", "ERROR", reason="InvalidSpec")
    assert words in status["message"]
    await user.edit(KIND, "chat", deployment=None)
    await user.reaches(KIND, "chat", "READY", generation=2)


async def test_a_deleted_deployment_is_made_again(operator: Start, user: Any) -> None:
    """The service comes back with a new one."""
    await operator(plugins=PLUGINS)
    await user.submit(KIND, "chat")
    status = await user.reaches(KIND, "chat", "READY")
    await user.client.delete(DEPLOYMENT, user.namespace, "chat", propagation="Background")
    await user.sees(DEPLOYMENT, "chat", lambda obj: obj["metadata"]["uid"] != status["childUID"])
    await user.reaches(KIND, "chat", "READY")


async def test_a_service_at_rest_costs_no_write(
    operator: Start, user: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Neither while it runs nor when the operator starts again; and pods may come and go."""
    process = await operator(plugins=PLUGINS, kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await user.submit(
        KIND, "chat", replicas=2,
        resources={"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": "0.5"}},
        env=[
            {"name": "SELF", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "EMPTY", "value": ""},
        ],
        deployment=embedded(ports=(8000,), minReadySeconds=0, paused=False),
    )  # fmt: skip
    await user.reaches(KIND, "chat", "READY")
    await asyncio.sleep(2)
    before = len(proxy.writes(beside="lease|events"))
    assert await asyncio.to_thread(process.stop) == 0
    await asyncio.to_thread(process.start().wait_ready)
    await asyncio.sleep(3)
    assert proxy.writes(beside="lease|events")[before:] == []

    pods = [pod async for pod in user.client.list(POD, user.namespace)]
    await user.client.delete(POD, user.namespace, pods[0]["metadata"]["name"])
    await asyncio.sleep(4)
    touched = {write.path.rsplit("/", 3)[-3] for write in proxy.writes(beside="lease|events")[before:]}
    assert touched <= {"kaiwoservices"}


async def test_pods_of_others_do_not_join_the_service(operator: Start, user: Any) -> None:
    """A pod with the documented label `app: <name>` gets none of the requests for the KaiwoService."""
    await operator(plugins=PLUGINS)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other", "namespace": user.namespace, "labels": {"app": "chat"}},
        "spec": {"containers": [{"name": "c", "image": "other:1"}]},
    }
    await user.client.create(POD, pod)
    await user.sees(POD, "other", lambda obj: obj.get("status", {}).get("podIP"))
    await user.submit(KIND, "chat", deployment=embedded({"kaiwo-sandbox/forever": "true"}, ports=(8000,)))
    await user.reaches(KIND, "chat", "READY")
    names: set[str] = set()
    for _ in range(100):
        slices = [obj async for obj in user.client.list(ENDPOINT_SLICE, user.namespace)]
        names = {endpoint["targetRef"]["name"] for obj in slices for endpoint in obj.get("endpoints") or ()}
        if names:
            break
        await asyncio.sleep(0.1)
    assert [name.partition("-")[0] for name in names] == ["chat"]


def made_earlier(namespace: str, workload: Any) -> tuple[Any, Any]:
    """The Deployment and the Service that an earlier version made for a workload, hashes included."""
    text = EARLIER.read_text(encoding="utf-8")
    text = text.replace("namespace: default", f"namespace: {namespace}").replace(
        UID, workload["metadata"]["uid"]
    )
    _, deployment, service = yaml.safe_load_all(text)
    annotations = deployment["metadata"]["annotations"]
    record = json.loads(annotations[RESOLVED])
    record["content"] = content(deployment, record["labels"], (), ())
    annotations[RESOLVED] = json.dumps(record, separators=(",", ":"))
    rendered = {**service, "metadata": {"name": "chat", "namespace": namespace}}
    service["metadata"]["annotations"] = {RESOLVED: digest(rendered)}
    return deployment, service


async def test_an_upgrade_leaves_a_running_service_as_it_is(operator: Start, user: Any) -> None:
    """What an earlier version made is neither changed nor replaced, and a later edit rolls out in place."""
    spec = next(yaml.safe_load_all(EARLIER.read_text(encoding="utf-8")))["spec"]
    submitted = await user.submit(KIND, "chat", **spec)
    deployment, service = made_earlier(user.namespace, submitted)
    made = await user.client.apply(DEPLOYMENT, deployment, field_manager="kaiwo", force=True)
    await user.client.apply(SERVICE, service, field_manager="kaiwo", force=True)

    await operator(plugins=PLUGINS)
    status = await user.reaches(KIND, "chat", "READY")
    assert status["childUID"] == made["metadata"]["uid"]
    live = await user.client.get(DEPLOYMENT, user.namespace, "chat")
    assert (live["metadata"]["generation"], live["spec"]) == (1, made["spec"])
    assert (await user.client.get(SERVICE, user.namespace, "chat"))["spec"]["selector"] == {"app": "chat"}

    await user.edit(KIND, "chat", image="registry.example/serve:2")
    await user.reaches(KIND, "chat", "READY", generation=2)
    live = await user.client.get(DEPLOYMENT, user.namespace, "chat")
    assert (live["metadata"]["uid"], live["metadata"]["generation"]) == (made["metadata"]["uid"], 2)
    assert container_of(live)["image"] == "registry.example/serve:2"
    assert live["spec"]["selector"] == made["spec"]["selector"]
