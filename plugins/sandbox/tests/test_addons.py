"""The controllers besides Kubernetes really work: admission, conversion, Ray and AppWrapper."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_sandbox import addons
from kaiwo_sandbox.api import SandboxApiError
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo_sandbox.api import Object

SECONDS = 60.0
QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
KUEUE = "/apis/kueue.x-k8s.io"
VERSIONS = {"newer": ("v1beta1", "v1beta2"), "older": ("v1beta1",)}
"""Of Kueue's API, by generation; the last one is stored."""
CONTAINER = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}


def test_an_unknown_addon_is_refused_before_anything_starts() -> None:
    """With the names that exist."""
    with pytest.raises(SandboxError, match="appwrapper, kuberay, kueue"):
        addons.load(["kueue", "slurm"])


@pytest.fixture(scope="module")
def full() -> Iterator[Sandbox]:
    """A sandbox with all addons and a queue `team` with 4 cores in namespace default.

    Of the generation that this session tests; not the shared platform, because it is reset.
    """
    generation = os.environ.get("KAIWO_SANDBOX_GENERATION") or "newer"
    name = f"with-addons-{os.getpid()}"
    sandbox = Sandbox.up(name, addons=list(addons.ADDONS), generation=generation, owned=True)
    try:
        _make_queue(sandbox)
        yield sandbox
    finally:
        sandbox.down()


def _kueue(sandbox: Sandbox) -> str:
    """The path of Kueue's stored version."""
    return f"{KUEUE}/{VERSIONS[sandbox.generation][-1]}"


def _make_queue(sandbox: Sandbox) -> None:
    flavors = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]
    for collection, kind, name, spec in (
        ("resourceflavors", "ResourceFlavor", "any", {}),
        (
            "clusterqueues",
            "ClusterQueue",
            "all",
            {
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
            },
        ),
        ("namespaces/default/localqueues", "LocalQueue", "team", {"clusterQueue": "all"}),
    ):
        sandbox.api.create(
            f"{_kueue(sandbox)}/{collection}",
            {
                "apiVersion": _kueue(sandbox).removeprefix("/apis/"),
                "kind": kind,
                "metadata": {"name": name},
                "spec": spec,
            },
        )


def _wait(sandbox: Sandbox, collection: str, name: str, condition: Callable[[Object], object]) -> Object:
    last: Any = None
    for event in sandbox.api.watch(f"{collection}?fieldSelector=metadata.name%3D{name}", timeout=SECONDS):
        last = event["object"]
        if condition(last):
            return dict(last)
    pytest.fail(f"{name} did not get there in {SECONDS:.0f} s: {json.dumps(last)}")


def _job(name: str, *, cpu: str = "1") -> Object:
    container = {**CONTAINER, "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": QUEUE},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.mark.cluster
@pytest.mark.matrix
def test_a_job_with_a_queue_label_is_admitted_and_finishes(full: Sandbox) -> None:
    """Kueue's webhook suspends it, its controller admits it, and Kubernetes runs it."""
    assert full.api.create(JOBS, _job("queued"))["spec"]["suspend"] is True
    _wait(full, JOBS, "queued", lambda job: job["status"].get("completionTime"))
    events = full.api.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dqueued")
    assert "Admitted by clusterQueue all" in {item.get("message") for item in events["items"]}


@pytest.mark.cluster
@pytest.mark.matrix
def test_a_job_beyond_the_quota_waits(full: Sandbox) -> None:
    """It stays suspended and its Workload says why."""
    full.api.create(JOBS, _job("large", cpu="50"))
    path = f"{_kueue(full)}/namespaces/default/workloads"
    for event in full.api.watch(path, timeout=SECONDS):
        if not event["object"]["metadata"]["name"].startswith("job-large-"):
            continue
        conditions = event["object"].get("status", {}).get("conditions") or []
        pending = [item for item in conditions if item["type"] == "QuotaReserved"]
        if pending:
            break
    else:
        pytest.fail("no condition was written")
    assert pending[0]["reason"] == "Pending"
    assert "insufficient quota for cpu in flavor any" in pending[0]["message"]
    assert full.api.get(f"{JOBS}/large")["spec"]["suspend"] is True


@pytest.mark.cluster
@pytest.mark.matrix
def test_kueue_is_of_the_generation_that_was_asked_for(full: Sandbox) -> None:
    """It serves the versions of that release, each with its own words: the conversion webhook is reached."""
    served = [item["version"] for item in full.api.get(KUEUE)["versions"]]
    assert {version for version in served if version.startswith("v1beta")} == set(VERSIONS[full.generation])
    for version in VERSIONS[full.generation]:
        queue = full.api.get(f"{KUEUE}/{version}/clusterqueues/all")
        assert queue["apiVersion"] == f"kueue.x-k8s.io/{version}"
    word = {"newer": "MayStopSearch", "older": "Borrow"}[full.generation]
    assert queue["spec"]["flavorFungibility"]["whenCanBorrow"] == word


