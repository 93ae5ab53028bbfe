"""The way of somebody who writes a plugin: from ``kaiwo plugin new`` to a cluster, and out of it again."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api.crds import render_crds
from kaiwo.cli.plugin_scaffold.names import KINDS
from kaiwo.plugin.loader import load as load_plugins
from kaiwo.testing.operator import OperatorProcess
from kaiwo_sandbox import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo_sandbox.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
OTHERS = tuple(kind for kind in KINDS if kind != "queue")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE_PATCH = "application/merge-patch+json"
FOREVER = {"kaiwo-sandbox/forever": "true"}


@EVERY_KIND
def test_the_tests_of_a_new_plugin_pass(outsider: Any, kind: str) -> None:
    """As it was written, before anything is installed."""
    done = outsider.run_in(outsider.folder(kind), "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stdout


@EVERY_KIND
def test_its_types_are_strictly_right(outsider: Any, kind: str) -> None:
    """By mypy with the settings in its pyproject.toml, against the types of the installed host."""
    cache = outsider.directory / "mypy"
    done = outsider.run_in(outsider.folder(kind), "python", "-m", "mypy", "--cache-dir", str(cache))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (outsider.folder(kind) / "pyproject.toml").read_text("utf-8").count("strict = true") == 1


DECLARED = {
    "vendor": {"gpuVendors": ["acme-vendor"], "resourceKeys": ["acme-vendor.example.com/gpu"]},
    "source": {"downloadSources": ["acme-source"]},
    "backend": {"backends": ["acme_backend"], "fields": ["KaiwoJob.acmeBackendRun"]},
    "queue": {"queueSystems": ["acme-queue"]},
    "rule": {"diagnosisRules": ["acme-rule"]},
    "listener": {"transitionListeners": ["acme-listener"]},
    "command": {"commands": ["acme-command"]},
}
PLANNED = {
    "vendor": ["acme-vendor.example.com/gpu: '2'"],
    "source": ["name: train-download", "kaiwo_acme_source.download:fetch"],
    "backend": ["kind: AcmeBackendRun", "apiVersion: acme-backend.example.com/v1"],
    "queue": ["acme-queue.example.com/queue: research", "suspend: true"],
    "rule": ["kind: Job"],
}


@pytest.fixture(scope="module")
def listed(installed: Any) -> Any:
    """What ``kaiwo plugins`` says with all new plugins selected."""
    return installed.listed(**installed.selected(*KINDS))


@pytest.fixture(scope="module")
def crds(installed: Any) -> Any:
    """The CRDs with all new plugins selected."""
    return installed.crds(**installed.selected(*KINDS))


@EVERY_KIND
def test_it_is_loaded_beside_the_hosts_plugins(listed: Any, installed: Any, kind: str) -> None:
    """From its wheel, with what it declares; none of the others is harmed."""
    row = listed[installed.plugins[kind].plugin]
    assert (row["state"], row["version"]) == ("loaded", "0.1.0"), row["message"]
    assert row["distribution"] == installed.plugins[kind].distribution
    assert {what: row["declares"].get(what) for what in DECLARED[kind]} == DECLARED[kind]
    assert {
        row["state"] for name, row in listed.items() if name in installed.selected()["KAIWO_PLUGINS"]
    } == {"loaded"}


def test_new_plugins_pass_the_conformance_suite(installed: Any) -> None:
    """The conformance suite finds nothing to object to in what the scaffold writes."""
    names = [plugin.plugin for plugin in installed.plugins.values()]
    without_kueue = {"KAIWO_PLUGINS_DISABLED": "kueue,node_pools"}
    done = installed.run_in(
        installed.directory, "kaiwo", "plugin", "test", *names, "--seconds", "0.1", **without_kueue
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("ok ") > 4 * len(KINDS)


def at(schema: Any, *path: str) -> Any:
    """The schema of a field."""
    for name in path:
        schema = schema["properties"][name]
    return schema


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("KaiwoJob", ("spec", "storage", "data", "download", "acmeSource")),
        ("KaiwoService", ("spec", "storage", "data", "download", "acmeSource")),
        ("KaiwoJob", ("spec", "acmeBackendRun")),
        ("KaiwoConfig", ("spec", "plugins", "acme_listener", "statuses")),
    ],
    ids="".join,
)
def test_its_fields_are_in_the_crds(crds: Any, kind: str, path: tuple[str, ...]) -> None:
    """With what ``kubectl explain`` says about them."""
    found = at(crds[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"], *path)
    assert found["description"]


def test_its_rights_are_in_the_role(installed: Any) -> None:
    """The operator may do what the backend declares, and without the plugin it may not."""

    def groups(**variables: str) -> set[str]:
        rendered = yaml.safe_load_all(installed.kaiwo("manifests", "rbac", **variables))
        rules = [rule for each in rendered for rule in each.get("rules", ()) if "apiGroups" in rule]
        return {group for rule in rules for group in rule["apiGroups"]}

    assert "acme-backend.example.com" in groups(**installed.selected("backend"))
    assert "acme-backend.example.com" not in groups(**installed.selected())


@pytest.mark.parametrize("kind", PLANNED)
def test_a_plan_of_its_sample_has_what_it_adds(installed: Any, kind: str) -> None:
    """Without a cluster, from the file that the scaffold wrote."""
    sample = str(installed.folder(kind) / "sample.yaml")
    planned = installed.kaiwo("plan", "--offline", "-f", sample, **installed.selected(kind))
    assert [words for words in PLANNED[kind] if words not in planned] == [], planned


def test_its_command_is_in_the_help_and_runs(installed: Any) -> None:
    """The list of commands has its line; the command reads a file without a cluster."""
    chosen = installed.selected("command")
    assert "acme-command" in installed.kaiwo("--help", **chosen)
    sample = str(installed.folder("command") / "sample.yaml")
    rows = json.loads(installed.kaiwo("acme-command", "-f", sample, "-o", "json", **chosen))
    assert rows == [{"status": "RUNNING", "count": 1}, {"status": "new", "count": 1}]


@pytest.mark.parametrize("kind", ["backend", "source"])
def test_who_needs_it_while_it_is_not_selected_gets_its_name(installed: Any, kind: str) -> None:
    """Its fields are announced: the message names the distribution, which is installed."""
    sample = installed.folder(kind) / "sample.yaml"
    done = installed.run_in(
        installed.directory, "kaiwo", "plan", "--offline", "-f", sample, **installed.selected()
    )
    assert done.returncode != 0
    assert installed.plugins[kind].distribution in done.stdout + done.stderr


class Cluster:
    """Users in one namespace of the sandbox, and operators from the outsider's wheels."""

    def __init__(self, sandbox: Sandbox, namespace: str, outsider: Any) -> None:
        self.api = sandbox.api
        self.sandbox = sandbox
        self.namespace = namespace
        self.outsider = outsider
        self.workloads = f"/apis/kaiwo.silogen.ai/v1alpha1/namespaces/{namespace}/kaiwojobs"
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"

    def operator(self, *kinds: str) -> OperatorProcess:
        """An operator with these new plugins."""
        return OperatorProcess(
            kubeconfig=self.sandbox.kubeconfig,
            plugins=self.outsider.selected(*kinds)["KAIWO_PLUGINS"],
            command=[self.outsider.program("kaiwo")],
            leader_election=False,
            args=["--watch-namespace", self.namespace],
        )

    def submit(self, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """Create a KaiwoJob."""
        body = {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": "KaiwoJob",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"image": "registry.example/train:1", **spec},
        }
        self.api.create(self.workloads, body)

    def wait(self, collection: str, name: str, wanted: Callable[[Any], bool]) -> Any:
        """The object of this name once it is as wanted."""
        with closing(self.api.watch(collection, timeout=90)) as changes:
            for change in changes:
                found = change["object"]
                if found["metadata"]["name"] == name and change["type"] != "DELETED" and wanted(found):
                    return found
        last = {each["metadata"]["name"]: each.get("status") for each in self.api.get(collection)["items"]}
        raise AssertionError(f"{name} was never as wanted: {last}")

    def reaches(self, name: str, *words: str) -> dict[str, Any]:
        """The status of a KaiwoJob once its status word and its reason are among these."""

        def wanted(obj: Any) -> bool:
            status = obj.get("status") or {}
            return {status.get("status"), status.get("reason")} >= set(words)

        found: dict[str, Any] = self.wait(self.workloads, name, wanted)["status"]
        return found

    def child(self, name: str) -> Any:
        """The Job of a workload."""
        return self.wait(self.jobs, name, lambda _: True)

    def patch(self, path: str, body: dict[str, Any]) -> None:
        """Change an object."""
        self.api.request("PATCH", path, body, content_type=MERGE_PATCH)


@pytest.fixture(scope="module")
def sandbox(control_plane: Sandbox, crds: Any) -> Iterator[Sandbox]:
    """The control plane with the fields of the new plugins, and a node with GPUs of the new vendor."""
    definitions = list(crds.values())
    for crd in definitions:
        control_plane.api.apply(f"{CRDS}/{crd['metadata']['name']}", crd)
    for crd in definitions:
        served(control_plane.api, crd["spec"])
    control_plane.add_node(nodes.node("acme-1", extended={"acme-vendor.example.com/gpu": 8}))
    yield control_plane
    control_plane.api.request("DELETE", "/api/v1/nodes/acme-1")
    loaded = load_plugins()  # what other tests expect: the fields of all plugins of the repository
    for crd in render_crds(loaded.fields(), loaded.settings_models(), kinds=loaded.kinds()):
        control_plane.api.apply(f"{CRDS}/{crd['metadata']['name']}", crd)


def served(api: Any, spec: dict[str, Any]) -> None:
    """Wait until the API server has taken over a CRD: a plan of what it stores comes back."""
    from kaiwo_sandbox.api import SandboxApiError

    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    for _ in range(300):
        try:
            api.get(path)
        except SandboxApiError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"{path} is not served")


