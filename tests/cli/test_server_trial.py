"""What ``kaiwo plan`` reports of dry runs of objects and of their pods."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

from kaiwo.cli.server_trial import pod_templates, try_objects
from kaiwo.engine.errors import Invalid
from kaiwo.engine.resource import JOB, POD, Resource
from kaiwo.workload.model import Create, Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_sandbox.sandbox import Sandbox

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


APP_WRAPPER = Resource("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")


def write(**spec: Any) -> str:
    """A manifest in the working directory; returns its path."""
    document = {"apiVersion": "kaiwo.silogen.ai/v1alpha1", "kind": "KaiwoJob", "metadata": {"name": "train"}}
    Path("job.yaml").write_text(yaml.safe_dump({**document, "spec": {"image": "a", "gpus": 1, **spec}}))
    return "job.yaml"


def put(control_plane: Sandbox, namespace: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    """Create a core object."""
    path = f"/api/v1/namespaces/{namespace}/{kind}"
    control_plane.api.create(path, {"metadata": {"name": name}, "spec": spec})


@pytest.mark.cluster
def test_a_limit_range_that_refuses_the_pods_is_reported(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """The Job could be created, its pods never: exit 1, in the words of the API server."""
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    put(control_plane, namespace, "limitranges", "small", {"limits": limits})
    result = here("plan", write(), "-o", "name")
    assert result.code == 1
    assert (
        "job/train: would not run: FailedCreate: the cluster would refuse pods of Job train: " in result.err
    )
    assert "maximum cpu usage per Container is 1, but limit is 4" in result.err


@pytest.mark.cluster
def test_pods_larger_than_a_quota_never_run_and_others_wait(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """More than the quota has is exit 1; what others hold of it may become free, and is a warning."""
    hard = {"requests.amd.com/gpu": "1", "pods": "1"}
    put(control_plane, namespace, "resourcequotas", "small", {"hard": hard})
    too_many = here("plan", write(gpus=2), "-o", "name")
    assert too_many.code == 1, too_many.err
    assert "would not run: FailedCreate: " in too_many.err
    assert "exceeded quota: small" in too_many.err
    put(control_plane, namespace, "pods", "other", {"containers": [{"name": "a", "image": "a"}]})
    held = here("plan", write(gpus=1), "-o", "name")
    assert held.code == 0, held.err
    assert "warning: job/train: FailedCreate: " in held.err
    assert "used: pods=1" in held.err


@pytest.mark.cluster
def test_fields_that_the_api_server_leaves_out_are_named(here: Cli) -> None:
    """Misspelt fields of an embedded Job do nothing, so each is a warning; other checks go on."""
    container = {"name": "workload", "resources": {"limit": {"cpu": 1}}, "ports": [{"containerPort": 99999}]}
    spec = {"backofLimit": 1, "template": {"spec": {"containers": [container]}}}
    result = here("plan", write(job={"spec": spec}), "-o", "name")
    assert 'warning: job/train: Job train: unknown field "spec.backofLimit", ' in result.err
    assert '"spec.template.spec.containers[0].resources.limit"; the cluster leaves it out' in result.err
    assert result.code == 1
    assert "would not run: InvalidSpec: " in result.err
    assert "containerPort" in result.err


@pytest.mark.cluster
def test_pods_that_the_user_may_not_create_are_not_checked(
    here: Cli, control_plane: Sandbox, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan says so, and is as good as it was."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [
        {"apiGroups": ["kaiwo.silogen.ai"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["batch"], "resources": ["*"], "verbs": ["*"]},
    ]
    control_plane.api.create(f"{rbac}/roles", {"metadata": {"name": "r"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subjects = [{"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}]
    binding = {"metadata": {"name": "r"}, "roleRef": role, "subjects": subjects}
    control_plane.api.create(f"{rbac}/rolebindings", binding)
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "ada"
    path = tmp_path / "ada.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    monkeypatch.setenv("KUBECONFIG", str(path))
    result = here("plan", write(), "-o", "name")
    assert result.code == 0, result.err
    assert "warning: pods of Job train not checked by the cluster: " in result.err
    assert "Job train not checked" not in result.err.replace("pods of Job train", "")
    assert "would create Job train" in result.err


def test_pod_templates_are_found_in_every_kind() -> None:
    """Of a Ray cluster, the head's and those of the workers."""
    head, worker = ({"spec": {"containers": [{"name": name}]}} for name in ("head", "worker"))
    cluster = {"headGroupSpec": {"template": head}, "workerGroupSpecs": [{"template": worker}]}
    assert list(pod_templates({"spec": {"rayClusterSpec": cluster}})) == [head, worker]
    assert list(pod_templates({"kind": "ConfigMap", "data": {"spec": "x"}})) == []


class _StrictCluster:
    """Dry runs of an API server that knows pods and Jobs alone, and there one field that does not exist."""

    def run(self, work: Callable[[Any], Any]) -> Any:
        """Run with this as the client."""
        return asyncio.run(work(self))

    async def create(
        self, resource: Resource, obj: Any, *, field_validation: str | None, dry_run: bool
    ) -> None:
        """Refuse the field where it is asked for, as the API server does."""
        assert dry_run
        if field_validation == "Strict" and resource in (JOB, POD) and "limit:" in yaml.safe_dump(obj):
            raise Invalid(400, "BadRequest", 'strict decoding error: unknown field "limit"')


@pytest.mark.parametrize(
    ("resource", "named"), [(APP_WRAPPER, "pods of AppWrapper train"), (JOB, "Job train")]
)
def test_fields_that_only_pods_show_as_unknown_are_named_once(resource: Resource, named: str) -> None:
    """The API server knows nothing of what is in an AppWrapper, so fields of its pods vanish later."""
    container = {"name": "w", "resources": {"limit": {"cpu": 1}}}
    template = {"spec": {"containers": [container]}}
    obj = {"kind": resource.kind, "metadata": {"name": "train"}, "spec": {"components": [template] * 2}}
    cluster: Any = _StrictCluster()
    found = try_objects(cluster, Plan(writes=(Create(resource, obj),)))
    assert found.rejections == ()
    assert found.warnings == (f'{named}: unknown field "limit"; the cluster leaves it out',)
