"""Plugins that raise, hang and lie harm the workload at hand and nobody else."""

from __future__ import annotations

import asyncio
import os
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

BAD_PLUGIN = '''
    """A backend and a vendor that do what the workload's annotation says: raise, hang, lie."""

    import time

    from kaiwo.api.plugin_fields import Field
    from kaiwo.engine.resource import JOB
    from kaiwo.plugin import hookimpl
    from kaiwo.plugin.backend_base import BackendBase
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.observation import Outcome
    from kaiwo.plugin.rendering import Rendered
    from kaiwo.plugin.facts import Allocation
    from kaiwo.plugin.lifecycle import TransitionListener
    from kaiwo.plugin.vendors import GpuVendor

    KAIWO_API = 1

    def mood(workload):
        return workload.annotations.get("bad")

    def misbehave(workload, step):
        match mood(workload):
            case "raise":
                raise RuntimeError("boom in " + step)
            case "hang":
                while True:
                    pass
            case "sleep":
                time.sleep(3600)
            case "lie":
                return {"not": "a declaration"}

    class BadBackend(BackendBase):
        def serves(self, workload):
            return mood(workload) is not None

        def allocate(self, inp):
            return misbehave(inp.workload, "allocate") or Allocation()

        def render(self, inp):
            metadata = {"name": "stolen", "namespace": "kube-system"}
            return Rendered(child={"apiVersion": "v1", "kind": "Secret", "metadata": metadata})

        def observe(self, observation):
            return Outcome(status="SPLENDID", reason="", message="")

    def recognise(node):
        raise ValueError("cannot read this node")

    async def notify(transition):
        raise RuntimeError("nobody listens")

    @hookimpl
    def kaiwo_backends():
        field = Field("KaiwoJob", ("bad",), dict, "Nothing good.")
        return [Backend(
            name="bad", kind="KaiwoJob", child=JOB, fields=(field,), implementation=BadBackend,
        )]

    @hookimpl
    def kaiwo_gpu_vendors():
        return [GpuVendor(name="bad", resource_keys=("bad.example/gpu",), recognise=recognise)]

    @hookimpl
    def kaiwo_transitions():
        return [TransitionListener(name="bad", notify="a_bad_plugin:notify")]
'''


@pytest.fixture
def bad_plugin(tmp_path: Path) -> dict[str, str]:
    """An installed distribution with the bad plugin; the environment in which it is found.

    Its name sorts before the good ones, so that it is asked first.
    """
    (tmp_path / "a_bad_plugin.py").write_text(textwrap.dedent(BAD_PLUGIN))
    info = tmp_path / "a_bad_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a-bad-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kaiwo.plugins]\na_bad = a_bad_plugin\n")
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("raise", "RuntimeError: boom in allocate"),
        ("hang", "did not return within"),
        ("sleep", "did not return within"),
        ("lie", "it answered {'not': 'a declaration'}"),
        ("steal", "it returned"),
    ],
)
async def test_a_plugin_that_fails_harms_only_its_own_workload(
    operator: Start, lab: Any, condition: Any, bad_plugin: dict[str, str], *, mood: str, words: str
) -> None:
    """PluginError names the plugin and what it did; a good plugin's workload completes beside it."""
    process = await operator(env=bad_plugin)
    for number in range(3):
        await lab.submit(f"bad-{number}", metadata={"annotations": {"bad": mood}})
    await lab.submit("good", gpus=1)

    await lab.reaches("good", "COMPLETE")
    for number in range(3):
        status = await lab.reaches(f"bad-{number}", "ERROR", reason="PluginError")
        assert "bad" in status["message"]
        assert words in status["message"]
    assert condition(status, "Schedulable")["status"] == "False"
    assert [job["metadata"]["name"] for job in await lab.jobs()] == ["good"]
    assert (await asyncio.to_thread(process.readyz_when_up))[0] == 200
    await asyncio.to_thread(process.wait_log, "cannot read this node", 10)
    await asyncio.to_thread(process.wait_log, "nobody listens", 10)


async def test_a_plugin_that_does_not_load_is_listed_and_the_rest_works(
    operator: Start, lab: Any, tmp_path: Path, bad_plugin: dict[str, str]
) -> None:
    """The last line of its traceback is in /readyz and in the status of the KaiwoConfig."""
    (tmp_path / "a_bad_plugin.py").write_text("raise ImportError('no libbad.so')\n")
    process = await operator(env=bad_plugin)
    code, detail = await asyncio.to_thread(process.readyz_when_up)
    broken = next(item for item in detail["plugins"] if item["name"] == "a_bad")
    assert (code, broken["state"]) == (200, "broken")
    assert "no libbad.so" in broken["message"]

    def listed(obj: Any) -> bool:
        plugins = (obj or {}).get("status", {}).get("plugins", [])
        return any(p["name"] == "a_bad" and "no libbad.so" in p["message"] for p in plugins)

    await until(lab.client, KAIWO_CONFIG, None, "kaiwo", listed)
    await lab.submit("good", gpus=1)
    await lab.reaches("good", "COMPLETE")


