"""Kueue that is not there, comes later, and goes again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION
from kaiwo.testing.operator import until
from kaiwo_kueue.kinds import CLUSTER_QUEUE, GROUP, LOCAL_QUEUE, QUEUE_CONFIG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix]

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def bare(control_plane: Any, install: Callable[[Any], None]) -> Iterator[Any]:
    """A control plane without Kueue."""
    from kaiwo_sandbox.sandbox import Sandbox

    sandbox = Sandbox.up(f"pytest-{os.getpid()}-bare", generation=control_plane.generation, owned=True)
    try:
        install(sandbox)
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture
def appear(
    control_plane: Any, bare: Any, apply_crd: Callable[[Any, Object], None]
) -> Callable[..., list[str]]:
    """A function that installs Kueue's CRDs in their stored version, without a webhook; their names."""

    def install_kueue(*, but: str = "") -> list[str]:
        names = []
        for crd in control_plane.api.get(_CRDS)["items"]:
            if crd["spec"]["group"] != GROUP or crd["spec"]["names"]["plural"] == but:
                continue
            spec = {key: value for key, value in crd["spec"].items() if key != "conversion"}
            spec["versions"] = [item for item in spec["versions"] if item["storage"]]
            head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
            apply_crd(bare, {**head, "metadata": {"name": crd["metadata"]["name"]}, "spec": spec})
            names.append(crd["metadata"]["name"])
        return names

    return install_kueue


@pytest.fixture
async def there(bare: Any) -> AsyncIterator[Client]:
    """A client of that control plane."""
    async with Client(load(bare.kubeconfig)) as client:
        yield client


def job_in(namespace: str) -> Object:
    """A KaiwoJob named ``waits``."""
    return {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {"name": "waits", "namespace": namespace},
        "spec": {"image": "registry.example/train:1"},
    }


def says(word: str, reason: str) -> Callable[[Object | None], bool]:
    """Whether a KaiwoQueueConfig has a status for a reason."""

    def holds(obj: Object | None) -> bool:
        status = (obj or {}).get("status") or {}
        ready = [item for item in status.get("conditions", ()) if item["type"] == "Ready"]
        return status.get("status") == word and ready[0]["reason"] == reason

    return holds


async def test_kueue_may_be_absent_come_and_go(
    bare: Any, there: Client, appear: Callable[..., list[str]], operator: Start
) -> None:
    """Shown on the KaiwoQueueConfig and on each workload, never fatal; the served version is written."""
    version = "v1beta1" if bare.generation == "older" else "v1beta2"
    await operator(kubeconfig=bare.kubeconfig)
    await until(there, QUEUE_CONFIG, None, "kaiwo", says("PENDING", "KueueNotInstalled"), timeout=120)
    namespace = "absent"
    bare.create_namespace(namespace)
    await there.create(KAIWO_JOB, job_in(namespace))
    unavailable = lambda obj: obj and obj.get("status", {}).get("reason") == "QueueUnavailable"  # noqa: E731
    await until(there, KAIWO_JOB, namespace, "waits", unavailable, timeout=120)

    names = appear()
    await until(there, QUEUE_CONFIG, None, "kaiwo", says("READY", "Synced"), timeout=120)
    await until(
        there, KAIWO_JOB, namespace, "waits", lambda obj: obj and obj["status"].get("childUID"), timeout=120
    )
    await there.find_version(CLUSTER_QUEUE)
    assert there.in_use(CLUSTER_QUEUE).version == version
    queue = await there.get(CLUSTER_QUEUE, None, "kaiwo")
    assert queue["spec"]["cohort" if version == "v1beta1" else "cohortName"] == "kaiwo"
    await there.find_version(LOCAL_QUEUE)
    assert await there.get(LOCAL_QUEUE, namespace, "kaiwo")

    for name in names:
        await there.delete(CUSTOM_RESOURCE_DEFINITION, None, name)
    await until(there, QUEUE_CONFIG, None, "kaiwo", says("PENDING", "KueueNotInstalled"), timeout=120)
    await there.delete(KAIWO_JOB, namespace, "waits")


async def test_a_kind_of_kueue_that_comes_after_the_others_is_noticed_at_once(
    bare: Any, there: Client, appear: Callable[..., list[str]], operator: Start
) -> None:
    """An installation applies one CRD after another; what the operator wrote between is completed."""
    await operator(kubeconfig=bare.kubeconfig)
    namespace = "one-by-one"
    bare.create_namespace(namespace)
    await there.create(KAIWO_JOB, job_in(namespace))
    appear(but=LOCAL_QUEUE.plural)

    def only_local_queues_lack(obj: Object | None) -> bool:
        conditions = ((obj or {}).get("status") or {}).get("conditions", ())
        lack = [item["type"] for item in conditions if item["reason"] == "NotServed"]
        return says("READY", "Synced")(obj) and lack == ["LocalQueuesSynced"]

    await until(there, QUEUE_CONFIG, None, "kaiwo", only_local_queues_lack, timeout=120)
    names = appear()
    has_child = lambda obj: obj and obj.get("status", {}).get("childUID")  # noqa: E731
    await until(there, KAIWO_JOB, namespace, "waits", has_child, timeout=120)
    await there.delete(KAIWO_JOB, namespace, "waits")
    for name in names:
        await there.delete(CUSTOM_RESOURCE_DEFINITION, None, name)
