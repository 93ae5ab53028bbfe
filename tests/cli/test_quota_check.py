"""What a queue can never give is said before a workload waits for it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import click
import pytest

from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.cli.commands.run import _warn_of_quota
from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.quota_check import QuotaCheck
from kaiwo.engine.errors import Forbidden, NotFound
from kaiwo.plugin.loader import load
from kaiwo.plugin.queues import QueueFacts
from kaiwo.plugin.selection import PluginSelection
from kaiwo.testing import job, node, service
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.model import Facts, Registry
from kaiwo.workload.plan import plan_object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.engine.resource import Object, Resource
    from kaiwo.workload.model import Plan

GPU = "amd.com/gpu"
NAMES = ("batch_job", "ray_job", "deployment", "ray_service", "gpu_amd", "kueue")
PLUGINS = load(PluginSelection(names=NAMES))
NODES = tuple(node_fact(node(f"n-{at}", gpus={GPU: 8}), PLUGINS.vendors) for at in range(8))


class Cluster:
    """Answers lists from objects by plural; a kind in `forbidden` may not be listed at all."""

    def __init__(self, objects: dict[str, list[Object]], forbidden: str = "") -> None:
        self.objects = objects
        self.forbidden = forbidden
        self.lists: list[str] = []
        self.namespace = "team"

    def list(self, kind: Resource, namespace: str | None = None, **_: object) -> list[Object]:
        """The objects."""
        self.lists.append(kind.plural)
        if kind.plural == self.forbidden:
            raise Forbidden(403, "Forbidden", f"{kind} is forbidden")
        if kind.plural not in self.objects:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        every = self.objects[kind.plural]
        return [obj for obj in every if namespace in (None, obj["metadata"].get("namespace"))]

    def get(self, kind: Resource, namespace: str | None, name: str) -> Object:
        """Nothing but lists is there."""
        raise NotFound(404, "NotFound", f"{kind} {namespace} {name}")

    def served(self, *kinds: Resource) -> frozenset[Resource]:
        """Everything is."""
        return frozenset(kinds)

    def run(self, use: Callable[[Any], Any]) -> Any:
        """As `kaiwo.cli.kit.Cluster.run`."""
        return asyncio.run(use(Api(self)))


class Api:
    """The asynchronous client of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def list(self, kind: Resource, namespace: str | None = None) -> AsyncIterator[Object]:
        """The objects."""
        for obj in self.cluster.list(kind, namespace):
            yield obj

    async def get(self, kind: Resource, namespace: str | None, name: str) -> Object:
        """Nothing but lists is there."""
        return self.cluster.get(kind, namespace, name)


def queue(name: str, *flavors: dict[str, str], **spec: Any) -> Object:
    """A ClusterQueue with a quota of each flavor."""
    listed = [
        {
            "name": f"flavor-{at}",
            "resources": [{"name": key, "nominalQuota": value} for key, value in flavor.items()],
        }
        for at, flavor in enumerate(flavors)
    ]
    groups = [{"coveredResources": list(flavors[0]), "flavors": listed}]
    return {"metadata": {"name": name}, "spec": {"resourceGroups": groups, **spec}}


def entrance(name: str, leads_to: str) -> Object:
    """A LocalQueue."""
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": leads_to}}


def objects(*queues: Object, entrances: tuple[Object, ...] = ()) -> dict[str, list[Object]]:
    """A cluster with Kueue."""
    return {"clusterqueues": list(queues), "localqueues": list(entrances), "cohorts": [], "workloads": []}


def plan(obj: Object) -> Plan:
    """The plan of a workload that the queue system puts into the queue that it names."""
    facts = Facts(
        now=datetime(2026, 1, 1, tzinfo=UTC),
        config=ResolvedConfig.defaults(),
        nodes=NODES,
        queue_facts=QueueFacts(objects={}, default_queue="kaiwo"),
    )
    found = plan_object(obj, Registry.of(PLUGINS), facts)
    assert found.rendered, found.statuses
    return found


def warning(obj: Object, cluster: Cluster) -> str:
    """What is said of a workload."""
    return QuotaCheck(cast("Any", cluster), PLUGINS).warning(plan(obj), "team")


GROUPS = {
    "spec": {
        "entrypoint": "a.py",
        "rayClusterSpec": {
            "workerGroupSpecs": [
                {
                    "groupName": name,
                    "template": {
                        "spec": {"containers": [{"name": "w", "resources": {"limits": {GPU: "8"}}}]}
                    },
                }
                for name in "ab"
            ]
        },
    }
}
"""A Ray job with two groups of eight GPUs."""

SMALL = queue("small", {GPU: "8"})


def parallel(pods: int, least: str = "", **spec: Any) -> Object:
    """A job of several equal pods with four GPUs each, which may start with fewer where `least` is given."""
    annotations = {"kueue.x-k8s.io/job-min-parallelism": least} if least else {}
    body = {"parallelism": pods, "template": {"spec": {"containers": [{"name": "a"}]}}, **spec}
    return job(gpus=4, job={"metadata": {"annotations": annotations}, "spec": body}, image="i")


