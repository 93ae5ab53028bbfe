"""A KaiwoConfig that is deleted: its values are kept, and one command brings them back."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load
from kaiwo.engine.errors import Forbidden, NotFound
from kaiwo.engine.resource import CONFIG_MAP, EVENT
from kaiwo.host.config_history import HISTORY
from kaiwo.install.roles import operator_roles
from kaiwo.plugin.registry import Plugins
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
async def pristine(client: Client, namespace: str) -> AsyncIterator[None]:
    """Begin without a KaiwoConfig and without kept ones, and leave none behind."""
    await clear(client, namespace)
    yield
    await clear(client, namespace)


async def clear(client: Client, namespace: str) -> None:
    """Delete every KaiwoConfig and what is kept of it."""
    for config in [config async for config in client.list(KAIWO_CONFIG)]:
        await client.delete(KAIWO_CONFIG, None, config["metadata"]["name"])
    with suppress(NotFound):
        await client.delete(CONFIG_MAP, namespace, HISTORY)


def condition(obj: Object | None, kind: str) -> Object:
    """A condition of a KaiwoConfig; empty without one."""
    found = ((obj or {}).get("status") or {}).get("conditions", ())
    return next((item for item in found if item["type"].rpartition("/")[2] == kind), {})


def is_ready(obj: Object | None) -> bool:
    """Whether the current generation is in force."""
    generation = ((obj or {}).get("metadata") or {}).get("generation", 0)
    ready = condition(obj, "Ready")
    return ready.get("status") == "True" and ready.get("observedGeneration") == generation


async def configure(client: Client, manifest: Object | None = None, **spec: Any) -> Object:
    """Apply a KaiwoConfig as an administrator does, and wait until it is in force."""
    head = {
        "apiVersion": KAIWO_CONFIG.api_version,
        "kind": KAIWO_CONFIG.kind,
        "metadata": {"name": "kaiwo"},
    }
    await client.apply(KAIWO_CONFIG, manifest or {**head, "spec": spec}, field_manager="kubectl")
    found = await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready)
    assert found is not None
    return found


async def deleted(client: Client) -> Object:
    """Delete the KaiwoConfig, and wait until it is there again and in force."""
    before = await client.get(KAIWO_CONFIG, None, "kaiwo")
    await client.delete(KAIWO_CONFIG, None, "kaiwo")
    return await again(client, before)


async def again(client: Client, before: Object) -> Object:
    """Wait until the KaiwoConfig is another one, and in force."""
    uid = before["metadata"]["uid"]
    found = await until(
        client, KAIWO_CONFIG, None, "kaiwo",
        lambda obj: obj is not None and obj["metadata"]["uid"] != uid and is_ready(obj),
    )  # fmt: skip
    assert found is not None
    return found


async def warned(client: Client, uid: str) -> str:
    """Wait for the event about a KaiwoConfig that was created again; its message."""
    selector = f"involvedObject.uid={uid},reason=ConfigRecreated"
    end = time.monotonic() + 30
    while not (events := [event async for event in client.list(EVENT, field_selector=selector)]):
        assert time.monotonic() < end, "no event"
        await asyncio.sleep(0.2)
    assert events[0]["type"] == "Warning"
    message: str = events[0]["message"]
    return message


async def test_a_deleted_config_is_reported_and_its_values_are_brought_back_by_the_printed_command(
    operator: Start, client: Client, namespace: str
) -> None:
    """An event, a condition and a gauge; after the command the values are in force and all three are calm."""
    process = await operator(env={"KAIWO_OPERATOR_NAMESPACE": namespace})
    await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready)
    written = {"ray": {"headPodMemory": "24Gi"}, "plugins": {"x": {"token": "s3cret", "size": 3}}}
    config = await configure(client, **written)
    kept = await until(client, CONFIG_MAP, namespace, HISTORY, lambda obj: obj is not None)
    assert kept is not None
    assert "s3cret" not in kept["data"]["latest.yaml"]
    assert "# spec.plugins.x.token is left out" in kept["data"]["latest.yaml"]

    made = await deleted(client)
    assert made["spec"]["ray"]["headPodMemory"] == "16Gi"
    recreated = condition(made, "Recreated")
    assert (recreated["status"], recreated["reason"]) == ("True", "CreatedWithDefaults")
    command = (
        f"kubectl -n {namespace} get configmap {HISTORY} -o jsonpath='{{.data.latest\\.yaml}}' | "
        "kubectl apply --server-side --force-conflicts -f -"
    )
    assert command in recreated["message"]
    assert command in await warned(client, made["metadata"]["uid"])
    assert process.metrics()["kaiwo_config_recreated"] == 1

    manifest = (await client.get(CONFIG_MAP, namespace, HISTORY))["data"]["latest.yaml"]
    restored = await configure(client, yaml.safe_load(manifest))
    assert restored["spec"]["ray"] == config["spec"]["ray"]
    assert restored["spec"]["plugins"] == {"x": {"size": 3}}
    await until(client, KAIWO_CONFIG, None, "kaiwo", lambda obj: not condition(obj, "Recreated"))
    assert process.metrics()["kaiwo_config_recreated"] == 0


async def test_the_last_five_specs_are_kept_and_a_restart_writes_none(
    operator: Start, client: Client, namespace: str
) -> None:
    """Newest first; a default that nobody changed is not among them."""
    env = {"KAIWO_OPERATOR_NAMESPACE": namespace}
    process = await operator(env=env)
    await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, namespace, HISTORY)
    for size in range(1, 8):
        await configure(client, ray={"headPodMemory": f"{size}Gi"})
    kept = await client.get(CONFIG_MAP, namespace, HISTORY)
    assert list(kept["data"]) == ["latest.yaml", *(f"previous-{number}.yaml" for number in range(1, 5))]
    specs = [yaml.safe_load(text)["spec"] for text in kept["data"].values()]
    assert [spec["ray"]["headPodMemory"] for spec in specs] == ["7Gi", "6Gi", "5Gi", "4Gi", "3Gi"]

    await asyncio.to_thread(process.close)
    second = await operator(env=env)
    await asyncio.to_thread(second.wait_log, "KaiwoConfig kaiwo generation")
    edit = {"metadata": {"labels": {"seen": "true"}}}
    await client.merge_patch(KAIWO_CONFIG, None, "kaiwo", edit, field_manager="kubectl")
    await configure(client, ray={"headPodMemory": "8Gi"})
    after = await client.get(CONFIG_MAP, namespace, HISTORY)
    specs = [yaml.safe_load(text)["spec"] for text in after["data"].values()]
    assert [spec["ray"]["headPodMemory"] for spec in specs] == ["8Gi", "7Gi", "6Gi", "5Gi", "4Gi"]


async def test_a_deletion_while_no_operator_runs_is_reported_when_one_starts(
    operator: Start, client: Client, namespace: str
) -> None:
    """The ConfigMap remembers that there were values; a default that was never changed is not lost."""
    env = {"KAIWO_OPERATOR_NAMESPACE": namespace}
    process = await operator(env=env)
    first = await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready)
    assert first is not None
    unchanged = await deleted(client)
    assert not condition(unchanged, "Recreated")
    assert "kubectl" not in await warned(client, unchanged["metadata"]["uid"])
    config = await configure(client, scheduling={"kubeSchedulerName": "mine"})
    await asyncio.to_thread(process.close)
    await client.delete(KAIWO_CONFIG, None, "kaiwo")
    await operator(env=env)
    made = await again(client, config)
    assert condition(made, "Recreated")["status"] == "True"
    assert "kubectl apply" in await warned(client, made["metadata"]["uid"])


async def test_a_restart_with_an_invalid_object_uses_the_kept_values_or_ends_nobody(
    operator: Start, client: Client, namespace: str
) -> None:
    """Never the defaults by mistake: condition and /readyz say which values are in force."""
    env = {"KAIWO_OPERATOR_NAMESPACE": namespace}
    process = await operator(env=env)
    await configure(client, scheduling={"preemption": "Report", "kubeSchedulerName": "mine"})
    await asyncio.to_thread(process.close)
    # The schema lets it through: a chat needs a URL, which only the plugin checks.
    invalid = {"notify": {"sinks": [{"name": "chat", "type": "slack"}]}}
    patch = {"spec": {"plugins": invalid, "scheduling": {"preemption": "Enforce"}}}
    await client.merge_patch(KAIWO_CONFIG, None, "kaiwo", patch, field_manager="kubectl")

    async def restarted(words: str) -> tuple[Any, float]:
        process = await operator(env=env)
        found = await until(
            client,
            KAIWO_CONFIG,
            None,
            "kaiwo",
            lambda obj: words in condition(obj, "Ready").get("message", ""),
        )
        assert condition(found, "Ready")["reason"] == "InvalidValues"
        _, detail = await asyncio.to_thread(process.readyz)
        metrics = await asyncio.to_thread(process.metrics)
        await asyncio.to_thread(process.close)
        assert words in detail["checks"]["config"]
        return detail, metrics['kaiwo_health_check{check="config"}']

    kept = "plugins.notify.sinks"
    detail, well = await restarted("kept in ConfigMap kaiwo-config-history, are in force")
    assert (well, kept in detail["checks"]["config"]) == (1.0, True)
    after = await client.get(CONFIG_MAP, namespace, HISTORY)
    assert yaml.safe_load(after["data"]["latest.yaml"])["spec"]["scheduling"]["preemption"] == "Report"

    await client.delete(CONFIG_MAP, namespace, HISTORY)
    detail, well = await restarted("the defaults are in force, and end no workload early")
    assert (well, detail["ready"]) == (0.0, False)

    process = await operator(env=env)
    await client.merge_patch(
        KAIWO_CONFIG, None, "kaiwo", {"spec": {"plugins": None}}, field_manager="kubectl"
    )
    await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready)
    assert (await asyncio.to_thread(process.readyz))[1]["checks"]["config"] == "in force"


async def test_without_the_right_it_goes_on_and_says_so(
    operator: Start, client: Client, namespace: str
) -> None:
    """A namespace that does not exist cannot be written: the configuration is in force all the same."""
    await operator(env={"KAIWO_OPERATOR_NAMESPACE": f"{namespace}-gone"})
    await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready)
    config = await configure(client, ray={"headPodMemory": "24Gi"})
    problem = condition(config, "HistoryKept")
    assert (problem["status"], problem["reason"]) == ("False", "ConfigMapFailed")
    assert f"{namespace}-gone" in problem["message"]


async def test_the_operators_role_allows_this_configmap_only(
    control_plane: Any, namespace: str, tmp_path: Path
) -> None:
    """It creates and changes it with the rights that are rendered, and no other one."""
    api = control_plane.api
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    paths = {"ServiceAccount": f"/api/v1/namespaces/{namespace}/serviceaccounts"}
    paths |= {"Role": f"{rbac}/roles", "RoleBinding": f"{rbac}/rolebindings"}
    for manifest in operator_roles(Plugins(), namespace):
        if manifest.obj["kind"] in paths:
            api.create(paths[manifest.obj["kind"]], manifest.obj)
    account = f"{paths['ServiceAccount']}/kaiwo-operator"
    token = api.create(f"{account}/token", {"spec": {}})["status"]["token"]
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    async with Client(load(file)) as own:
        for data in ({"a": "1"}, {"b": "2"}):
            await own.apply(CONFIG_MAP, config_map(namespace, HISTORY, data), field_manager="kaiwo")
        assert (await own.get(CONFIG_MAP, namespace, HISTORY))["data"] == {"b": "2"}
        with pytest.raises(Forbidden):
            await own.apply(CONFIG_MAP, config_map(namespace, "another", {}), field_manager="kaiwo")
        with pytest.raises(Forbidden):
            await own.get(CONFIG_MAP, "default", HISTORY)


def config_map(namespace: str, name: str, data: Object) -> Object:
    """A ConfigMap."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