@pytest.fixture(scope="module")
def namespace(sandbox: Sandbox) -> Iterator[str]:
    """One namespace for the sequence below."""
    sandbox.create_namespace("outsider")
    yield "outsider"
    sandbox.delete_namespace("outsider")


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox, namespace: str, installed: Any) -> Cluster:
    """Users of that namespace."""
    return Cluster(sandbox, namespace, installed)


FILE = {"url": "https://files.example.com/tiny.bin", "targetPath": "tiny.bin"}
DATA = {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": {"acmeSource": [FILE]}}}


@pytest.mark.cluster
def test_they_run_on_the_sandbox_and_go_without_harm(cluster: Cluster) -> None:
    """All but backend and queue system at once: with them, and with an operator that does not select them.

    What runs goes on in its state. What is new and needs a plugin waits, and says for which.
    """
    hold = {"kaiwo-sandbox/hold": "true"}
    with cluster.operator(*OTHERS) as operator:
        cluster.submit("gpus", FOREVER, gpus=2, gpuVendor="acme-vendor")
        cluster.submit("data", hold, storage=DATA)
        cluster.submit("fails", {"kaiwo-sandbox/exit-code": "79"})
        cluster.reaches("gpus", "RUNNING")
        (container,) = cluster.child("gpus")["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"]["acme-vendor.example.com/gpu"] == "2"
        cluster.reaches("data", "PENDING")
        download = cluster.child("data-download")
        failed = cluster.reaches("fails", "FAILED")
        assert (failed["reason"], failed["message"].partition(" lost")[2]) == (
            "DeviceLost", " its device; drain its node"
        )  # fmt: skip
        assert operator.wait_log(r"outsider/fails is FAILED: pod fails-\w+ lost its device")
        counted = cluster.outsider.kaiwo(
            "acme-command", "-n", cluster.namespace, "--kubeconfig", str(cluster.sandbox.kubeconfig),
            "-o", "json", **cluster.outsider.selected("command"),
        )  # fmt: skip
        assert {row["status"]: row["count"] for row in json.loads(counted)} == {
            "RUNNING": 1, "PENDING": 1, "FAILED": 1
        }  # fmt: skip

    with cluster.operator() as operator:
        cluster.submit("gpus-late", gpus=1, gpuVendor="acme-vendor")
        cluster.submit("data-late", storage=DATA)
        cluster.submit("fails-late", {"kaiwo-sandbox/exit-code": "79"})
        assert "acme-vendor" in cluster.reaches("gpus-late", "ERROR")["message"]
        assert "kaiwo-acme-source" in cluster.reaches("data-late", "ERROR", "DownloadNotAvailable")["message"]
        assert cluster.reaches("fails-late", "FAILED")["reason"] != "DeviceLost"
        assert "is FAILED: " not in operator.log
        cluster.reaches("gpus", "RUNNING")
        cluster.reaches("data", "PENDING")
        assert cluster.child("data-download")["metadata"]["uid"] == download["metadata"]["uid"]
        assert cluster.reaches("fails", "FAILED")["reason"] == "DeviceLost"


@pytest.mark.cluster
def test_the_queue_system_starts_workloads(cluster: Cluster) -> None:
    """A Job is created suspended in its queue and waits. It goes on where the queue system is not loaded."""
    with cluster.operator("queue"):
        cluster.submit("queued", FOREVER, clusterQueue="research")
        assert "AcmeQueue" in cluster.reaches("queued", "PENDING", "Queued")["message"]
        child = cluster.child("queued")
        assert child["metadata"]["labels"]["acme-queue.example.com/queue"] == "research"
        admitted = {"annotations": {"acme-queue.example.com/admitted": "true"}}
        cluster.patch(f"{cluster.jobs}/queued", {"metadata": admitted, "spec": {"suspend": False}})
        cluster.reaches("queued", "RUNNING")
    with cluster.operator():
        cluster.submit("at-once", FOREVER)
        cluster.reaches("at-once", "RUNNING")
        cluster.reaches("queued", "RUNNING")


@pytest.mark.cluster
def test_the_sandbox_test_of_the_backend_passes(cluster: Cluster, installed: Any) -> None:
    """The one that the scaffold wrote; it runs the operator with the plugin, without it and with it again."""
    test = ("python", "-m", "pytest", "-q", "-m", "sandbox", "-p", "no:cacheprovider")
    done = installed.run_in(
        installed.folder("backend"), *test,
        HOME=str(Path.home()), KAIWO_SANDBOX_REUSE=cluster.sandbox.name, **installed.selected(*KINDS),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_nothing_is_left_of_an_uninstalled_plugin(installed: Any) -> None:
    """Neither in the list nor in the CRDs; the others load as before. It is the last test of this file."""
    installed.pip("uninstall", "--yes", *(names.distribution for names in installed.plugins.values()))
    assert (
        set(installed.listed(**installed.selected())) & {names.plugin for names in installed.plugins.values()}
        == set()
    )
    crds = installed.crds(**installed.selected())
    assert "acme" not in json.dumps(crds)
    sample = str(installed.folder("rule") / "sample.yaml")
    assert "kind: Job" in installed.kaiwo("plan", "--offline", "-f", sample, **installed.selected())
