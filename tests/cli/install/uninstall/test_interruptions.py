"""``kaiwo uninstall`` when something is in its way: lost answers, dead webhooks, missing rights, Helm."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api.config_names import SHARD_LABEL
from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB
from kaiwo.engine.credentials import load
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, JOB, NAMESPACE, POD, Resource
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLE = Resource(RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
WEBHOOK = Resource(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations",
    namespaced=False,
)  # fmt: skip
POD_DISRUPTION_BUDGET = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
MOST_RUNS = 80
FAILED, NOT_FOUND = 1, 3  # exit codes


@pytest.fixture
def selection() -> str:
    """Two backends and a vendor: no queues, no labels on nodes."""
    return "batch_job,deployment,gpu_amd"


def head(kind: Resource, name: str, namespace: str) -> Object:
    """An object with the labels of an installation."""
    labels = {"app.kubernetes.io/part-of": "kaiwo", "app.kubernetes.io/instance": namespace}
    metadata = {"name": name, "labels": labels, **({"namespace": namespace} if kind.namespaced else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def dead_webhook(namespace: str) -> Object:
    """A configuration that sends every change of a workload to a server that is not there."""
    rule = {
        "apiGroups": [KAIWO_JOB.group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["*"],
    }
    webhook = {
        "name": "workloads.kaiwo.silogen.ai",
        "clientConfig": {"service": {"namespace": namespace, "name": "kaiwo-webhooks"}},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    return {**head(WEBHOOK, f"kaiwo-webhooks.{namespace}", namespace), "webhooks": [webhook]}


async def uninstalled(cli: Any, namespace: str, *options: str) -> Any:
    """Run the command to its end."""
    options = ("-n", namespace, "--timeout", "60s", *options)
    return await asyncio.to_thread(cli, "uninstall", *options)


# It runs the command once for each deletion, which takes longer than the usual guard on a busy machine.
@pytest.mark.timeout(420)
async def test_an_uninstallation_that_loses_every_answer_ends_clean_when_it_is_repeated(
    control_plane: Any, cli: Any, site: Any, admin: Client, namespace: str, tmp_path: Path,
    cluster_state: Any, becomes: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Each run is cut off at its next write, which takes place; the last one finds nothing more to do.

    What another version rendered goes as well: a role that this one does not know.
    """
    before = await asyncio.to_thread(cluster_state, control_plane)
    installed = await site()
    await admin.create(CLUSTER_ROLE, {**head(CLUSTER_ROLE, f"kaiwo-old.{namespace}", namespace), "rules": []})
    await admin.create(KAIWO_CONFIG, {**head(KAIWO_CONFIG, "kaiwo", namespace), "spec": {}})
    await admin.create(KAIWO_JOB, installed.workload("KaiwoJob", "train"))
    await admin.create(WEBHOOK, dead_webhook(namespace))
    codes = []
    async with FaultProxy(load(control_plane.kubeconfig)) as proxy:
        monkeypatch.setenv("KUBECONFIG", str(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")))
        fault = proxy.lose_answer(method="DELETE", times=None)
        for _ in range(MOST_RUNS):
            result = await uninstalled(cli, namespace, "--yes", "--workloads=delete")
            codes.append(result.code)
            if result.code == NOT_FOUND:
                break
    assert "no installation of Kaiwo found" in result.err
    assert codes == [*([FAILED] * (len(codes) - 1)), NOT_FOUND]
    assert fault.struck >= len(codes) - 1 > 15
    assert await becomes(control_plane, before) == {}


async def test_a_webhook_that_nobody_answers_goes_before_everything_else(
    control_plane: Any, cli: Any, site: Any, admin: Client, namespace: str, cluster_state: Any, becomes: Any
) -> None:
    """With it, no workload could be deleted."""
    before = await asyncio.to_thread(cluster_state, control_plane)
    installed = await site()
    await admin.create(KAIWO_JOB, installed.workload("KaiwoJob", "train"))
    await admin.create(WEBHOOK, dead_webhook(namespace))
    shown = await uninstalled(cli, namespace, "--dry-run", "--workloads=delete")
    name = f"validatingwebhookconfigurations.admissionregistration.k8s.io kaiwo-webhooks.{namespace}"
    assert shown.out.splitlines()[0] == name
    result = await uninstalled(cli, namespace, "--yes", "--workloads=delete")
    assert result.code == 0, result.err
    assert await becomes(control_plane, before) == {}


async def test_missing_rights_are_named_before_anything_is_removed(
    control_plane: Any, cli: Any, site: Any, admin: Client, namespace: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """All of them at once: first what cannot be read, then what cannot be deleted."""
    await site()
    user = f"auditor-{namespace}"
    kubeconfig = yaml.safe_load(control_plane.kubeconfig.read_text())
    kubeconfig["users"][0]["user"]["as"] = user
    path = tmp_path / "auditor.kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(path))
    unread = await uninstalled(cli, namespace, "--yes")
    assert unread.code == 1
    assert "nothing was removed; you are not allowed to:" in unread.err
    assert "list deployments.apps in the cluster" in unread.err
    assert "list secrets in the cluster" in unread.err

    reading = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    await admin.create(CLUSTER_ROLE, {**head(CLUSTER_ROLE, user, "test"), "rules": reading})
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": user}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": user}]
    await admin.create(
        CLUSTER_ROLE_BINDING,
        {**head(CLUSTER_ROLE_BINDING, user, "test"), "roleRef": role, "subjects": subjects},
    )
    refused = await uninstalled(cli, namespace, "--yes")
    assert refused.code == 1
    assert f"delete deployments.apps in namespace {namespace}" in refused.err
    assert f"delete clusterroles.{RBAC} in the cluster" in refused.err
    assert "delete customresourcedefinitions.apiextensions.k8s.io in the cluster" in refused.err
    assert await admin.get(DEPLOYMENT, namespace, "kaiwo-operator")

    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    assert (await uninstalled(cli, namespace, "--yes")).code == 0
    for kind in (CLUSTER_ROLE_BINDING, CLUSTER_ROLE):
        await admin.delete(kind, None, user)


async def adopted(admin: Client, namespace: str) -> Object:
    """A running Job that a user made, with the KaiwoJob that was made for it; the Job."""
    container = {"name": "own", "image": "registry.example/own:1"}
    pod = {"restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"annotations": {"kaiwo-sandbox/forever": "true"}}, "spec": pod}
    job = await admin.create(
        JOB,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "own", "namespace": namespace},
            "spec": {"template": template},
        },
    )
    uid = job["metadata"]["uid"]
    labels = {"kaiwo.silogen.ai/adopted-uid": uid}
    workload = await admin.create(
        KAIWO_JOB,
        {
            "apiVersion": KAIWO_JOB.api_version,
            "kind": "KaiwoJob",
            "metadata": {"name": "own", "namespace": namespace, "labels": labels},
            "spec": {"job": {}},
        },
    )
    status = {"status": "RUNNING", "childUID": uid}
    await admin.merge_patch(KAIWO_JOB, namespace, "own", {"status": status}, subresource="status")
    owner = {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "name": "own",
        "uid": workload["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return await admin.merge_patch(JOB, namespace, "own", {"metadata": {"ownerReferences": [owner]}})


async def test_jobs_that_users_made_are_handed_back_unless_asked(
    control_plane: Any, cli: Any, site: Any, admin: Client, namespace: str, team: str,
    cluster_state: Any, becomes: Any,
) -> None:  # fmt: skip
    """``--workloads=delete`` deletes what Kaiwo made; an adopted Job runs on until --adopted-jobs=delete."""
    before = await asyncio.to_thread(cluster_state, control_plane)
    installed = await site()
    job = await adopted(admin, team)
    await admin.create(KAIWO_JOB, installed.workload("KaiwoJob", "train"))
    refused = await uninstalled(cli, namespace, "--yes")
    assert refused.code == 1
    assert "1 of them adopted: their Jobs stay unless you give --adopted-jobs=delete" in refused.err
    result = await uninstalled(cli, namespace, "--yes", "--workloads=delete")
    assert result.code == 0, result.err
    assert f"Jobs that users made stay: {team}/own; --adopted-jobs=delete" in result.err
    assert "run kaiwo uninstall again when it has ended" in result.err
    kept = await until(
        admin, JOB, team, "own",
        lambda obj: obj is not None and "ownerReferences" not in obj["metadata"],
    )  # fmt: skip
    assert kept is not None
    assert kept["metadata"]["uid"] == job["metadata"]["uid"]
    assert [obj async for obj in admin.list(KAIWO_JOB)] == []

    await admin.delete(JOB, team, "own", propagation="Foreground")
    await until(admin, JOB, team, "own", lambda obj: obj is None)
    await adopted(admin, team)
    options = ("--yes", "--workloads=delete", "--adopted-jobs=delete")
    result = await uninstalled(cli, namespace, *options)
    assert result.code == 0, result.err
    assert await becomes(control_plane, before) == {}


async def test_adopted_jobs_of_a_namespace_that_is_deleted_keep_no_crd(
    cli: Any, site: Any, admin: Client, namespace: str, team: str
) -> None:
    """They end with their namespace, however long a pod holds that up; none of them is said to stay."""
    await site()
    await adopted(admin, team)
    finalizer = "kaiwo.test/held"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "held", "namespace": team, "finalizers": [finalizer]},
        "spec": {"nodeSelector": {"no": "node"}, "containers": [{"name": "own", "image": "own:1"}]},
    }
    await admin.create(POD, pod)
    await admin.delete(NAMESPACE, None, team)
    try:
        # Kubernetes deletes the pods of a namespace before everything else.
        assert await admin.get(KAIWO_JOB, team, "own")
        result = await uninstalled(cli, namespace, "--yes", "--workloads=delete")
        assert result.code == 0, result.err
        assert "run kaiwo uninstall again" not in result.err
        assert "Jobs that users made stay" not in result.err
        kinds = [obj["metadata"]["name"] async for obj in admin.list(CUSTOM_RESOURCE_DEFINITION)]
        assert not [name for name in kinds if "kaiwo" in name]
    finally:
        await admin.merge_patch(POD, team, "held", {"metadata": {"finalizers": None}})


