"""What ``kaiwo manifests`` prints installs on a real API server, and has the rights that it needs."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.engine.client import Client
from kaiwo.engine.errors import Forbidden
from kaiwo.engine.resource import (
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    LEASE,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SECRET,
    SERVICE,
    Resource,
)
from kaiwo.testing.operator import until
from kaiwo.workload.labels import RUN_ID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster

RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"


@pytest.fixture(scope="session")
def kube_scheduler(control_plane: Any) -> Path:
    """The sandbox's kube-scheduler, found before a test has a home directory of its own."""
    from kaiwo_sandbox import binaries

    assert control_plane.url
    return binaries.ensure()["kube-scheduler"]


POD_TEMPLATE: Object = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "a", "image": "a"}]},
}
MADE: dict[Resource, Object] = {
    CONFIG_MAP: {"data": {}},
    SERVICE: {"spec": {"ports": [{"port": 80}]}},
    DEPLOYMENT: {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": POD_TEMPLATE}},
    PERSISTENT_VOLUME_CLAIM: {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
}
"""What the operator makes for workloads, beside Jobs."""


def with_port(port: int | None = 8000) -> Object:
    """An embedded Deployment whose container has a port, or none."""
    container = {"name": "api", **({"ports": [{"containerPort": port}]} if port else {})}
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


async def test_the_operator_does_its_work_with_the_rights_it_is_given(site: Any, tmp_path: Path) -> None:
    """Under its own account a KaiwoJob gets COMPLETE and a KaiwoService READY; no request is forbidden.

    The process gets the environment of the rendered Deployment, the plugin list and the Lease included.
    """
    admin, team = site.admin, site.team
    async with site.operating(tmp_path) as requests:
        await admin.create(KAIWO_JOB, site.workload("KaiwoJob", "train", gpus=1))
        service = site.workload("KaiwoService", "serve", replicas=1, deployment=with_port())
        await admin.create(KAIWO_SERVICE, service)
        await site.reaches(KAIWO_JOB, "train", "COMPLETE")
        await site.reaches(KAIWO_SERVICE, "serve", "READY")
        await until(admin, SERVICE, team, "serve", lambda obj: obj is not None)
        edit = {"spec": {"replicas": 2, "deployment": with_port(None)}}
        await admin.merge_patch(KAIWO_SERVICE, team, "serve", edit)
        await until(admin, SERVICE, team, "serve", lambda obj: obj is None)
        await until(admin, DEPLOYMENT, team, "serve", lambda obj: (obj or {})["spec"].get("replicas") == 2)
    assert [request for request in requests if request[2] in (401, 403)] == []
    done = {(method, path.rsplit("/", 1)[-1]) for method, path, _ in requests}
    assert {("POST", "events"), ("POST", "jobs"), ("DELETE", "serve"), ("PUT", "kaiwo-operator")} <= done
    assert await admin.get(LEASE, site.namespace, "kaiwo-operator")


async def test_one_namespace_is_enough_for_the_operator(
    site: Any, cli: Any, selection: str, tmp_path: Path
) -> None:
    """Rendered for one namespace, it runs workloads there and has no rights to those of others."""
    if "kueue" in selection:
        pytest.skip("the kueue plugin's controllers work on the whole cluster")
    result = cli(
        "manifests", "rbac", "operator",
        "--plugins", selection, "--namespace", site.namespace, "--watch-namespace", site.team,
    )  # fmt: skip
    assert result.code == 0, result.err
    async with site.applied(result.out).operating(tmp_path) as requests:
        await site.admin.create(KAIWO_JOB, site.workload("KaiwoJob", "train", gpus=1))
        await site.reaches(KAIWO_JOB, "train", "COMPLETE")
    assert [request for request in requests if request[2] in (401, 403)] == []
    user = f"system:serviceaccount:{site.namespace}:kaiwo-operator"
    for resource in ("jobs.batch", f"kaiwojobs.{KAIWO_JOB.group}/status"):
        assert await site.may(user, "patch", resource)
        assert not await site.may(user, "patch", resource, "default")


async def test_downloads_take_no_rights_beyond_those_that_are_given(site: Any, tmp_path: Path) -> None:
    """ConfigMap, download Job, its replacement, its log: all as the operator's own account."""
    admin, team = site.admin, site.team

    def storage(target: str) -> Object:
        git = [{"repository": "https://git.example.com/r.git", "targetPath": target}]
        return {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": {"git": git}}}

    async with site.operating(tmp_path) as requests:
        held = {**site.workload("KaiwoJob", "fetch", storage=storage("a"))}
        held["metadata"]["annotations"] = {"kaiwo-sandbox/forever": "true"}
        await admin.create(KAIWO_JOB, held)
        await site.reaches(KAIWO_JOB, "fetch", "PENDING")
        first = await until(
            admin, JOB, team, "fetch-download", lambda job: bool((job or {}).get("status", {}).get("active"))
        )
        assert first is not None
        await admin.merge_patch(KAIWO_JOB, team, "fetch", {"spec": {"storage": storage("b")}})
        await until(
            admin, JOB, team, "fetch-download",
            lambda job: job is not None and job["metadata"]["uid"] != first["metadata"]["uid"],
        )  # fmt: skip
        await admin.create(KAIWO_JOB, site.workload("KaiwoJob", "fetched", storage=storage("c")))
        await site.reaches(KAIWO_JOB, "fetched", "COMPLETE")
    assert [request for request in requests if request[2] in (401, 403)] == []
    done = {(method, path.rsplit("/", 1)[-1]) for method, path, _ in requests}
    assert {("PATCH", "fetch-download"), ("DELETE", "fetch-download"), ("WATCH", "log")} <= done
    assert 200 in {code for _, path, code in requests if path.endswith("/log")}


async def test_the_operators_account_may_not_do_more(site: Any) -> None:
    """No Secret, no rights for others, no way into pods; it may set owners where that right is checked."""
    user, group = f"system:serviceaccount:{site.namespace}:kaiwo-operator", KAIWO_JOB.group
    for plural in ("kaiwojobs", "kaiwoservices"):
        assert await site.may(user, "update", f"{plural}.{group}/finalizers")
        assert not await site.may(user, "update", f"{plural}.{group}")
    for verb, resource in [
        *((verb, "secrets") for verb in ("get", "list", "watch", "create", "update", "patch", "delete")),
        ("create", "pods"),
        *(("create", f"pods/{part}") for part in ("exec", "attach", "portforward", "proxy")),
        ("update", "pods/ephemeralcontainers"),
        *((verb, "nodes/proxy") for verb in ("get", "create")),
        ("create", "serviceaccounts/token"),
        *(("impersonate", kind) for kind in ("users", "groups", "serviceaccounts")),
        *((verb, f"{kind}.{RBAC}") for verb in ("create", "patch", "escalate", "bind")
          for kind in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")),
        *((verb, f"{kind}webhookconfigurations.{ADMISSION}") for verb in ("create", "update", "patch")
          for kind in ("validating", "mutating")),
        ("update", "leases.coordination.k8s.io"),
    ]:  # fmt: skip
        assert not await site.may(user, verb, resource), (verb, resource)
    async with Client(site.connection("kaiwo-operator")) as client:
        with pytest.raises(Forbidden):
            await client.get(SECRET, site.namespace, "any")


async def test_the_operators_account_writes_neither_to_kube_system_nor_beside_itself(site: Any) -> None:
    """Its token makes nothing there and changes no label of these namespaces; elsewhere it does its work."""
    job = {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": "intruder"},
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}},
        },
    }
    denied = "does not write to kube-system"
    await site.until_policies_in_force()
    async with Client(site.connection("kaiwo-operator")) as client:
        for namespace in ("kube-system", site.namespace):
            head = {"name": "intruder", "namespace": namespace, "labels": {RUN_ID: "u"}}
            for kind, content in {JOB: job, **MADE}.items():
                obj = {"apiVersion": kind.api_version, "kind": kind.kind, **content, "metadata": head}
                with pytest.raises(Forbidden, match=denied):
                    await client.create(kind, obj)
            for labels in ({"kueue-managed": "true"}, {"pod-security.kubernetes.io/enforce": "privileged"}):
                with pytest.raises(Forbidden):
                    await client.merge_patch(NAMESPACE, None, namespace, {"metadata": {"labels": labels}})
        own = {"name": "own", "namespace": site.team, "labels": {RUN_ID: "u"}}
        created = await client.create(JOB, {**job, "metadata": own})
        assert created["metadata"]["uid"]


async def test_with_the_right_to_end_idle_workloads_jobs_of_users_can_be_deleted(
    site: Any, cli: Any, selection: str
) -> None:
    """The account of an operator with gpu_preemption deletes a user's Job, and still changes none."""
    result = cli(
        "manifests", "rbac", "--plugins", f"{selection},gpu_preemption", "--namespace", site.namespace,
    )  # fmt: skip
    assert result.code == 0, result.err
    site = site.applied(result.out)
    await site.until_policies_in_force()
    job = {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": "plain", "namespace": site.team},
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}},
        },
    }
    await site.admin.create(JOB, job)
    async with Client(site.connection("kaiwo-operator")) as client:
        with pytest.raises(Forbidden, match="writes only objects of workloads"):
            await client.merge_patch(JOB, site.team, "plain", {"metadata": {"labels": {"a": "b"}}})
        await client.delete(JOB, site.team, "plain")
    await until(site.admin, JOB, site.team, "plain", lambda obj: obj is None)


