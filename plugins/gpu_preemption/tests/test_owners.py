"""From a pod to its root owner, whatever owner references say."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.plugin.kit.api_errors import ApiError, ConnectionBroken, EngineError, Forbidden, NotFound
from kaiwo.plugin.kit.cache import Cache
from kaiwo.plugin.kit.kinds import JOB, POD
from kaiwo_gpu_preemption.kinds import (
    APP_WRAPPER,
    FOREIGN_ROOTS,
    KAIWO_JOB,
    KAIWO_ROOTS,
    RAY_CLUSTER,
    RAY_JOB,
    RAY_SERVICE,
    REPLICA_SET,
    kind_of_owner,
)
from kaiwo_gpu_preemption.owners import (
    LONGEST_CHAIN,
    SHORTEST_REFRESH,
    KindNotServed,
    NoRoot,
    OwnerReader,
    OwnerUnreadable,
    Root,
)
from kaiwo_gpu_preemption.policy import PREFIX

if TYPE_CHECKING:
    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.kinds import Object, Resource


@dataclass
class Cluster:
    """Objects by name, each with its controller; every one is its own kind's.

    Attributes:
        objects: metadata by kind and name.
        refused: kinds that the operator may not read.
        down: whether the API server answers nothing.
        failing: what reading an object raises, by kind or by kind and name.
        slow: seconds that a read takes which fails.
        unserved: kinds that the API server does not serve.
        reads: kind and name of each read.
        seconds: the clock.
    """

    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    down: bool = False
    failing: dict[str, Exception] = field(default_factory=dict)
    slow: float = 0.0
    unserved: tuple[str, ...] = ()
    reads: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cached: dict[str, CachedObject] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Have a reader."""
        client: Any = self
        self.reader = OwnerReader(
            client, lambda kind, _, name: self.cached.get(f"{kind.kind}/{name}"), self._clock
        )

    def _clock(self) -> float:
        return self.seconds

    async def get_metadata(self, resource: Resource, _: str, name: str) -> Object:
        """Metadata of an object."""
        self.reads.append(f"{resource.kind}/{name}")
        if self.down:
            raise ConnectionBroken("refused")
        if resource.kind in self.refused:
            raise Forbidden(403, "Forbidden", "no right")
        if resource.kind in self.unserved:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        if error := self.failing.get(resource.kind) or self.failing.get(f"{resource.kind}/{name}"):
            self.seconds += self.slow
            raise error
        if (resource.kind, name) not in self.objects:
            raise NotFound(404, "NotFound", name, {"name": name})
        return {"metadata": self.objects[resource.kind, name]}

    def chain(self, *names: str) -> CachedObject:
        """Make objects of which each owns the one before, ``Pod/w-0``, ``Job/train``; the first one."""
        above: Object | None = None
        for text in reversed(names):
            kind, _, name = text.partition("/")
            metadata = self.metadata(text)
            if above is not None:
                metadata["ownerReferences"] = [above]
            self.objects[kind, name] = metadata
            above = reference(text)
        return cached(self.objects[tuple(names[0].split("/"))])  # type: ignore[index]  # two parts

    def metadata(self, text: str) -> Object:
        """Metadata of an object without owners."""
        name = text.partition("/")[2]
        return {"namespace": "team", "name": name, "uid": f"uid-{text}", "resourceVersion": "1"}

    def root(self, pod: CachedObject) -> Root:
        """The root owner of a pod."""
        return asyncio.run(self.reader.root(pod))


def known(cluster: Cluster, text: str) -> str | None:
    """The name of an owner as the reader knows it, None where it is gone."""
    kind, _, name = text.partition("/")
    found = asyncio.run(cluster.reader.known(KINDS[kind], "team", name, f"uid-{text}"))
    return found.name if found is not None else None


KINDS = {kind.kind: kind for kind in (*FOREIGN_ROOTS, *KAIWO_ROOTS, REPLICA_SET, APP_WRAPPER)}


def reference(text: str, **changes: Any) -> Object:
    """An owner reference."""
    kind, _, name = text.partition("/")
    api_version = KINDS[kind].api_version if kind in KINDS else "example.com/v1"
    found = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{text}", "controller": True}
    return {**found, **changes}


