"""Whom an owner that cannot be read concerns."""

from __future__ import annotations

import logging

import pytest

from kaiwo.plugin.kit.api_errors import ConnectionBroken
from kaiwo_gpu_preemption.owners import OwnerRef, OwnerUnreadable
from kaiwo_gpu_preemption.unreadable import UnreadableOwners


def unreadable(text: str, namespace: str = "team") -> OwnerUnreadable:
    """An owner ``Job/broken``."""
    kind, _, name = text.partition("/")
    reference = OwnerRef("v1", kind, name, f"uid-{text}")
    return OwnerUnreadable(namespace, reference, ConnectionBroken("timed out"))


@pytest.mark.parametrize(
    ("owner", "chain", "concerned"),
    [
        pytest.param("Job/broken", "Pod/w-0 -> Job/broken", True, id="itself"),
        pytest.param("Job/broken", "Pod/w-0 -> Job/other", False, id="another-root"),
        pytest.param("Job/broken", "Pod/w-0 -> Job/other -> KaiwoJob/other", True, id="may-be-above"),
        pytest.param("ReplicaSet/b", "Pod/w-0 -> ReplicaSet/a -> Deployment/web", True, id="a-rollout"),
        pytest.param("Job/broken", "Pod/w-0 -> ReplicaSet/a -> Deployment/web", False, id="never-above"),
        pytest.param("RayCluster/b", "Pod/w-0", False, id="a-bare-pod"),
        pytest.param("RayCluster/b", "Pod/w-0 -> Job/a -> AppWrapper/a", True, id="of-several-kinds"),
        pytest.param("RayCluster/b", "", False, id="nothing-recorded"),
    ],
)
def test_an_owner_that_cannot_be_read_concerns_who_may_be_above_it(
    owner: str, chain: str, concerned: bool
) -> None:
    """Busy pods of a workload may be among those that are not known; whoever cannot have them goes on."""
    owners = UnreadableOwners()
    owners.add(unreadable(owner))
    uid = f"uid-{chain.rpartition(' -> ')[2]}"
    assert owners.concern("team", chain, uid) == concerned
    assert not owners.concern("other", chain, uid)
    owners.begin_pass()
    assert not owners.concern("team", chain, uid)


def test_it_is_logged_when_it_begins(caplog: pytest.LogCaptureFixture) -> None:
    """With what the API server says; each pass and each pod would repeat it."""
    owners = UnreadableOwners()
    with caplog.at_level(logging.WARNING):
        for owner in ("Job/a", "Job/a", "Job/b"):
            owners.begin_pass()
            for _ in range(3):
                owners.add(unreadable(owner))
    assert caplog.messages == [
        f"Job/{name} in namespace team cannot be read: timed out; no workload that may have its pods is "
        "ended meanwhile"
        for name in "ab"
    ]