async def test_operators_of_further_shards_are_named_and_have_to_go_first(
    control_plane: Any, cli: Any, site: Any, admin: Client, namespace: str, cluster_state: Any, becomes: Any
) -> None:
    """They would write on while the main one is removed. To doctor they are no leftovers."""
    before = await asyncio.to_thread(cluster_state, control_plane)
    installed = await site()
    shard = ("--shard", "a", "-n", namespace)
    rendered = await asyncio.to_thread(cli, "manifests", "operator", *shard)
    installed.applied(rendered.out)
    checked = await asyncio.to_thread(cli, "doctor")
    assert f"{namespace}/kaiwo-operator-a: " in checked.out
    assert "leftovers" not in checked.out
    refused = await uninstalled(cli, namespace, "--yes")
    assert refused.code == FAILED
    assert f"operators of the shards a are installed in namespace {namespace}" in refused.err
    command = f"kubectl -n {namespace} delete deployment,pdb,networkpolicy -l {SHARD_LABEL}"
    assert command in refused.err
    assert await admin.get(DEPLOYMENT, namespace, "kaiwo-operator")

    gone = []
    for kind in (DEPLOYMENT, POD_DISRUPTION_BUDGET, NETWORK_POLICY):
        async for obj in admin.list(kind, namespace, label_selector=SHARD_LABEL):
            gone.append(kind.kind)
            await admin.delete(kind, namespace, obj["metadata"]["name"])
    assert "Deployment" in gone
    result = await uninstalled(cli, namespace, "--yes")
    assert result.code == 0, result.err
    assert await becomes(control_plane, before) == {}