async def test_a_workload_in_kube_system_reports_where_it_can_run(site: Any, tmp_path: Path) -> None:
    """Its status has the reason and the message of the policy, and no object is created for it."""
    name = f"{site.team[-20:].strip('-')}-system"
    workload = {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": KAIWO_JOB.kind,
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"image": "registry.example/train:1"},
    }
    await site.until_policies_in_force()
    async with site.operating(tmp_path):
        await site.admin.create(KAIWO_JOB, workload)
        try:
            stopped = await until(
                site.admin, KAIWO_JOB, "kube-system", name,
                lambda obj: ((obj or {}).get("status") or {}).get("status") == "ERROR", timeout=60.0,
            )  # fmt: skip
        finally:
            await site.admin.delete(KAIWO_JOB, "kube-system", name)
    assert stopped is not None
    assert stopped["status"]["reason"] == "Forbidden"
    assert "create the workload in another namespace" in stopped["status"]["message"]


async def test_plan_and_submit_tell_what_the_policy_for_workloads_refuses(
    site: Any, cli: Any, tmp_path: Path
) -> None:
    """Both end with the field and the label, and nothing is created; a labelled namespace takes the same."""
    workload = {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": KAIWO_JOB.kind,
        "metadata": {"name": "root", "namespace": site.team},
        "spec": {"job": {"spec": {"template": {"spec": {"hostPID": True}}}}},
    }
    file = tmp_path / "root.yaml"
    file.write_text(yaml.safe_dump(workload))
    await site.until_policies_in_force()
    for command in ("plan", "submit"):
        result = await asyncio.to_thread(cli, command, "-f", str(file))
        assert result.code != 0, command
        assert "refused by a policy of the cluster: spec.job.spec.template.spec.hostPID" in result.err
        assert "kaiwo.silogen.ai/allow-privileged=true" in result.err
        assert "whoami" not in result.err
    assert [job async for job in site.admin.list(KAIWO_JOB, site.team)] == []
    label = {"metadata": {"labels": {"kaiwo.silogen.ai/allow-privileged": "true"}}}
    await site.admin.merge_patch(NAMESPACE, None, site.team, label)
    for _ in range(60):
        result = await asyncio.to_thread(cli, "submit", "-f", str(file))
        if result.code == 0:
            break
        await asyncio.sleep(0.5)
    assert result.code == 0, result.err