@pytest.mark.cluster
@pytest.mark.matrix
def test_kubernetes_own_namespace_is_left_alone(full: Sandbox) -> None:
    """A Job there is neither suspended nor held, label or not."""
    jobs = "/apis/batch/v1/namespaces/kube-system/jobs"
    assert not full.api.create(jobs, _job("system"))["spec"].get("suspend")


@pytest.mark.cluster
@pytest.mark.matrix
def test_a_ray_cluster_becomes_ready(full: Sandbox) -> None:
    """KubeRay makes its pods, through Kueue's quota."""
    clusters = "/apis/ray.io/v1/namespaces/default/rayclusters"
    template = {"spec": {"containers": [CONTAINER]}}
    full.api.create(
        clusters,
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": "ray", "labels": QUEUE},
            "spec": {"headGroupSpec": {"rayStartParams": {}, "template": template}},
        },
    )
    _wait(full, clusters, "ray", lambda item: item.get("status", {}).get("state") == "ready")


WRAPPERS = "/apis/workload.codeflare.dev/v1beta2/namespaces/default/appwrappers"


def _wrapper(name: str, *inner: Object, **metadata: Any) -> Object:
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": name, **metadata},
        "spec": {"components": [{"template": item} for item in inner]},
    }


def _plain_job(name: str) -> Object:
    return {**_job(name), "metadata": {"name": name}}


@pytest.mark.cluster
@pytest.mark.matrix
def test_an_app_wrapper_runs_what_it_wraps(full: Sandbox) -> None:
    """Queued as a whole, then its Job is created and completes."""
    full.api.create(WRAPPERS, _wrapper("wrapper", _plain_job("inner"), labels=QUEUE))
    _wait(full, WRAPPERS, "wrapper", lambda item: item.get("status", {}).get("phase") == "Succeeded")


def _skip_without_webhooks(sandbox: Sandbox) -> None:
    if sandbox.status().sources["appwrapper-controller"].startswith("image "):
        pytest.skip("AppWrapper comes from an image, and runs without its webhooks")


@pytest.mark.cluster
@pytest.mark.matrix
def test_what_an_app_wrapper_wraps_cannot_be_changed(full: Sandbox) -> None:
    """Its own webhook says so, as on any cluster; a label of the wrapper itself may change."""
    _skip_without_webhooks(full)
    made = full.api.create(WRAPPERS, _wrapper("fixed", _plain_job("fixed")))
    path = f"{WRAPPERS}/fixed"
    patch = "application/merge-patch+json"
    full.api.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=patch)
    changed = [{"template": {**made["spec"]["components"][0]["template"], "metadata": {"name": "other"}}}]
    with pytest.raises(SandboxApiError, match="attempt to change immutable field"):
        full.api.request("PATCH", path, {"spec": {"components": changed}}, content_type=patch)


@pytest.mark.cluster
@pytest.mark.matrix
def test_app_wrappers_are_checked_and_labelled_when_they_are_made(full: Sandbox) -> None:
    """Nested ones are refused; accepted ones carry who made them."""
    _skip_without_webhooks(full)
    with pytest.raises(SandboxApiError, match="Nested AppWrappers are forbidden"):
        full.api.create(WRAPPERS, _wrapper("outer", _wrapper("nested", _plain_job("x"))))
    made = full.api.create(WRAPPERS, _wrapper("labelled", _plain_job("labelled")))
    assert made["metadata"]["labels"]["workload.codeflare.dev/user"] == "kaiwo-sandbox-admin"


def _listening(pid: int) -> Iterator[str]:
    """The addresses that a process listens on, in the kernel's hexadecimal form (proc(5), /proc/net/tcp)."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(descriptor.readlink().name)
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *fields = line.split()
            if state == "0A" and f"socket:[{fields[5]}]" in sockets:
                yield local.partition(":")[0]


@pytest.mark.cluster
@pytest.mark.matrix
def test_nothing_can_be_reached_from_other_machines(full: Sandbox) -> None:
    """Every program listens on 127.0.0.1 only."""
    found = {each.name: set(_listening(each.pid)) for each in full.status().processes if each.alive}
    assert {"appwrapper", "kube-apiserver", "kueue", "ray-heads"} <= {name for name in found if found[name]}
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert {name: there for name, there in found.items() if there - loopback} == {}


@pytest.mark.cluster
@pytest.mark.matrix
def test_addons_come_back_after_a_reset(full: Sandbox) -> None:
    """From the copy of etcd's data, with webhooks wired to the ports of now; queues are gone."""
    full.reset()
    assert full.status().ready
    assert full.api.get(f"{_kueue(full)}/clusterqueues")["items"] == []
    _make_queue(full)
    full.api.create(JOBS, _job("after"))
    _wait(full, JOBS, "after", lambda job: job["status"].get("completionTime"))
