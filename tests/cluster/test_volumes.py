"""Volumes on a real API server: classes that are not there, that wait for a pod, that let volumes grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

FOREVER = {"kaiwo-sandbox/forever": "true"}


async def test_a_volume_of_a_class_that_does_not_exist_says_so(
    operator: Start, lab: Any, condition: Any
) -> None:
    """The class, and which there are; the volume controller's own words as well."""
    await operator()
    await lab.submit("classless", storage=lab.cloning(storageClassName="nowhere"))
    status = await lab.reaches("classless", "PENDING", reason="VolumePending")
    assert "no StorageClass 'nowhere' exists; existing: " in status["message"]
    assert condition(status, "StorageReady")["status"] == "False"
    status = await lab.says("classless", '"nowhere" not found')
    assert status["status"] == "PENDING"


async def test_a_class_that_waits_for_a_pod_is_no_error(
    operator: Start, lab: Any, condition: Any, waiting_class: str
) -> None:
    """The claim is reported without a problem; the cause that keeps its first pod from a node is reported."""
    await operator()
    await lab.submit("patient", storage=lab.cloning(storageClassName=waiting_class))
    status = await lab.reaches("patient", "PENDING", reason="VolumeNotBound")
    ready = condition(status, "StorageReady")
    assert (ready["status"], ready["reason"]) == ("Unknown", "WaitForFirstConsumer")


@pytest.fixture
async def waiting_class(lab: Any) -> AsyncIterator[str]:
    """A StorageClass whose claims wait for their first pod, and that has no volumes."""
    name = f"waits-{lab.namespace}"
    await lab.client.create(
        STORAGE_CLASS,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    yield name
    await lab.client.delete(STORAGE_CLASS, None, name)


async def test_a_volume_grows_where_its_class_allows_it(
    operator: Start, lab: Any, condition: Any, growing_class: Callable[[bool], Awaitable[str]]
) -> None:
    """Otherwise the workload runs on and a condition says why it does not grow."""
    await operator()
    for name, expands in (("grows", True), ("stays", False)):
        plain = {
            "storageEnabled": True,
            "storageClassName": await growing_class(expands),
            "data": {"storageSize": "1Gi"},
        }
        await lab.submit(name, storage=plain, pods=FOREVER)
        await lab.reaches(name, "RUNNING")
        more = {"spec": {"storage": {"data": {"storageSize": "2Gi"}}}}
        await lab.client.merge_patch(KAIWO_JOB, lab.namespace, name, more)
    grown = await until(
        lab.client, PERSISTENT_VOLUME_CLAIM, lab.namespace, "grows-data",
        lambda obj: (obj or {})["spec"]["resources"]["requests"]["storage"] == "2Gi",
    )  # fmt: skip
    assert grown is not None
    refused = await until(
        lab.client, KAIWO_JOB, lab.namespace, "stays",
        lambda obj: condition((obj or {}).get("status", {}), "StorageReady").get("status") == "False",
    )  # fmt: skip
    assert refused is not None
    ready = condition(refused["status"], "StorageReady")
    assert ready["reason"] == "VolumeNotExpandable"
    assert "allowVolumeExpansion" in ready["message"]
    assert refused["status"]["status"] == "RUNNING"


@pytest.fixture
async def growing_class(lab: Any) -> AsyncIterator[Callable[[bool], Awaitable[str]]]:
    """A function that makes a StorageClass with the sandbox's provisioner, which lets volumes grow or not."""
    made: list[str] = []

    async def make(expands: bool) -> str:
        name = f"{'grows' if expands else 'stays'}-{lab.namespace}"
        await lab.client.create(
            STORAGE_CLASS,
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "kubernetes.io/host-path",
                "allowVolumeExpansion": expands,
            },
        )
        made.append(name)
        return name

    yield make
    for name in made:
        await lab.client.delete(STORAGE_CLASS, None, name)
