"""``kaiwo list`` of what does not exist, and with ``-w``, against a real API server."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import pytest

from kaiwo.cli import kit
from kaiwo.cli.options import GlobalOptions
from kaiwo.client.kinds import KAIWO_JOB, WORKLOADS
from kaiwo.client.list_watch import ListScope, ListWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_sandbox.sandbox import Sandbox

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


pytestmark = pytest.mark.cluster


def test_a_namespace_that_does_not_exist_is_not_an_empty_one(here: Cli, namespace: str) -> None:
    """A misspelt name must not be taken for a finished workload: not found is exit code 3."""
    empty = here("list")
    assert empty.code == 0
    assert empty.err == (
        f"no workloads in namespace {namespace}; send one with kaiwo submit FILE, "
        "or look in all namespaces with -A\n"
    )
    missing = here("list", "-n", "there-is-none")
    assert (missing.code, missing.out) == (3, "")
    assert missing.err == 'error: namespace "there-is-none" not found\nhint: kubectl get namespaces\n'


def test_a_watch_reads_again_only_when_something_changed(
    here: Cli, control_plane: Sandbox, namespace: str
) -> None:
    """Changes arrive through a watch; nothing polls every two seconds."""
    assert here("list").code == 0
    job = {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {},
    }
    settings = GlobalOptions(namespace=namespace, kubeconfig=str(control_plane.kubeconfig))
    with click.Context(click.Command("list"), obj=settings), kit.cluster() as cluster:
        source = ListWatch(cluster.api, [ListScope(kind, namespace) for kind in WORKLOADS])
        assert cluster.run(lambda _: source.read(watch=True)) == []
        assert not cluster.run(lambda _: source.changed(0.5))
        timer = threading.Timer(0.5, control_plane.api.create, (KAIWO_JOB.path(namespace), job))
        timer.start()
        began = time.monotonic()
        assert cluster.run(lambda _: source.changed(30.0))
        assert time.monotonic() - began < 20
        timer.join()
        assert [obj["metadata"]["name"] for obj in cluster.run(lambda _: source.read(watch=True))] == [
            "train"
        ]
        cluster.run(lambda _: source.close())


def test_labels_select_as_for_kubectl(here: Cli, control_plane: Sandbox, namespace: str) -> None:
    """``-l`` takes what kubectl takes; what it cannot read is the API server's to say."""
    for name, team in (("seen", "vision"), ("other", "speech")):
        job = {
            "apiVersion": KAIWO_JOB.api_version,
            "kind": "KaiwoJob",
            "metadata": {"name": name, "namespace": namespace, "labels": {"team": team}},
            "spec": {},
        }
        control_plane.api.create(KAIWO_JOB.path(namespace), job)
    assert here("list", "-l", "team in (vision)", "-o", "name").out == "kaiwojob.kaiwo.silogen.ai/seen\n"
    assert "leave one out" in here("list", "-l", "team=sound").err
    wrong = here("list", "-l", "team in")
    assert wrong.code == 1
    assert "request rejected by the API server" in wrong.err
