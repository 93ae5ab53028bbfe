"""What webhooks refuse, warn about and change, seen by users of a real API server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.errors import ApiError
from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    As = Callable[[str], Client]

pytestmark = pytest.mark.cluster

HOOKS = ("workloads.", "identity.", "templates.")
ACCOUNT = "system:serviceaccount:team-a:ci"


@pytest.fixture
async def acting(control_plane: Any, tmp_path: Path) -> AsyncIterator[As]:
    """A function that gives the client of a user who may do everything."""
    async with contextlib.AsyncExitStack() as stack:
        clients: list[Client] = []

        def client(user: str) -> Client:
            content = yaml.safe_load(control_plane.kubeconfig.read_text())
            content["users"][0]["user"] |= {"as": user, "as-groups": ["system:masters"]}
            file = tmp_path / f"{len(clients)}.kubeconfig"
            file.write_text(yaml.safe_dump(content))
            clients.append(Client(credentials.load(file)))
            stack.push_async_exit(clients[-1])
            return clients[-1]

        yield client


@pytest.fixture
async def serve(hooks: Any, operator: Any) -> Callable[[str], Awaitable[OperatorProcess]]:
    """A function that starts an operator with webhooks in a mode of identity."""

    async def start(identity: str) -> OperatorProcess:
        hooks.register(only=HOOKS, fail=True)
        started: OperatorProcess = await hooks.operator(operator, {"KAIWO_IDENTITY": identity})
        return started

    return start


def job(namespace: str, name: str = "train", **spec: Any) -> Object:
    """A KaiwoJob."""
    return {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"image": "registry.example/train:1", **spec},
    }


async def test_set_names_the_authenticated_user_whoever_is_written(
    hooks: Any, serve: Any, acting: As
) -> None:
    """Another name is replaced, the pods carry the label, and nobody takes a workload by an update."""
    await serve("set")
    jane, joe, robot, space = acting("jane@example.com"), acting("joe"), acting(ACCOUNT), hooks.workloads
    made = await jane.create(KAIWO_JOB, job(space, user="boss"))
    assert made["spec"]["user"] == "jane@example.com"
    child = await until(hooks.client, JOB, space, "train", lambda found: found is not None)
    assert child["metadata"]["labels"]["kaiwo.silogen.ai/user"] == "jane-example.com"
    for change in ({"user": "joe"}, {"user": None}, {"duration": "1h"}):
        changed = await joe.merge_patch(KAIWO_JOB, space, "train", {"spec": change})
        assert changed["spec"]["user"] == "jane@example.com"
    assert changed["spec"]["duration"] == "1h"
    for _ in range(2):
        applied = await joe.apply(KAIWO_JOB, job(space, user="boss"), field_manager="kubectl")
        assert applied["spec"]["user"] == "jane@example.com"
    made = await robot.create(KAIWO_JOB, job(space, "robot"))
    assert made["spec"]["user"] == ACCOUNT
    child = await until(hooks.client, JOB, space, "robot", lambda found: found is not None)
    assert child["metadata"]["labels"]["kaiwo.silogen.ai/user"] == "serviceaccount.team-a.ci"


async def test_check_refuses_every_other_name(hooks: Any, serve: Any, acting: As) -> None:
    """The message names both, and a colleague may change all but the user."""
    await serve("check")
    jane, joe, space = acting("jane@example.com"), acting("joe"), hooks.workloads
    with pytest.raises(ApiError, match=r'expected "jane@example.com", the authenticated user, got "boss"'):
        await jane.create(KAIWO_JOB, job(space, user="boss"))
    with pytest.raises(ApiError, match=r"spec\.user: is required"):
        await jane.create(KAIWO_JOB, job(space))
    await jane.create(KAIWO_JOB, job(space, user="jane@example.com"))
    with pytest.raises(ApiError, match=r'cannot change from "jane@example.com" to "joe"') as refused:
        await joe.merge_patch(KAIWO_JOB, space, "train", {"spec": {"user": "joe"}})
    assert refused.value.status == 403
    await joe.merge_patch(KAIWO_JOB, space, "train", {"spec": {"duration": "1h"}})


async def test_an_immutable_field_of_a_running_job_is_refused_and_the_rest_passes(
    hooks: Any, serve: Any, acting: As
) -> None:
    """Labels, finalizers and deletion pass, and so does the operator's own status."""
    await serve("set")
    jane, space = acting("jane"), hooks.workloads
    await jane.create(KAIWO_JOB, job(space, gpus=0))
    await until(
        hooks.client, KAIWO_JOB, space, "train",
        lambda found: bool(((found or {}).get("status") or {}).get("childUID")),
    )  # fmt: skip
    with pytest.raises(ApiError, match=r"spec\.image is immutable while the Job exists") as refused:
        await jane.merge_patch(KAIWO_JOB, space, "train", {"spec": {"image": "registry.example/train:2"}})
    assert refused.value.status == 422
    labels = {"metadata": {"labels": {"team": "a"}, "finalizers": ["example.com/wait"]}}
    await jane.merge_patch(KAIWO_JOB, space, "train", labels)
    await jane.delete(KAIWO_JOB, space, "train")
    await jane.merge_patch(KAIWO_JOB, space, "train", {"metadata": {"finalizers": None}})
    await until(hooks.client, KAIWO_JOB, space, "train", lambda found: found is None)


async def test_privileges_of_a_template_need_the_label_of_the_namespace(
    hooks: Any, serve: Any, acting: As
) -> None:
    """As with the admission policy, which this API server has as well and which is not installed here."""
    await serve("set")
    jane, space = acting("jane"), hooks.workloads
    pod = {"hostPID": True, "containers": [{"name": "main"}]}
    obj = job(space, job={"spec": {"template": {"spec": pod}}})
    with pytest.raises(ApiError, match=r"spec\.job\.spec\.template\.spec\.hostPID: must be false") as refused:
        await jane.create(KAIWO_JOB, obj)
    assert refused.value.status == 403
    labels = {"kaiwo.silogen.ai/allow-privileged": "true"}
    hooks.api.apply(
        f"/api/v1/namespaces/{space}",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": labels}},
    )
    await jane.create(KAIWO_JOB, obj, dry_run=True)
