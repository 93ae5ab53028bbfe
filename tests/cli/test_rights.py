"""What somebody sees who may use workloads of one namespace and little else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

from kaiwo.install.user_roles import user_roles
from kaiwo.plugin.loader import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kaiwo_sandbox.sandbox import Sandbox

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo`` with arguments; gives code, out and err."""


pytestmark = pytest.mark.cluster

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def scientist(
    here: Cli, control_plane: Sandbox, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Cli:
    """The command line of a user who may write workloads, and read what plain jobs are made of."""
    api = control_plane.api
    api.create(
        f"{RBAC}/namespaces/{namespace}/roles",
        {
            "metadata": {"name": "scientist"},
            "rules": [
                {"apiGroups": ["kaiwo.silogen.ai"], "resources": ["*"], "verbs": ["*"]},
                {"apiGroups": ["", "batch"], "resources": ["*"], "verbs": ["get", "list"]},
            ],
        },
    )
    api.create(
        f"{RBAC}/namespaces/{namespace}/rolebindings",
        {
            "metadata": {"name": "scientist"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "scientist"},
            "subjects": [{"kind": "ServiceAccount", "name": "ada", "namespace": namespace}],
        },
    )
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.create(accounts, {"metadata": {"name": "ada"}})
    token = api.create(f"{accounts}/ada/token", {"spec": {}})["status"]["token"]
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = tmp_path / "ada.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return here


def test_a_plan_needs_no_right_to_what_it_shows(scientist: Cli, job_file: Path) -> None:
    """The operator creates the Job, so the plan is valid; what could not be read is reported once each."""
    result = scientist("plan", "-f", str(job_file), "-o", "name", "--plugins", "batch_job,gpu_amd")
    assert (result.code, result.out) == (0, "job.batch/train\n")
    said = result.err.splitlines()
    assert sum("not allowed to list nodes, " in line for line in said) == 1
    assert sum(line.startswith("warning: Job train not checked by the cluster: ") for line in said) == 1
    assert "without a cluster" not in result.err
    assert said[-1] == "job/train: would create Job train"


def test_a_user_with_the_roles_for_users_gets_a_plan_with_all_checks(
    here: Cli,
    control_plane: Sandbox,
    namespace: str,
    job_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Role edit in the namespace, kaiwo-cluster-view everywhere: nothing that a plan reads is hidden."""
    api = control_plane.api
    paths = []
    for manifest in user_roles(load(), namespace):
        role = manifest.obj["metadata"]["name"]
        manifest.obj["metadata"]["labels"] = {}  # not aggregated: the roles are taken by themselves
        paths.append(f"{RBAC}/clusterroles/{role}")
        api.apply(paths[-1], manifest.obj)
    bindings = f"{RBAC}/namespaces/{namespace}/rolebindings"
    for kind, at, name in (
        ("RoleBinding", bindings, "edit"),
        ("RoleBinding", bindings, f"kaiwo-edit.{namespace}"),
        ("ClusterRoleBinding", f"{RBAC}/clusterrolebindings", f"kaiwo-cluster-view.{namespace}"),
    ):
        bound = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": namespace}],
        }
        paths.append(f"{at}/{name}")
        api.apply(paths[-1], bound)
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = namespace
    path = tmp_path / "user.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    for _ in range(20):
        result = here("plan", "-f", str(job_file), "-o", "name")
        if "not allowed to list" not in result.err:
            break
        time.sleep(0.5)
    for each in reversed(paths):
        api.request("DELETE", each)
    assert "not allowed to list" not in result.err
    assert "defaults are assumed" not in result.err


def test_status_requests_only_kinds_that_the_workload_can_have(scientist: Cli, job_file: Path) -> None:
    """A plain job does not use Ray; a missing right to read its kinds is not reported each time."""
    assert scientist("submit", "-f", str(job_file)).code == 0
    result = scientist("status", "train")
    assert (result.code, result.err) == (0, "")


def test_a_refused_submission_names_who_can_grant_the_right(scientist: Cli, job_file: Path) -> None:
    """Another namespace is not theirs."""
    result = scientist("submit", "-f", str(job_file), "-n", "default")
    assert result.code == 1
    assert "job.yaml:1:1: not allowed: " in result.err
    assert "ask an administrator for the right" in result.err