async def test_both_programs_run_under_restricted_pod_security(site: Any) -> None:
    """The namespace takes the pods of operator and scheduler, two each, and no pod that could be root."""
    for name in ("kaiwo-operator", "kaiwo-scheduler"):
        await until(
            site.admin, DEPLOYMENT, site.namespace, name,
            lambda obj: ((obj or {}).get("status") or {}).get("availableReplicas") == 2,
        )  # fmt: skip
        selector = f"app.kubernetes.io/name={name}"
        pods = [pod async for pod in site.admin.list(POD, site.namespace, label_selector=selector)]
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 2, "one pod on each node"
    careless = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "careless", "namespace": site.namespace},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    with pytest.raises(Forbidden, match="restricted"):
        await site.admin.create(POD, careless)


async def test_who_edits_a_namespace_may_run_workloads_there(site: Any) -> None:
    """The cluster's roles view and edit take in Kaiwo's kinds; viewers change nothing."""
    resource = f"kaiwojobs.{KAIWO_JOB.group}"
    for role, verb in (("view", "list"), ("edit", "create")):
        binding = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": site.team},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": f"{role}er", "apiGroup": RBAC}],
        }
        path = f"/apis/{RBAC}/v1/namespaces/{site.team}/rolebindings/{role}"
        site.control_plane.api.apply(path, binding)
        await eventually_may(site, f"{role}er", verb, resource)
    assert not await site.may("viewer", "create", resource)
    assert not await site.may("editer", "create", resource, namespace="default")