async def test_a_plugin_that_is_not_allowed_is_listed_and_not_imported(
    operator: Start, lab: Any, tmp_path: Path, bad_plugin: dict[str, str]
) -> None:
    """What differs from the list is in /readyz, in the log and in the status of the KaiwoConfig."""
    imported = tmp_path / "imported"
    (tmp_path / "a_bad_plugin.py").write_text(f"open({str(imported)!r}, 'w')\n")
    allowed = "a_bad@a-bad-plugin>=2, batch_job@kaiwo-batch-job, gpu_amd@kaiwo-gpu-amd"
    process = await operator(env={**bad_plugin, "KAIWO_PLUGINS_ALLOWED": allowed})
    why = "KAIWO_PLUGINS_ALLOWED has a_bad@a-bad-plugin>=2, and version 1.0 is installed"
    code, detail = await asyncio.to_thread(process.readyz_when_up)
    refused = next(item for item in detail["plugins"] if item["name"] == "a_bad")
    assert code == 200
    assert refused == {
        "name": "a_bad",
        "distribution": "a-bad-plugin",
        "state": "not-allowed",
        "reason": "NotAllowed",
        "message": why,
    }

    def listed(obj: Any) -> bool:
        plugins = (obj or {}).get("status", {}).get("plugins", [])
        return any(
            (p["name"], p["distribution"], p["state"], p["message"])
            == ("a_bad", "a-bad-plugin", "not-allowed", why)
            for p in plugins
        )

    await until(lab.client, KAIWO_CONFIG, None, "kaiwo", listed)
    await asyncio.to_thread(process.wait_log, "plugin a_bad of a-bad-plugin is not imported")
    await lab.submit("good", gpus=1)
    await lab.reaches("good", "COMPLETE")
    assert not imported.exists()


async def test_a_required_plugin_that_does_not_load_stops_the_start(
    operator: Start, tmp_path: Path, bad_plugin: dict[str, str]
) -> None:
    """Exit code 1 and one line that names it."""
    (tmp_path / "a_bad_plugin.py").write_text("raise ImportError('no libbad.so')\n")
    process = await operator(env={**bad_plugin, "KAIWO_PLUGINS_REQUIRED": "a_bad"}, ready=False)
    assert await asyncio.to_thread(process.wait) == 1
    assert "a_bad" in process.log
    assert "no libbad.so" in process.log
    assert "Traceback" not in process.log


async def test_a_field_of_a_plugin_that_is_not_selected_is_named_and_heals(operator: Start, lab: Any) -> None:
    """BackendNotLoaded says which distribution has it; with the plugin selected the same object runs."""
    process = await operator(plugins="gpu_amd,gpu_nvidia")
    await lab.submit("later", job={"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}})
    status = await lab.reaches("later", "ERROR", reason="BackendNotLoaded")
    assert "kaiwo-batch-job" in status["message"]
    assert "job" in status["message"]
    await asyncio.to_thread(process.close)

    await operator(plugins="batch_job,gpu_amd,gpu_nvidia")
    await lab.reaches("later", "COMPLETE")


async def test_a_running_workload_survives_the_loss_of_its_plugin(
    operator: Start, lab: Any, condition: Any
) -> None:
    """Its status stays, SpecApplied says BackendNotLoaded, the Job is left alone, and it heals."""
    process = await operator(plugins="batch_job,gpu_amd,gpu_nvidia")
    await lab.submit("keeps", pods={"kaiwo-sandbox/forever": "true"})
    await lab.reaches("keeps", "RUNNING")
    (child,) = await lab.jobs()
    await asyncio.to_thread(process.close)

    def applied(reason: str) -> Callable[[Any], bool]:
        return lambda obj: condition((obj or {}).get("status", {}), "SpecApplied").get("reason") == reason

    process = await operator(plugins="ray_job,gpu_amd,gpu_nvidia")
    found = await until(lab.client, KAIWO_JOB, lab.namespace, "keeps", applied("BackendNotLoaded"))
    assert found["status"]["status"] == "RUNNING"
    assert found["status"]["childUID"] == child["metadata"]["uid"]
    assert [job["metadata"]["uid"] for job in await lab.jobs()] == [child["metadata"]["uid"]]
    await asyncio.to_thread(process.close)

    await operator(plugins="batch_job,gpu_amd,gpu_nvidia")
    found = await until(lab.client, KAIWO_JOB, lab.namespace, "keeps", applied("Applied"))
    assert found["status"]["status"] == "RUNNING"
