"""``kaiwo install`` on a real control plane: what differs is shown, asked about and written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo_sandbox.sandbox import Sandbox

    Cli = Callable[..., Any]

pytestmark = pytest.mark.cluster

IMAGE = "registry.example/kaiwo-operator:1"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[Sandbox]:
    """A sandbox that no other test uses: others leave definitions with fields of Helm and other managers."""
    from kaiwo_sandbox.sandbox import Sandbox

    sandbox = Sandbox.up(f"pytest-{os.getpid()}-install", owned=True)
    yield sandbox
    sandbox.down()


@pytest.fixture
def command(
    cli: Cli,
    control_plane: Sandbox,
    namespace: str,
    selection: str,
    installations: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Cli:
    """Run ``kaiwo install`` for the test's namespace."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    installations.append(namespace)

    def run(*args: str) -> Any:
        return cli("install", "--plugins", selection, "--namespace", namespace, "--image", IMAGE, *args)

    return run


def test_what_is_rendered_is_written_once(
    command: Cli, control_plane: Sandbox, namespace: str, until_kind: Callable[[Sandbox, str], None]
) -> None:
    """A dry run and a question nobody answers write nothing, and the second installation has no work."""
    deployment = DEPLOYMENT.path(namespace, "kaiwo-operator")
    shown = command("--dry-run")
    assert shown.code == 0, shown.err
    assert f"create deployments.apps kaiwo-operator -n {namespace}\n" in shown.out
    assert command().code == 2
    with pytest.raises(Exception, match="404"):
        control_plane.api.get(deployment)
    result = command("--yes")
    assert result.code == 0, result.err
    assert "kaiwo doctor checks it" in result.err
    (container,) = control_plane.api.get(deployment)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    until_kind(control_plane, KAIWO_JOB.path())
    again = command("--yes")
    assert (again.code, "nothing to write" in again.err) == (0, True), again.err
    assert control_plane.api.get(NAMESPACE.path(None, namespace))["metadata"]["labels"]


def test_a_changed_option_changes_what_it_concerns(
    command: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """An upgrade writes what differs; what was rendered before and is not any more is named."""
    assert command("--yes", "--network-policy").code == 0
    shown = command("--dry-run", "--replicas", "1")
    assert f"change deployments.apps kaiwo-operator -n {namespace}\n" in shown.out
    assert "clusterroles" not in shown.out
    assert "networkpolicies.networking.k8s.io kaiwo-operator" in shown.err
    assert control_plane.api.get(DEPLOYMENT.path(namespace, "kaiwo-operator"))["spec"]["replicas"] == 2


def test_what_others_hold_is_not_overwritten_unasked(
    command: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """Fields that an administrator has changed, and objects of a Helm release."""
    assert command("--yes").code == 0
    path = DEPLOYMENT.path(namespace, "kaiwo-operator")
    control_plane.api.request(
        "PATCH", f"{path}?fieldManager=ada", {"spec": {"replicas": 5}},
        content_type="application/merge-patch+json",
    )  # fmt: skip
    refused = command("--yes")
    assert refused.code == 1
    assert "fields were changed by somebody else" in refused.err
    assert "ada" in refused.err
    assert "--force-conflicts" in refused.err
    assert command("--yes", "--force-conflicts").code == 0
    assert control_plane.api.get(path)["spec"]["replicas"] == 2
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    control_plane.api.request(
        "PATCH", path, {"metadata": {"labels": labels}}, content_type="application/merge-patch+json"
    )
    held = command("--yes", "--replicas", "1")
    assert (held.code, "helm upgrade" in held.err) == (1, True), held.err


def test_definitions_that_a_removed_release_has_left_are_taken(command: Cli, control_plane: Sandbox) -> None:
    """Helm keeps them, with its label; there is no release any more that could be removed first."""
    path = CUSTOM_RESOURCE_DEFINITION.path(None, "kaiwojobs.kaiwo.silogen.ai")
    assert command("--yes").code == 0
    left = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    control_plane.api.request("PATCH", path, left, content_type="application/merge-patch+json")
    result = command("--yes", "--replicas", "1")
    assert result.code == 0, result.err
