"""The Helm chart is installed, upgraded, rolled back and removed on a real API server."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from charts.generate.__main__ import CHART
from kaiwo.admission.bundles import CONFIGURATIONS, bundles_of
from kaiwo.admission.names import SECRET as CERTIFICATE_SECRET
from kaiwo.admission.names import configurations_name
from kaiwo.api.crd_versions import VERSION, own_version
from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    NAMESPACE,
    SECRET,
    Resource,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLE = Resource(RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
POLICY = Resource(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies",
    namespaced=False,
)  # fmt: skip
NAMED_CRD = "kaiwojobs.kaiwo.silogen.ai"


@pytest.fixture
def run_helm(helm: Path, control_plane: Any, home: Path) -> Callable[..., str]:
    """Run Helm as a user does; gives what it prints."""

    def run(*arguments: object, code: int = 0) -> str:
        done = subprocess.run(
            [helm, "--kubeconfig", control_plane.kubeconfig, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={"HOME": str(home)},
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


@pytest.fixture
def release(run_helm: Callable[..., str], namespace: str) -> Iterator[str]:
    """The namespace of a release ``kaiwo``, which is removed after the test if it is still there."""
    yield namespace
    run_helm("uninstall", "kaiwo", "--namespace", namespace, "--ignore-not-found")


@pytest.fixture
def chart_values() -> tuple[str, ...]:
    """Values of the chart beside the plugins; a test may give others."""
    return ()


@pytest.fixture
def installed(
    run_helm: Callable[..., str],
    control_plane: Any,
    selection: str,
    release: str,
    until_kind: Any,
    chart_values: tuple[str, ...],
) -> tuple[Object, ...]:
    """All that the chart renders for the test's namespace, installed."""
    # Definitions of earlier tests in the same control plane belong to nobody or to another release.
    install = ("install", "kaiwo", CHART, "--take-ownership", "--force-conflicts")
    values = [f"plugins={{{selection}}}", *chart_values]
    run_helm(*install, "--namespace", release, *(word for value in values for word in ("--set", value)))
    for kind in (KAIWO_JOB, KAIWO_SERVICE):
        until_kind(control_plane, kind.path())
    text = run_helm("get", "manifest", "kaiwo", "--namespace", release)
    return tuple(obj for obj in yaml.safe_load_all(text) if obj)


async def test_the_operator_does_its_work_with_the_rights_of_the_chart(site: Any, tmp_path: Path) -> None:
    """Under the chart's account and environment a job and a service run; no request is forbidden."""
    async with site.operating(tmp_path) as requests:
        await site.admin.create(KAIWO_JOB, site.workload("KaiwoJob", "train", gpus=1))
        await site.admin.create(KAIWO_SERVICE, site.workload("KaiwoService", "serve", replicas=1))
        await site.reaches(KAIWO_JOB, "train", "COMPLETE")
        await site.reaches(KAIWO_SERVICE, "serve", "READY")
    assert [request for request in requests if request[2] in (401, 403)] == []
    assert any(method == "POST" and path.endswith("/jobs") for method, path, _ in requests)


async def authorities_of(admin: Client, namespace: str) -> list[bytes]:
    """The authorities of all webhooks of an installation."""
    configurations = [await admin.get(kind, None, configurations_name(namespace)) for kind in CONFIGURATIONS]
    return [pem for one in configurations for pem in bundles_of(one).values()]


@pytest.mark.parametrize("chart_values", [("webhooks.enabled=true", "identity=check")])
async def test_an_upgrade_keeps_the_certificates_of_the_webhooks(
    site: Any, run_helm: Callable[..., str], release: str, tmp_path: Path
) -> None:
    """The operator fills the Secret and the configurations with the rights of the chart; Helm leaves both."""
    deployment = site.named("Deployment", "kaiwo-operator")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (address,) = [entry for entry in container["env"] if entry["name"] == "KAIWO_WEBHOOK_ADDRESS"]
    address["value"] = "127.0.0.1:0"  # other tests run on this machine
    where = ("--namespace", release)
    async with site.operating(tmp_path) as requests:
        async with asyncio.timeout(60):
            while not all(await authorities_of(site.admin, release)):
                await asyncio.sleep(0.2)
        secret = (await site.admin.get(SECRET, release, CERTIFICATE_SECRET))["data"]
        before = await authorities_of(site.admin, release)
        run_helm("upgrade", "kaiwo", CHART, *where, "--reset-then-reuse-values", "--set", "replicas=3")
        assert (await site.admin.get(DEPLOYMENT, release, "kaiwo-operator"))["spec"]["replicas"] == 3
        assert await authorities_of(site.admin, release) == before
        assert (await site.admin.get(SECRET, release, CERTIFICATE_SECRET))["data"] == secret
        run_helm("rollback", "kaiwo", "1", *where)
        assert await authorities_of(site.admin, release) == before
        assert (await site.admin.get(SECRET, release, CERTIFICATE_SECRET))["data"] == secret
    assert secret
    assert [request for request in requests if request[2] in (401, 403)] == []


async def resources_of(admin: Client, namespace: str) -> set[str]:
    """The resources that the operator may use."""
    role = await admin.get(CLUSTER_ROLE, None, f"kaiwo-operator.{namespace}")
    return {resource for rule in role["rules"] for resource in rule["resources"]}


