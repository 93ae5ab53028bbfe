"""Starting, restarting, resetting and deleting a sandbox."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox import nodes, process
from kaiwo_sandbox.api import ApiClient, SandboxApiError
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.sandbox import Sandbox
from kaiwo_sandbox.teardown import down

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.cluster


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of the test's own, with the real cache."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def sandbox(state: Path) -> Iterator[Sandbox]:
    """A small sandbox that the test may break."""
    del state
    running = Sandbox.up("mine", nodes="small", owned=True)
    yield running
    running.down()


def namespaces(sandbox: Sandbox) -> set[str]:
    """The names of all namespaces."""
    return {item["metadata"]["name"] for item in sandbox.api.get("/api/v1/namespaces")["items"]}


def test_a_sandbox_can_be_found_used_and_taken_down_by_name(sandbox: Sandbox, state: Path) -> None:
    """As the commands do, which know no more than the name."""
    found = Sandbox.find("mine")
    assert found is not None
    assert found.status().ready
    assert Sandbox.names() == ["mine"]
    with pytest.raises(SandboxError, match="already running"):
        Sandbox.up("mine")
    running = process.recorded(sandbox.directory)
    assert set(running) >= {
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
    }
    found.api.close()
    assert down("mine")
    assert not any(each.alive() for each in running.values())
    assert not (state / "kaiwo").exists()
    assert Sandbox.find("mine") is None
    assert not down("mine")


def test_reset_goes_back_to_the_beginning(sandbox: Sandbox) -> None:
    """Objects and nodes made since are gone, the address stays, and Jobs run again."""
    url = sandbox.url
    sandbox.create_namespace("later")
    sandbox.add_node(nodes.nvidia_node("nvidia-9"))
    sandbox.reset()
    assert "later" not in namespaces(sandbox)
    names = {item["metadata"]["name"] for item in sandbox.api.get("/api/v1/nodes")["items"]}
    assert names == {"amd-1", "cpu-1"}
    assert sandbox.url == url
    sandbox.create_namespace("again")
    assert sandbox.status().ready


def test_the_api_server_restarts_under_load_without_losing_what_it_acknowledged(sandbox: Sandbox) -> None:
    """Clients see errors for a moment; everything that was created is there afterwards."""
    stop = threading.Event()
    made: list[str] = []
    failed: list[Exception] = []

    def load(thread: int) -> None:
        api = ApiClient(sandbox.url, sandbox.directory / "pki")
        number = 0
        while not stop.is_set():
            name = f"load-{thread}-{number}"
            number += 1
            try:
                api.create(
                    "/api/v1/namespaces/default/configmaps",
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}},
                )
            except (OSError, SandboxApiError) as error:
                failed.append(error)
                stop.wait(0.05)
            else:
                made.append(name)
        api.close()

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    before = process.recorded(sandbox.directory)["kube-apiserver"]
    while len(made) < 20:
        stop.wait(0.05)
    sandbox.restart_api_server()
    count = len(made)
    while len(made) < count + 20:
        stop.wait(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    assert failed
    after = process.recorded(sandbox.directory)["kube-apiserver"]
    assert after.pid != before.pid
    listed = sandbox.api.get("/api/v1/namespaces/default/configmaps")["items"]
    assert set(made) <= {item["metadata"]["name"] for item in listed}


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("no such flag: --etcd-servers", "the machine may be overloaded"),
        ("couldn't initialize inotify: too many open files", "fs.inotify.max_user_instances"),
    ],
)
def test_a_program_that_cannot_run_is_shown_and_nothing_stays(
    state: Path, tmp_path: Path, said: str, hint: str
) -> None:
    """The error contains the log of the program and what to do, and the incomplete sandbox is deleted."""
    assets = tmp_path / "assets"
    assets.mkdir()
    broken = assets / "kube-apiserver"
    broken.write_text(f'#!/bin/sh\necho "{said}"\nexit 2\n')
    broken.chmod(0o755)
    with pytest.raises(SandboxError, match="kube-apiserver exited before") as caught:
        Sandbox.up("broken", binaries=assets, owned=True)
    assert said in caught.value.detail
    assert hint in caught.value.hint
    assert Sandbox.names() == []
    assert not list(state.rglob("*"))