def cached(metadata: Object, kind: Resource = POD) -> CachedObject:
    """An object of the cache."""
    store = Cache().register(kind)
    return store.decode(json.dumps({"metadata": metadata}).encode())


@pytest.mark.parametrize(
    "names",
    [
        ("Pod/alone",),
        ("Pod/w-0", "Job/train"),
        ("Pod/w-0", "ReplicaSet/web-1", "Deployment/web"),
        ("Pod/w-0", "StatefulSet/store"),
        ("Pod/w-0", "RayCluster/ray"),
        ("Pod/w-0", "RayCluster/ray", "RayJob/train"),
        ("Pod/w-0", "RayCluster/ray", "RayService/chat"),
        ("Pod/w-0", "Job/train", "AppWrapper/train", "KaiwoJob/train"),
        ("Pod/w-0", "RayCluster/ray", "RayService/chat", "KaiwoService/chat"),
    ],
)
def test_the_root_owner_is_where_the_chain_ends(names: tuple[str, ...]) -> None:
    """Each kind that the plugin knows; the chain is shown, and all its uids are known."""
    cluster = Cluster()
    found = cluster.root(cluster.chain(*names))
    assert str(found.owner) == names[-1]
    assert (found.chain, found.unreadable) == (" -> ".join(names), "")
    assert found.uids == {f"uid-{name}" for name in names}


@pytest.mark.parametrize("kind", [*FOREIGN_ROOTS, *KAIWO_ROOTS])
def test_another_version_of_a_kind_is_the_same_kind(kind: Resource) -> None:
    """A reference names the version that its author used."""
    version = f"{kind.group}/v9" if kind.group else "v9"
    assert kind_of_owner(version, kind.kind) == kind
    assert kind_of_owner(f"example.com/{kind.version}", kind.kind) is None


def test_the_annotations_of_the_root_count() -> None:
    """Not those of what is below it; a pod without an owner is its own root."""
    cluster = Cluster()
    pod = cluster.chain("Pod/w-0", "Job/train")
    cluster.objects["Job", "train"]["annotations"] = {f"{PREFIX}policy": "Always", "else": "x"}
    assert cluster.root(pod).owner.annotations == {"policy": "Always"}
    alone = cached({**cluster.metadata("Pod/w-1"), "annotations": {f"{PREFIX}enabled": "true"}})
    assert cluster.root(alone).owner.annotations == {"enabled": "true"}


@pytest.mark.parametrize("names", [("Job/a",), ("Job/a", "Deployment/b"), ("Job/a", "Job/b", "Job/c")])
def test_owners_that_lead_back_to_themselves_have_no_root(names: tuple[str, ...]) -> None:
    """Whoever wrote that: the walk ends, and nothing is tracked."""
    cluster = Cluster()
    pod = cluster.chain("Pod/w-0", *names)
    kind, _, name = names[-1].partition("/")
    cluster.objects[kind, name]["ownerReferences"] = [reference(names[0])]
    with pytest.raises(NoRoot, match=r"^owners of pod team/w-0 lead back to Job/a$"):
        cluster.root(pod)


def test_a_pod_that_owns_itself_has_no_root() -> None:
    """The API server takes such a reference."""
    cluster = Cluster()
    pod = cached({**cluster.metadata("Pod/w-0"), "ownerReferences": [reference("Pod/w-0")]})
    with pytest.raises(NoRoot, match="lead back to Pod/w-0"):
        cluster.root(pod)


@pytest.mark.parametrize("owners", [LONGEST_CHAIN - 1, LONGEST_CHAIN, 500])
def test_a_chain_is_followed_to_its_bound_only(owners: int) -> None:
    """Anybody may make a long one; the longest real one has five objects."""
    cluster = Cluster()
    pod = cluster.chain("Pod/w-0", *(f"Job/j{number}" for number in range(owners)))
    if owners < LONGEST_CHAIN:
        assert cluster.root(pod).owner.name == f"j{owners - 1}"
        return
    with pytest.raises(NoRoot, match=r"^pod team/w-0 has more than 9 owners, one above the other$"):
        cluster.root(pod)
    assert len(cluster.reads) < LONGEST_CHAIN