async def plugins_of(admin: Client, namespace: str) -> str:
    """The plugins that the installed operator loads."""
    deployment = await admin.get(DEPLOYMENT, namespace, "kaiwo-operator")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (value,) = [entry["value"] for entry in container["env"] if entry["name"] == "KAIWO_PLUGINS"]
    return str(value)


async def test_an_upgrade_and_a_rollback_change_plugins_with_their_rights(
    site: Any, run_helm: Callable[..., str], release: str
) -> None:
    """Fewer plugins take their rights away, a rollback brings them back, and a job stays as it was."""
    admin, where = site.admin, ("--namespace", release)
    job = await admin.create(KAIWO_JOB, site.workload("KaiwoJob", "kept"))
    before = await plugins_of(admin, release)
    assert {"deployments", "jobs"} <= await resources_of(admin, release)
    run_helm("upgrade", "kaiwo", CHART, *where, "--reset-then-reuse-values", "--set", "plugins={batch_job}")
    assert await plugins_of(admin, release) == "batch_job"
    assert "deployments" not in await resources_of(admin, release)
    run_helm("rollback", "kaiwo", "1", *where)
    assert await plugins_of(admin, release) == before
    assert {"deployments", "jobs"} <= await resources_of(admin, release)
    assert (await admin.get(KAIWO_JOB, site.team, "kept"))["metadata"]["uid"] == job["metadata"]["uid"]


async def test_definitions_of_a_later_version_are_not_replaced(
    site: Any, run_helm: Callable[..., str], release: str
) -> None:
    """Fields that this version does not know would be dropped from live objects."""

    async def of_version(text: str) -> None:
        patch = {"metadata": {"annotations": {VERSION: text}}}
        await site.admin.merge_patch(CUSTOM_RESOURCE_DEFINITION, None, NAMED_CRD, patch)

    command = ("upgrade", "kaiwo", CHART, "--namespace", release, "--reset-then-reuse-values")
    await of_version("99.0.0")
    try:
        message = run_helm(*command, code=1)
        run_helm(*command, "--set", "crds.enabled=false")
        kept = await site.admin.get(CUSTOM_RESOURCE_DEFINITION, None, NAMED_CRD)
    finally:
        await of_version(own_version())
    assert f"CRD {NAMED_CRD} is of Kaiwo 99.0.0, later than {own_version()}" in message
    assert kept["metadata"]["annotations"][VERSION] == "99.0.0"


async def test_removing_the_release_leaves_definitions_and_workloads(
    site: Any, run_helm: Callable[..., str], release: str
) -> None:
    """Programs, roles and policies go; CRDs stay, so that no workload of a user is deleted with them."""
    await site.admin.create(KAIWO_JOB, site.workload("KaiwoJob", "kept"))
    run_helm("uninstall", "kaiwo", "--namespace", release)
    assert (await site.admin.get(KAIWO_JOB, site.team, "kept"))["metadata"]["name"] == "kept"
    assert (await site.admin.get(CUSTOM_RESOURCE_DEFINITION, None, NAMED_CRD))["metadata"][
        "name"
    ] == NAMED_CRD
    for kind, namespace, name in (
        (DEPLOYMENT, release, "kaiwo-operator"),
        (DEPLOYMENT, release, "kaiwo-scheduler"),
        (CONFIG_MAP, release, "kaiwo-scheduler"),
        (CLUSTER_ROLE, None, f"kaiwo-operator.{release}"),
        (CLUSTER_ROLE, None, f"kaiwo-edit.{release}"),
        (POLICY, None, f"kaiwo-operator.{release}"),
        (POLICY, None, f"kaiwo-workloads.{release}"),
    ):
        with pytest.raises(NotFound):
            await site.admin.get(kind, namespace, name)
    assert await site.admin.get(NAMESPACE, None, release)


def test_the_chart_takes_over_what_manifests_installed(
    run_helm: Callable[..., str], install: Callable[..., Any], selection: str, release: str
) -> None:
    """Without --take-ownership nothing changes and the message says whose it is; with it Helm goes on."""
    install(release)
    command = ("install", "kaiwo", CHART, "--namespace", release, "--set", f"plugins={{{selection}}}")
    refused = run_helm(*command, code=1)
    assert "cannot be imported into the current release" in refused
    run_helm(*command, "--take-ownership", "--force-conflicts")
    assert "deployed" in run_helm("status", "kaiwo", "--namespace", release)


def test_kaiwo_uninstall_and_helm_uninstall_follow_each_other(
    cli: Callable[..., Any],
    run_helm: Callable[..., str],
    installed: tuple[Object, ...],
    release: str,
    control_plane: Any,
) -> None:
    """Kaiwo removes what Helm does not know of; Helm then ends a release whose objects are gone."""
    assert installed
    options = ("--kubeconfig", str(control_plane.kubeconfig), "--namespace", release)
    done = cli(*options, "uninstall", "--operator-only", "--yes")
    assert done.code == 0, done.err
    assert "deployment" in run_helm("get", "manifest", "kaiwo", "--namespace", release).lower()
    run_helm("uninstall", "kaiwo", "--namespace", release)
    assert "not found" in run_helm("status", "kaiwo", "--namespace", release, code=1)
