"""Slips that only an API server can see: each is answered with its cause and the next step."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest.mock import Mock

import pytest
import yaml

from kaiwo.api.crds import render_crds
from kaiwo.cli.failures import run
from kaiwo.cli.main import kaiwo
from kaiwo.client.kinds import KAIWO_JOB
from kaiwo.engine.errors import ServerUnavailable
from kaiwo.engine.resource import JOB, SECRET
from kaiwo.plugin.loader import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo_sandbox.sandbox import Sandbox

    Cli: TypeAlias = Callable[..., tuple[int, str]]
    """Runs ``kaiwo`` with arguments; gives the exit code and what was written to standard error."""

pytestmark = pytest.mark.cluster

HEAD = "apiVersion: kaiwo.silogen.ai/v1alpha1\nkind: KaiwoJob\nmetadata: {name: train}\n"


@pytest.fixture(scope="module")
def fresh() -> Iterator[Sandbox]:
    """A control plane of this module alone, for its definitions come and go."""
    from kaiwo_sandbox.sandbox import Sandbox

    sandbox = Sandbox.up(f"pytest-{os.getpid()}-slips", owned=True)
    try:
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture
def space(fresh: Sandbox) -> str:
    """A new namespace."""
    name = f"slips-{secrets.token_hex(4)}"
    fresh.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
def here(
    fresh: Sandbox,
    space: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Cli:
    """``kaiwo -n`` with the test's namespace, in an empty directory, with the sandbox's kubeconfig."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(fresh.kubeconfig))
    monkeypatch.setenv("KAIWO_PLUGINS_DISABLED", "kueue")
    monkeypatch.chdir(tmp_path)

    def call(*args: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run(kaiwo, ["-n", space, *args], "kaiwo")
        return code, capsys.readouterr().err

    return call


def write(spec: str) -> None:
    """job.yaml with these lines under spec."""
    Path("job.yaml").write_text(f"{HEAD}spec:\n" + "".join(f"  {line}\n" for line in spec.splitlines()))


def definitions(*, without: str = "") -> list[Any]:
    """The CRDs of Kaiwo, those of one field older if it is named."""
    plugins = load()
    crds = render_crds(plugins.fields(), plugins.settings_models(), kinds=plugins.kinds())
    for crd in crds:
        if crd["spec"]["names"]["kind"] == "KaiwoJob" and without:
            schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            del schema["properties"]["spec"]["properties"][without]
    return crds


@pytest.mark.parametrize("command", [("submit", "job.yaml"), ("list",), ("status", "train")])
def test_crds_that_are_not_installed_are_named_with_the_command(here: Cli, command: tuple[str, ...]) -> None:
    """Runs first: the cluster of an administrator who installed nothing yet."""
    write("gpus: 1")
    code, said = here(*command)
    assert code == 1
    assert "Kaiwo's CRDs are not installed" in said
    assert "kaiwo manifests crds | kubectl apply --server-side -f -" in said


def test_a_field_that_the_installed_crds_lack_is_refused(
    here: Cli, fresh: Sandbox, apply_crd: Callable[[Any, Any], None]
) -> None:
    """A field that the command knows and the cluster does not would be dropped in silence."""
    for crd in definitions(without="gpuModels"):
        apply_crd(fresh, crd)
    try:
        write("gpus: 1\ngpuModels: [mi300x]")
        code, said = here("submit", "job.yaml")
        assert code == 1
        assert "spec.gpuModels: unknown field in this cluster" in said
        assert "ask an administrator" in said
        assert "nothing was sent" in said
    finally:
        for crd in definitions():
            apply_crd(fresh, crd)


SLIPS = {
    "16 GPUs on nodes with 8": (
        "gpus: 16",
        0,
        ("warning: job/train: would not run: GPUsExceedNode: asked for 16", "nearest that fits: 8"),
    ),
    "a vendor misspelt": ("gpus: 1\ngpuVendor: amdd", 0, ("would not run: VendorNotLoaded", "amd")),
    "a priority class that is not there": (
        "priorityClass: urgent",
        0,
        ("would not run: PriorityClassNotFound", "urgent"),
    ),
    "a storage class that is not there": (
        "storage: {storageEnabled: true, storageClassName: fsat, data: {storageSize: 1Gi}}",
        0,
        ('StorageClass "fsat" not found', "kubectl get storageclasses"),
    ),
    "a Secret that is not there": (
        "env: [{name: T, valueFrom: {secretKeyRef: {name: hub, key: token}}}]",
        0,
        (
            'warning: job/train: Secret "hub" not found',
            "kubectl create secret generic hub",
            "--from-literal=token",
        ),
    ),
    "a pull secret that is not there": (
        "image: a/b:1\nimagePullSecrets: [{name: registry}]",
        0,
        ('Secret "registry" not found in namespace',),
    ),
    "a ConfigMap of an embedded template that is not there": (
        "job: {spec: {template: {spec: {containers: [{name: a, envFrom: [{configMapRef: {name: conf}}]}]}}}}",
        0,
        ('ConfigMap "conf" not found',),
    ),
    "a block that is not used": ("ray: true\nentrypoint: python a.py\njob: {}", 0, ("spec.job is ignored",)),
}


@pytest.mark.parametrize("name", SLIPS)
@pytest.mark.parametrize("command", [("submit",), ("submit", "--dry-run"), ("plan",)], ids=" ".join)
def test_submit_its_dry_run_and_plan_say_the_same(here: Cli, name: str, command: tuple[str, ...]) -> None:
    """Who submits reads what plan would have said; what may heal by itself is sent all the same."""
    spec, code, says = SLIPS[name]
    write(spec)
    found, said = here(*command, "job.yaml")
    missing = [part.removeprefix("warning: ") for part in says if part.removeprefix("warning: ") not in said]
    assert not missing, said
    if command[0] == "submit":
        assert found == code, said
        assert "warning: job/train: " in said


def test_a_key_that_a_secret_lacks(here: Cli, fresh: Sandbox, space: str) -> None:
    """The pod would wait with CreateContainerConfigError."""
    fresh.api.create(SECRET.path(space), {"metadata": {"name": "hub"}, "stringData": {"tokne": "x"}})
    write("env: [{name: T, valueFrom: {secretKeyRef: {name: hub, key: token}}}]")
    code, said = here("submit", "job.yaml")
    assert code == 0
    assert 'Secret "hub" has no key "token"' in said


def test_a_queue_that_does_not_exist_is_a_warning(
    here: Cli, fresh: Sandbox, apply_crd: Callable[[Any, Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue system's objects are read, so a misspelt queue shows before anything waits in it."""
    monkeypatch.delenv("KAIWO_PLUGINS_DISABLED")
    write("gpus: 1\nclusterQueue: tema-a")
    code, said = here("submit", "job.yaml")
    assert code == 0
    assert "would wait: " in said
    assert "Kueue is not installed" in said
    system = load().queue_system
    assert system is not None
    for kind in system.reads:
        if "." in kind.group and not kind.group.startswith("kaiwo"):
            apply_crd(fresh, any_content(kind))
    write("gpus: 1\nclusterQueue: tema-a")
    code, said = here("submit", "job.yaml")
    assert code == 0
    assert "would not run: ClusterQueueNotFound" in said
    assert "tema-a" in said


def any_content(kind: Any) -> Any:
    """A definition of a kind without a schema of its own."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind.kind, "plural": kind.plural}
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {"group": kind.group, "names": names, "scope": scope, "versions": [version]},
    }


def test_a_namespace_that_is_not_there(here: Cli) -> None:
    """The last -n wins, as everywhere."""
    write("gpus: 1")
    code, said = here("submit", "job.yaml", "-n", "nowhere")
    assert code == 3
    assert 'namespace "nowhere" not found; kubectl create namespace nowhere' in said


@pytest.mark.parametrize(
    "command", [("submit", "job.yaml"), ("list",), ("status", "train"), ("delete", "train")]
)
def test_credentials_that_are_not_accepted_are_named(
    here: Cli, fresh: Sandbox, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """The API server answers 401, whatever the token once was."""
    config = yaml.safe_load(fresh.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "expired"}
    Path("expired.kubeconfig").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", "expired.kubeconfig")
    write("gpus: 1")
    code, said = here(*command)
    assert code == 1
    assert "credentials not accepted by the API server" in said
    assert "log in to the cluster again" in said


def test_a_workload_that_no_operator_observes_says_so(here: Cli) -> None:
    """Nobody observes the workload: waiting and status say so."""
    write("gpus: 1")
    code, said = here("submit", "job.yaml", "--wait", "--timeout", "2s")
    assert code == 4
    assert "not yet observed by an operator" in said
    assert "kaiwo status job/train" in said


def test_a_misspelt_name_is_answered_with_the_nearest_one(here: Cli) -> None:
    """The nearest name of the namespace is shown."""
    write("gpus: 1")
    here("submit", "job.yaml")
    code, said = here("status", "trian")
    assert code == 3
    assert 'did you mean "train"?' in said


def test_ctrl_c_while_waiting_says_how_to_come_back(
    here: Cli, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workload goes on: how to come back and how to end it is said."""
    monkeypatch.setattr("kaiwo.client.waiting.wait", Mock(side_effect=KeyboardInterrupt))
    write("gpus: 1")
    code, said = here("submit", "job.yaml", "--wait")
    assert code == 130
    assert "interrupted; job/train goes on in the cluster" in said
    assert (
        f"kaiwo status job/train -n {space} -w to come back, kaiwo delete job/train -n {space} to end" in said
    )


def test_a_cluster_that_cannot_be_read_keeps_nobody_from_sending(
    here: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes, classes and configuration are read for the warnings alone."""
    away = Mock(side_effect=ServerUnavailable(503, "ServiceUnavailable", "away"))
    monkeypatch.setattr("kaiwo.cli.cluster_context.read_context", away)
    write("gpus: 1")
    code, said = here("submit", "job.yaml")
    assert code == 0
    assert "warning: not checked against the cluster: " in said
    assert "job/train created" in said


def test_a_change_that_would_not_be_applied(here: Cli, fresh: Sandbox, space: str) -> None:
    """A running Job keeps its image: "configured" would be a lie."""
    write("gpus: 1\nimage: a/b:1")
    assert here("submit", "job.yaml")[0] == 0
    child(fresh, space)
    write("gpus: 1\nimage: a/b:2")
    for command in (("submit",), ("submit", "--dry-run")):
        code, said = here(*command, "job.yaml")
        assert code == 1, said
        assert "job/train would not be changed: " in said
        assert "image" in said
        assert "--replace" in said
        assert "nothing was sent" in said
    assert fresh.api.get(KAIWO_JOB.path(space, "train"))["spec"]["image"] == "a/b:1"


def child(fresh: Sandbox, space: str) -> None:
    """Create the Job that the operator would create for the stored workload."""
    import io
    from contextlib import redirect_stdout

    out = io.StringIO()
    with redirect_stdout(out):
        assert run(kaiwo, ["-n", space, "plan", "job.yaml", "-o", "json"], "kaiwo") == 0
    made = yaml.safe_load(out.getvalue())
    made = made["items"][0] if made.get("kind") == "List" else made
    made["spec"]["suspend"] = True  # or the simulated node ends it between two calls
    fresh.api.request("POST", JOB.path(space) + "?fieldManager=kaiwo", made, content_type="application/json")
