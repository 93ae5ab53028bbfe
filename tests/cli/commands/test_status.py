"""``kaiwo status -w`` waits for changes with a watch, against a real API server."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import pytest

from kaiwo.cli import kit
from kaiwo.cli.commands.status import _Watched
from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.workload_details import RUN_ID
from kaiwo.client.kinds import KAIWO_JOB
from kaiwo.engine.resource import POD

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_sandbox.sandbox import Sandbox

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""

pytestmark = pytest.mark.cluster


def test_the_page_is_read_again_when_the_workload_or_a_pod_changes(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """Nothing is read while nothing changes; a change of a pod shows without one of the workload."""
    assert here("list").code == 0
    api = control_plane.api
    job = {"metadata": {"name": "train", "namespace": namespace}, "spec": {}}
    head = {"apiVersion": KAIWO_JOB.api_version, "kind": "KaiwoJob"}
    workload = api.create(KAIWO_JOB.path(namespace), {**head, **job})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-a", "labels": {RUN_ID: workload["metadata"]["uid"]}},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    settings = GlobalOptions(namespace=namespace, kubeconfig=str(control_plane.kubeconfig))
    with click.Context(click.Command("status"), obj=settings), kit.cluster() as cluster:
        watched = _Watched(cluster)
        changes: list[Callable[[], object]] = [
            lambda: api.create(POD.path(namespace), pod),
            lambda: api.request(
                "PATCH",
                KAIWO_JOB.path(namespace, "train"),
                {"metadata": {"labels": {"a": "b"}}},
                content_type="application/merge-patch+json",
            ),
        ]
        for change in changes:
            watched.begin(KAIWO_JOB, workload)
            assert not watched.changed(0.5)
            timer = threading.Timer(0.5, change)
            timer.start()
            began = time.monotonic()
            assert watched.changed(30.0)
            assert time.monotonic() - began < 20
            timer.join()
        watched.end()
