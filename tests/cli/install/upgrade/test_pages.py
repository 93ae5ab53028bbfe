"""The commands of docs/upgrade.md and docs/uninstall.md, word by word and in their order."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from docs.generate.pages import DOCS
from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Resource
from kaiwo.testing.operator import OperatorProcess, until
from kaiwo_kueue.kinds import QUEUE_CONFIG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from kaiwo.engine.client import Client

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="the commands of the pages need kubectl"),
]

PLUGINS = "batch_job,deployment,gpu_amd,kueue,node_pools"
SYSTEM = "kaiwo-system"
CLUSTER_ROLE = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
DIFFERS = 1  # exit code of kubectl diff, and of kaiwo doctor


def commands(page: str) -> list[str]:
    """The commands in the console blocks of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


class Terminal:
    """A shell of an administrator with ``kubectl`` and this version of ``kaiwo``."""

    def __init__(self, directory: Path, kubeconfig: Path) -> None:
        program = directory / "bin" / "kaiwo"
        program.parent.mkdir()
        start = "import sys; sys.argv[0] = 'kaiwo'; from kaiwo.cli.main import main; main()"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n')
        program.chmod(0o755)
        self._directory = directory
        self._env = {
            **os.environ,
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(kubeconfig),
            "KAIWO_PLUGINS": PLUGINS,
            "HOME": str(directory),
        }

    async def run(self, command: str) -> None:
        """Run one command; it succeeds, or reports differences where it is there for that."""
        done = await asyncio.to_thread(
            subprocess.run, ["/bin/bash", "-o", "pipefail", "-c", command],
            env=self._env, cwd=self._directory, capture_output=True, text=True, check=False,
        )  # fmt: skip
        allowed = (0, DIFFERS) if re.search(r"kubectl diff|kaiwo doctor", command) else (0,)
        assert done.returncode in allowed, f"{command}\n{done.stdout}\n{done.stderr}"

    async def follow(self, page: str) -> int:
        """Run all commands of a page; how many there were."""
        found = commands(page)
        for command in found:
            await self.run(command)
        return len(found)


@pytest.fixture
def terminal(tmp_path: Path, control_plane: Any) -> Terminal:
    """The administrator's shell."""
    return Terminal(tmp_path, control_plane.kubeconfig)


@pytest.fixture
def operator(control_plane: Any) -> Iterator[OperatorProcess]:
    """The operator that the Deployment's pods would run, with the administrator's rights."""
    env = {"KAIWO_OPERATOR_NAMESPACE": SYSTEM}
    process = OperatorProcess(kubeconfig=control_plane.kubeconfig, plugins=PLUGINS, env=env)
    yield process
    process.close()


@pytest.fixture
async def work(admin: Client, namespace: str) -> AsyncIterator[Any]:
    """A function that creates a job that runs for ever; it waits until the job runs."""

    async def create(name: str) -> None:
        metadata = {
            "name": name, "namespace": namespace, "annotations": {"kaiwo-sandbox/forever": "true"},
        }  # fmt: skip
        spec = {"image": "registry.example/train:1"}
        job = {"apiVersion": KAIWO_JOB.api_version, "kind": "KaiwoJob", "metadata": metadata, "spec": spec}
        await admin.create(KAIWO_JOB, job)
        await until(
            admin, KAIWO_JOB, namespace, name,
            lambda obj: ((obj or {}).get("status") or {}).get("status") == "RUNNING",
        )  # fmt: skip

    return create


async def test_the_commands_of_the_pages_upgrade_and_remove_an_installation(
    terminal: Terminal, operator: OperatorProcess, admin: Client, namespace: str, work: Any, tmp_path: Path
) -> None:
    """After the first page a job runs as before and all is saved; after the second, nothing is left."""
    await terminal.run("kaiwo manifests | kubectl apply --server-side -f -")
    operator.start()
    await asyncio.to_thread(operator.wait_ready)
    for kind in (KAIWO_CONFIG, QUEUE_CONFIG):
        await until(admin, kind, None, "kaiwo", lambda obj: obj is not None)
    await work("train")
    before = (await admin.get(KAIWO_JOB, namespace, "train"))["status"]

    assert await terminal.follow("upgrade.md") > 10
    assert (await admin.get(KAIWO_JOB, namespace, "train"))["status"] == before
    for name in ("configuration.json", "workloads.json", "crds.json"):
        assert (tmp_path / name).stat().st_size > 1000, name

    await asyncio.to_thread(operator.close)
    assert await terminal.follow("uninstall.md") == 5
    await until(admin, NAMESPACE, None, SYSTEM, lambda obj: obj is None)
    assert [obj async for obj in admin.list(CLUSTER_ROLE) if "kaiwo" in obj["metadata"]["name"]] == []
    crds = [obj["metadata"]["name"] async for obj in admin.list(CUSTOM_RESOURCE_DEFINITION)]
    assert [name for name in crds if "kaiwo" in name] == []