async def test_objects_of_a_helm_release_are_left_to_helm(
    control_plane: Any, cli: Any, site: Any, admin: Client, namespace: str, cluster_state: Any, becomes: Any
) -> None:
    """The operator is stopped, workloads and CRDs go, and the command for the rest is said, also later."""
    before = await asyncio.to_thread(cluster_state, control_plane)
    installed = await site()
    marks = {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "ml", "meta.helm.sh/release-namespace": namespace},
    }
    held = [obj for obj in installed.objects if obj["kind"] not in ("Namespace", "CustomResourceDefinition")]
    installed.applied(
        yaml.safe_dump_all([{**obj, "metadata": merged(obj["metadata"], marks)} for obj in held])
    )
    await admin.create(KAIWO_JOB, installed.workload("KaiwoJob", "train"))
    said = f"objects of the Helm release ml stay; remove them with helm uninstall ml -n {namespace}"
    result = await uninstalled(cli, namespace, "--yes", "--workloads=delete")
    assert result.code == 0, result.err
    assert said in result.err
    operator = await admin.get(DEPLOYMENT, namespace, "kaiwo-operator")
    assert operator["spec"]["replicas"] == 0
    crds = [obj["metadata"]["name"] async for obj in admin.list(CUSTOM_RESOURCE_DEFINITION)]
    assert [name for name in crds if "kaiwo" in name] == []
    again = await uninstalled(cli, namespace, "--yes")
    assert again.code == 0, again.err
    assert said in again.err
    installed.applied(yaml.safe_dump_all(held))
    assert (await uninstalled(cli, namespace, "--yes")).code == 0
    assert await becomes(control_plane, before) == {}


def merged(metadata: Object, more: Object) -> Object:
    """Metadata with more labels and annotations."""
    return {**metadata, **{key: {**metadata.get(key, {}), **value} for key, value in more.items()}}