def test_an_owner_that_is_gone_leaves_no_root() -> None:
    """The garbage collector is going to delete the pod; another object of that name is not the owner."""
    cluster = Cluster()
    pod = cluster.chain("Pod/w-0", "Job/train")
    cluster.objects["Job", "train"]["uid"] = "another"
    with pytest.raises(NoRoot, match=r"^Job/train, the owner of Pod/w-0, is gone$"):
        cluster.root(pod)
    del cluster.objects["Job", "train"]
    cluster.seconds += SHORTEST_REFRESH
    with pytest.raises(NoRoot, match="is gone"):
        cluster.root(pod)


def test_an_owner_that_may_not_be_read_is_named_and_asked_for_again_later() -> None:
    """The root is what is below it; the right may be given at any moment."""
    cluster = Cluster(refused=("RayCluster",))
    pod = cluster.chain("Pod/w-0", "Job/train", "RayCluster/ray")
    found = cluster.root(pod)
    assert str(found.owner) == "Job/train"
    assert found.unreadable == (
        "its owner RayCluster/ray cannot be read: the operator has no right to get rayclusters.ray.io"
    )
    cluster.refused = ()
    assert cluster.root(pod).unreadable
    cluster.seconds += SHORTEST_REFRESH
    again = cluster.root(pod)
    assert (str(again.owner), again.unreadable) == ("RayCluster/ray", "")


def test_an_owner_of_a_kind_that_nobody_knows_is_named() -> None:
    """No request is sent: its URL is not known."""
    cluster = Cluster()
    pod = cluster.chain("Pod/w-0", "Job/train", "Workflow/nightly")
    found = cluster.root(pod)
    assert str(found.owner) == "Job/train"
    assert found.unreadable == "its owner Workflow/nightly is of a kind that is not known"
    assert cluster.reads == ["Job/train"]


def test_an_owner_is_read_once_for_all_its_pods_and_again_after_a_while() -> None:
    """5,000 pods of one Job cost one request in half a minute."""
    cluster = Cluster()
    pod = cluster.chain("Pod/w-0", "Job/train")
    for _ in range(3):
        cluster.root(pod)
    assert cluster.reads == ["Job/train"]
    cluster.seconds += SHORTEST_REFRESH
    cluster.root(pod)
    assert cluster.reads == ["Job/train"] * 2


def test_an_api_server_that_does_not_answer_costs_nothing_that_is_known() -> None:
    """What was known goes on to hold; of what was not the error is passed on."""
    cluster = Cluster()
    pod, other = cluster.chain("Pod/w-0", "Job/train"), cluster.chain("Pod/w-1", "Job/other")
    found = cluster.root(pod)
    cluster.down, cluster.seconds = True, SHORTEST_REFRESH
    assert cluster.root(pod) == found
    with pytest.raises(OwnerUnreadable, match=r"^Job/other in namespace team cannot be read: refused$"):
        cluster.root(other)


@pytest.mark.parametrize("error", [ApiError(500, "", "webhook failed"), ConnectionBroken("timed out")])
def test_an_owner_that_cannot_be_read_harms_no_other(error: EngineError) -> None:
    """Whatever the reason: it is named, and read again after a while only, however many pods it has."""
    cluster = Cluster(failing={"Job/broken": error})
    pods = [cluster.chain(f"Pod/w-{number}", "Job/broken") for number in range(5)]
    other = cluster.chain("Pod/x-0", "Job/other")
    for pod in pods:
        with pytest.raises(OwnerUnreadable, match=f"^Job/broken in namespace team cannot be read: {error}$"):
            cluster.root(pod)
        assert str(cluster.root(other).owner) == "Job/other"
    assert cluster.reads == ["Job/broken", "Job/other"]
    cluster.failing, cluster.seconds = {}, SHORTEST_REFRESH
    assert str(cluster.root(pods[0]).owner) == "Job/broken"


def test_what_was_known_of_an_owner_that_cannot_be_read_holds_and_is_asked_for_again_later() -> None:
    """A read that fails may take a minute; each pod in each pass would wait for it."""
    cluster = Cluster()
    pods = [cluster.chain(f"Pod/w-{number}", "Job/train") for number in range(5)]
    found = cluster.root(pods[0])
    cluster.failing, cluster.seconds = {"Job/train": ApiError(500)}, SHORTEST_REFRESH
    assert {str(cluster.root(pod).owner) for pod in pods} == {str(found.owner)}
    assert cluster.reads == ["Job/train"] * 2