async def eventually_may(site: Any, user: str, verb: str, resource: str) -> None:
    """Wait for a right that was given a moment ago: roles are gathered by a controller, and cached."""
    for _ in range(20):
        if await site.may(user, verb, resource):
            return
        await asyncio.sleep(1.0)
    pytest.fail(f"{user} may not {verb} {resource}")


@pytest.fixture
def rack(control_plane: Any, namespace: str) -> Iterator[str]:
    """The value of a label ``rack`` that three equal nodes of the test's own have."""
    from kaiwo_sandbox.nodes import node

    value = namespace[-6:]
    names = [f"{value}-{number}" for number in range(3)]
    for name in names:
        control_plane.add_node(node(name, extended={"amd.com/gpu": 4}, labels={"rack": value}))
    yield value
    for name in names:
        control_plane.api.request("DELETE", f"/api/v1/nodes/{name}")


async def test_the_scheduler_packs_gpus_under_its_own_account(
    kube_scheduler: Path, site: Any, rack: str, tmp_path: Path
) -> None:
    """A kube-scheduler with the rendered configuration fills the node that is in use, with its own rights."""
    configuration = yaml.safe_load(site.named("ConfigMap", "kaiwo-scheduler")["data"]["scheduler.yaml"])
    # The sandbox's own scheduler serves the usual name.
    configuration["profiles"][0]["schedulerName"] = name = "kaiwo-scheduler-under-test"
    configuration["clientConnection"] = {"kubeconfig": str(kubeconfig(site, "kaiwo-scheduler", tmp_path))}
    file, log = tmp_path / "scheduler.yaml", tmp_path / "log"
    file.write_text(yaml.safe_dump(configuration))
    command = [str(kube_scheduler), f"--config={file}", "--secure-port=0"]
    with log.open("w") as out:
        process = await asyncio.to_thread(subprocess.Popen, command, stdout=out, stderr=out)
        try:
            nodes = [await scheduled(site, f"p{number}", name, rack) for number in range(4)]
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait, 20)
    assert len(set(nodes)) == 1, "one GPU after the other on the node that has one in use"
    assert "forbidden" not in log.read_text().lower()


def kubeconfig(site: Any, account: str, directory: Path) -> Path:
    """A kubeconfig of an installed service account."""
    cluster = {"server": site.control_plane.url, "certificate-authority": str(site.control_plane.ca_file)}
    file = directory / f"{account}.kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "site",
        "clusters": [{"name": "site", "cluster": cluster}],
        "users": [{"name": account, "user": {"token": site.token(account)}}],
        "contexts": [{"name": "site", "context": {"cluster": "site", "user": account}}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


async def scheduled(site: Any, name: str, scheduler: str, rack: str) -> str:
    """Create a pod with one GPU; the node of the rack that it is put on."""
    container = {"name": "a", "image": "a", "resources": {"limits": {"amd.com/gpu": "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": site.team},
        "spec": {"schedulerName": scheduler, "nodeSelector": {"rack": rack}, "containers": [container]},
    }
    await site.admin.create(POD, pod)
    found = await until(
        site.admin, POD, site.team, name,
        lambda obj: bool((obj or {}).get("spec", {}).get("nodeName")), timeout=60.0,
    )  # fmt: skip
    assert found is not None
    node: str = found["spec"]["nodeName"]
    return node