@pytest.mark.parametrize(
    ("workload", "queues", "said"),
    [
        pytest.param(job(gpus=8), [SMALL], "", id="fits"),
        pytest.param(
            job(gpus=16, ray=True), [SMALL], "requests 16 amd.com/gpu, and the queue can have at most 8",
            id="ray",
        ),
        pytest.param(
            service(gpus=16, ray=True), [SMALL], "requests 16 amd.com/gpu, and the queue can have at most 8",
            id="ray-service",
        ),
        pytest.param(
            job(gpus=8), [queue("small", {GPU: "4"})],
            "requests 8 amd.com/gpu, and the queue can have at most 4", id="job",
        ),
        pytest.param(
            job(gpus=8),
            [queue("small", {GPU: "4"}, cohortName="c"), queue("other", {GPU: "4"}, cohortName="c")],
            "", id="borrows",
        ),
        pytest.param(
            job(gpus=8),
            [
                queue("small", {GPU: "4"}, cohortName="c"),
                queue("other", {GPU: "2"}, cohortName="c"),
            ],
            "requests 8 amd.com/gpu, and the queue can have at most 6", id="borrows-too-little",
        ),
        pytest.param(
            job(gpus=8), [queue("small", {GPU: "4"}, {GPU: "4"})],
            "requests 8 amd.com/gpu, and the queue can have at most 4", id="one-pod-takes-one-flavor",
        ),
        pytest.param(
            service(gpus=16, replicas=4), [SMALL], "", id="replicas-are-admitted-one-by-one",
        ),
        pytest.param(
            job(rayJob=GROUPS), [queue("small", {GPU: "8"}, {GPU: "8"})], "",
            id="groups-take-two-flavors",
        ),
        pytest.param(
            job(rayJob=GROUPS), [queue("small", {GPU: "8"}, {GPU: "4"})],
            "requests 16 amd.com/gpu, and the queue can have at most 12", id="groups",
        ),
        pytest.param(parallel(2), [SMALL], "", id="parallel-pods-fit"),
        pytest.param(
            parallel(4), [SMALL], "requests 16 amd.com/gpu, and the queue can have at most 8",
            id="parallel-pods-start-together",
        ),
        pytest.param(
            parallel(4), [queue("small", {GPU: "8"}, {GPU: "8"})],
            "requests 16 amd.com/gpu, and the queue can have at most 8", id="parallel-pods-take-one-flavor",
        ),
        pytest.param(parallel(4, completions=2), [SMALL], "", id="no-more-pods-than-completions"),
        pytest.param(parallel(4, least="2"), [SMALL], "", id="starts-with-fewer"),
        pytest.param(
            parallel(4, least="3"), [SMALL], "requests 12 amd.com/gpu, and the queue can have at most 8",
            id="starts-with-too-few-less",
        ),
        pytest.param(
            job(resources={"requests": {"memory": "2Ti"}}), [queue("small", {"memory": "1Ti"})],
            "requests 2Ti memory, and the queue can have at most 1Ti", id="memory",
        ),
        pytest.param(job(gpus=8), [queue("small", {"cpu": "100"})], "", id="not-covered"),
        pytest.param(job(gpus=8), [queue("other", {GPU: "1"})], "", id="unknown-queue"),
    ],
)  # fmt: skip
def test_a_request_beyond_the_quota_is_said_at_once(
    workload: Object, queues: list[Object], said: str
) -> None:
    """The sum of own quota and what may be borrowed, in the words of ``kaiwo why``."""
    workload["spec"]["clusterQueue"] = "small"
    found = warning(workload, Cluster(objects(*queues)))
    assert said in found
    assert bool(found) == bool(said)
    assert not said or "queue small can never start it" in found


def test_the_name_of_a_queue_is_followed_in_the_namespace() -> None:
    """A LocalQueue may have another name than the queue behind it, and win over a queue of its name."""
    leads = (entrance("fast", "small"),)
    found = objects(SMALL, queue("fast", {GPU: "64"}), entrances=leads)
    assert "queue small can never" in warning(job(gpus=16, ray=True, clusterQueue="fast"), Cluster(found))


@pytest.mark.parametrize("kind", ["clusterqueues", "localqueues", "cohorts"])
def test_what_may_not_be_read_is_no_reason_to_warn(kind: str) -> None:
    """A cohort that is not known may have the rest."""
    workload = job(gpus=16, ray=True, clusterQueue="small")
    assert warning(workload, Cluster(objects(SMALL)))
    assert not warning(workload, Cluster(objects(SMALL), forbidden=kind))
    assert not warning(workload, Cluster({}))


def test_a_run_warns_before_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    """And what cannot be planned is left to the API server, which refuses it."""
    nodes = [node(f"n-{at}", gpus={GPU: 8}) for at in range(2)]
    cluster = Cluster({**objects(SMALL, entrances=(entrance("small", "small"),)), "nodes": nodes})
    wanted = job(name="tune", namespace="team", gpus=16, ray=True, clusterQueue="small")
    said = "it requests 16 amd.com/gpu, and the queue can have at most 8"
    with click.Context(click.Command("run"), obj=GlobalOptions()):
        _warn_of_quota(cast("Any", cluster), wanted)
        assert f"warning: job/tune: queue small can never start it: {said}" in capsys.readouterr().err
        _warn_of_quota(cast("Any", cluster), {**wanted, "spec": {"gpus": "many"}})
        assert "queue small" not in capsys.readouterr().err


def test_quotas_are_read_once_and_no_workload_with_them() -> None:
    """Of hundreds of workloads in one submission as of one."""
    cluster = Cluster(objects(SMALL))
    check = QuotaCheck(cast("Any", cluster), PLUGINS)
    for _ in range(3):
        assert check.warning(plan(job(gpus=16, ray=True, clusterQueue="small")), "team")
    assert sorted(cluster.lists) == ["clusterqueues", "cohorts", "localqueues"]