def test_reads_that_take_long_to_fail_hold_up_a_pass_for_a_bounded_time() -> None:
    """A conversion webhook that does not answer costs every RayCluster; others are read meanwhile."""
    cluster = Cluster(failing={"RayCluster": ConnectionBroken("timed out")}, slow=15.0)
    rays = [cluster.chain(f"Pod/r-{number}", f"RayCluster/r{number}") for number in range(50)]
    jobs = [cluster.chain(f"Pod/j-{number}", f"Job/j{number}") for number in range(50)]
    cluster.reader.begin_pass()
    for ray, job in zip(rays, jobs, strict=True):
        with pytest.raises(OwnerUnreadable):
            cluster.root(ray)
        assert cluster.root(job).owner.resource == JOB
    assert cluster.seconds == 30
    before = len(cluster.reads)
    cluster.reader.begin_pass()
    for ray in rays:
        with pytest.raises(OwnerUnreadable):
            cluster.root(ray)
    assert cluster.reads[before:] == ["RayCluster/r2", "RayCluster/r3"]  # in turn


def test_an_owner_of_a_kind_that_is_not_served_is_named_and_not_taken_for_gone() -> None:
    """Its controller may serve another version, or is being installed again."""
    cluster = Cluster(unserved=("RayCluster",))
    pod = cluster.chain("Pod/w-0", "Job/train", "RayCluster/ray")
    found = cluster.root(pod)
    assert str(found.owner) == "Job/train"
    assert found.unreadable == (
        "its owner RayCluster/ray cannot be read: the API server does not serve rayclusters.ray.io "
        "(ray.io/v1)"
    )
    for _ in range(2):  # the answer is kept
        with pytest.raises(KindNotServed):
            known(cluster, "RayCluster/ray")


def test_an_owner_that_was_known_stays_while_its_kind_is_not_served() -> None:
    """As in the first moments of an API server; its pods get no other root for that."""
    cluster = Cluster()
    pod = cluster.chain("Pod/w-0", "RayCluster/ray")
    found = cluster.root(pod)
    cluster.unserved, cluster.seconds = ("RayCluster",), SHORTEST_REFRESH
    assert cluster.root(pod) == found


def test_what_the_operator_watches_anyhow_is_not_read() -> None:
    """KaiwoJobs are in its cache; one with another uid is another one."""
    cluster = Cluster()
    pod = cluster.chain("Pod/w-0", "KaiwoJob/train")
    cluster.cached["KaiwoJob/train"] = cached(cluster.objects["KaiwoJob", "train"], KAIWO_JOB)
    assert str(cluster.root(pod).owner) == "KaiwoJob/train"
    assert cluster.reads == []


def test_a_reference_that_is_no_controller_is_no_owner() -> None:
    """As Kubernetes sees it: several objects may have a share in one."""
    cluster = Cluster()
    shared = reference("Job/train", controller=False)
    pod = cached({**cluster.metadata("Pod/w-0"), "ownerReferences": [shared]})
    assert str(cluster.root(pod).owner) == "Pod/w-0"


def test_owners_that_nobody_asks_for_are_forgotten() -> None:
    """The memory does not grow with what was there once."""
    cluster = Cluster()
    pod = cluster.chain("Pod/w-0", "RayCluster/ray")
    cluster.root(pod)
    cluster.seconds = 100
    cluster.reader.forget_unused(50)
    cluster.root(pod)
    assert cluster.reads == ["RayCluster/ray"] * 2


def test_ray_kinds_are_roots() -> None:
    """Those that a user makes himself, without Kaiwo."""
    assert {RAY_CLUSTER, RAY_JOB, RAY_SERVICE} <= set(FOREIGN_ROOTS)


def test_an_owner_that_may_not_be_read_is_not_taken_for_gone() -> None:
    """The record of a workload that exists would say that it was deleted, and expire."""
    cluster = Cluster()
    cluster.chain("Pod/w-0", "Job/train")
    assert (known(cluster, "Job/train"), known(cluster, "Job/other")) == ("train", None)
    cluster.refused, cluster.seconds = ("Job",), 1000.0
    for _ in range(2):  # the answer is kept
        with pytest.raises(EngineError, match="no right to get jobs"):
            known(cluster, "Job/train")
