"""Settings in KaiwoConfig reach the code of a plugin, again after each edit, in operator and command line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.engine.resource import JOB, POD
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

EXAMPLE = next(
    path.parent
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*/*/plugin.py"))
    if "def kaiwo_lifecycle()" in path.read_text()
).parent
"""The example with code of every kind that has settings."""

PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
((PLUGIN, MODULE),) = PROJECT["entry-points"]["kaiwo.plugins"].items()


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Variables for processes in which the example plugin is installed."""
    info = tmp_path / f"{MODULE.partition('.')[0]}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[kaiwo.plugins]\n{PLUGIN} = {MODULE}\n")
    path = [str(tmp_path), str(EXAMPLE), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def proxies(pods: Object) -> list[str]:
    """Values of the variable that the plugin adds, in an object with a pod template."""
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    return [item["value"] for item in container.get("env", []) if item["name"] == "HTTPS_PROXY"]


async def test_the_code_of_a_plugin_follows_an_edit_of_its_settings(
    operator: Start,
    lab: Any,
    control_plane: Any,
    condition: Callable[[Object, str], Object],
    installed: dict[str, str],
    tmp_path: Path,
) -> None:
    """Contribution, listener, rule and lifecycle; a running Job is left alone, a mistake has no effect."""

    async def configure(**section: Any) -> None:
        wanted = {
            "apiVersion": KAIWO_CONFIG.api_version,
            "kind": KAIWO_CONFIG.kind,
            "metadata": {"name": "kaiwo"},
            "spec": {"plugins": {PLUGIN: section} if section else {}},
        }
        await lab.client.apply(KAIWO_CONFIG, wanted, field_manager="settings-test")

    async def has_proxies(name: str) -> list[str]:
        return proxies(await lab.client.get(JOB, lab.namespace, name))

    async def kaiwo(*arguments: str) -> str:
        """What a command prints, where the plugin is installed too."""
        variables = {"KUBECONFIG": str(control_plane.kubeconfig), "KAIWO_PLUGINS": f"batch_job,{PLUGIN}"}
        done = await asyncio.to_thread(
            subprocess.run,
            [Path(sys.executable).with_name("kaiwo"), "-n", lab.namespace, *arguments],
            env={**os.environ, **installed, **variables}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    await configure(httpsProxy="http://one", announce=["RUNNING"])
    try:
        process = await operator(env=installed)
        await asyncio.to_thread(process.wait_log, "announcing RUNNING")
        await lab.submit("one", pods={"kaiwo-sandbox/forever": "true"})
        await lab.reaches("one", "RUNNING")
        await asyncio.to_thread(process.wait_log, f"KaiwoJob {lab.namespace}/one is RUNNING")
        assert await has_proxies("one") == ["http://one"]
        (pod,) = [pod async for pod in lab.client.list(POD, lab.namespace)]
        statuses = [{**status, "restartCount": 2} for status in pod["status"]["containerStatuses"]]
        name, body = pod["metadata"]["name"], {"status": {"containerStatuses": statuses}}
        await lab.client.merge_patch(POD, lab.namespace, name, body, subresource="status")

        await configure(httpsProxy="http://two", announce=["COMPLETE"], restartLimit=2)
        await lab.reaches("one", "RUNNING", reason="RestartsTooOften")
        await asyncio.to_thread(process.wait_log, "announcing COMPLETE from now on")
        await lab.submit("two")
        await lab.reaches("two", "COMPLETE")
        await asyncio.to_thread(process.wait_log, f"KaiwoJob {lab.namespace}/two is COMPLETE")
        assert f"{lab.namespace}/two is RUNNING" not in process.log
        assert (await has_proxies("one"), await has_proxies("two")) == (["http://one"], ["http://two"])

        file = tmp_path / "job.yaml"
        file.write_text(yaml.safe_dump(lab.job("planned")))
        assert proxies(yaml.safe_load(await kaiwo("plan", "-f", str(file), "-o", "yaml"))) == ["http://two"]
        assert json.loads(await kaiwo("why", "one", "-o", "json"))["code"] == "RestartsTooOften"

        await configure(httpsProxy="http://three", restartLimit=0)

        def is_invalid(obj: Object | None) -> bool:
            return condition((obj or {}).get("status", {}), "Ready").get("status") == "False"

        found = await until(lab.client, KAIWO_CONFIG, None, "kaiwo", is_invalid)
        assert found is not None
        message = condition(found["status"], "Ready")["message"]
        assert message.startswith(f"spec.plugins.{PLUGIN}.restartLimit: ")
        assert message.endswith("The last valid values stay in force")
        await lab.submit("three")
        await lab.reaches("three", "COMPLETE")
        assert await has_proxies("three") == ["http://two"]
    finally:
        await configure()
