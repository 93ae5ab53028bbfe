"""``kaiwo run`` against a real API server and a real operator."""

from __future__ import annotations

import asyncio
import functools
import io
import os
import resource
import subprocess
import sys
import tarfile
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from kaiwo.cli import failures
from kaiwo.cli.main import kaiwo
from kaiwo.client import AsyncClient, run_request
from kaiwo.client import run as runs
from kaiwo.client.errors import ClientError, InvalidManifest, WorkloadExists, WorkloadFailed
from kaiwo.client.kinds import KAIWO_JOB
from kaiwo.client.run_outcome import follow
from kaiwo.engine.errors import Forbidden, NotFound, ServerUnavailable
from kaiwo.engine.resource import CONFIG_MAP, JOB, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Operator = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster


class Result(NamedTuple):
    """How a call ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a program."""
    work = tmp_path / "code"
    work.mkdir()
    (work / "train.py").write_text("print(1)", encoding="utf-8")
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def run(
    control_plane: Any,
    crds: None,
    namespace: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Awaitable[Result]]:
    """Runs ``kaiwo run`` in the folder, beside the test's event loop."""
    del crds, folder
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    monkeypatch.delenv("KAIWOCONFIG", raising=False)

    async def call(*args: str, annotations: dict[str, str] | None = None) -> Result:
        if annotations:
            build = functools.partial(run_request.RunRequest, annotations=annotations)
            monkeypatch.setattr(run_request, "RunRequest", build)
        capsys.readouterr()
        code = await asyncio.to_thread(failures.run, kaiwo, ["-n", namespace, "run", *args], "kaiwo")
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
async def session(
    control_plane: Any, crds: None, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AsyncClient]:
    """The Python client."""
    del crds
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    monkeypatch.delenv("KAIWOCONFIG", raising=False)
    async with AsyncClient(kubeconfig=control_plane.kubeconfig, namespace=namespace) as opened:
        yield opened


async def ignore(_: object) -> None:
    """Nobody reads the logs."""


async def config_maps(client: Client, namespace: str) -> list[Object]:
    """The ConfigMaps with folders."""
    found = [obj async for obj in client.list(CONFIG_MAP, namespace)]
    return [obj for obj in found if "-folder-" in obj["metadata"]["name"]]


async def test_a_command_runs_in_a_copy_of_the_folder(
    run: Any, operator: Operator, client: Client, namespace: str, folder: Path
) -> None:
    """Status on standard error, logs on standard output, the exit code of the command."""
    await operator()
    (folder / ".env").write_text("TOKEN=x", encoding="utf-8")

    result = await run(
        "--gpus", "1", "--image", "registry.example/train:1", "--", "python", "train.py", "a b"
    )

    assert result.code == 0, result.err
    assert "simulated" in result.out
    assert "COMPLETE" in result.err
    assert "warning: .env is left out: its name is that of a secret" in result.err
    (job,) = [obj async for obj in client.list(JOB, namespace)]
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["/bin/sh", "-c", "exec python train.py 'a b'"]
    assert pod["containers"][0]["resources"]["limits"]["amd.com/gpu"] == "1"
    assert pod["containers"][0]["resources"]["limits"]["memory"] == "32Gi"
    assert pod["initContainers"][0]["image"] == "registry.example/train:1"
    (shipped,) = await config_maps(client, namespace)
    workload = await client.get(KAIWO_JOB, namespace, job["metadata"]["name"])
    assert [owner["uid"] for owner in shipped["metadata"]["ownerReferences"]] == [workload["metadata"]["uid"]]
    assert "labels" not in shipped["metadata"]
    assert {
        "name": "folder-archive",
        "configMap": {"name": shipped["metadata"]["name"], "defaultMode": 420},
    } in pod["volumes"]
    with tarfile.open(fileobj=io.BytesIO(b64decode(shipped["binaryData"]["files.tar.gz"]))) as tar:
        assert tar.getnames() == ["train.py"]


async def test_the_exit_code_is_the_commands(run: Any, operator: Operator) -> None:
    """So that a script, or CI, can go on by it."""
    await operator()
    result = await run("--image", "x", "--rm", "false", annotations={"kaiwo-sandbox/exit-code": "3"})
    assert result.code == 3
    assert "failed with exit code 3" in result.err
    assert "deleted" in result.err


async def test_a_detached_run_returns_at_once(run: Any, client: Client, namespace: str) -> None:
    """Its record is the data; the hint says how to come back."""
    result = await run("-d", "-o", "json", "--name", "train", "--image", "x", "python", "train.py")
    assert result.code == 0
    record = yaml.safe_load(result.out)
    assert (record["workload"]["name"], record["shippedFiles"]) == ("train", 1)
    assert "managedFields" not in result.out
    assert "kaiwo logs -f job/train" in result.err
    again = await run("-d", "--name", "train", "--image", "x", "python", "train.py")
    assert again.code == 1
    assert "error: job/train exists already" in again.err
    assert len(await config_maps(client, namespace)) == 1


async def test_an_interrupt_detaches(control_plane: Any, crds: None, namespace: str, folder: Path) -> None:
    """Ctrl-C once: the workload goes on, and the way back is printed."""
    del crds
    import signal

    program = Path(sys.executable).with_name("kaiwo")
    env = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "XDG_CONFIG_HOME": "/nonexistent"}
    process = await asyncio.create_subprocess_exec(
        program, "-n", namespace, "run", "--name", "train", "--image", "x", "--", "sleep", "1000",
        cwd=folder, env=env, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    said = b""
    while b"waiting for logs" not in said:
        line = await asyncio.wait_for(process.stderr.readline(), 30)
        assert line, said.decode()
        said += line
    process.send_signal(signal.SIGINT)
    _, rest = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 130
    assert "detached; job/train goes on" in rest.decode()
    assert f"hint: kaiwo logs -f job/train -n {namespace}" in rest.decode()
    assert "Traceback" not in rest.decode()


async def test_the_manifest_is_saved_and_can_be_applied(
    run: Any, control_plane: Any, client: Client, namespace: str, tmp_path: Path
) -> None:
    """The file is the same run once more: ConfigMap and workload."""
    saved = tmp_path / "run.yaml"
    result = await run(
        "--save", str(saved), "--dry-run", "--name", "train", "--image", "x", "python", "train.py"
    )
    assert result.code == 0
    assert "not sent (dry run)" in result.err
    assert "train.py" in result.err
    config_map, workload = yaml.safe_load_all(saved.read_text(encoding="utf-8"))
    assert yaml.safe_load(result.out) == workload
    assert [obj async for obj in client.list(KAIWO_JOB, namespace)] == []
    await client.create(CONFIG_MAP, config_map)
    live = await client.create(KAIWO_JOB, workload)
    assert live["spec"]["entrypoint"] == "exec python train.py"
    del control_plane


async def test_a_service_and_a_ray_job_are_accepted(session: AsyncClient, folder: Path) -> None:
    """The API server takes the embedded templates of all three kinds."""
    service = await session.run("python", "serve.py", folder=folder, image="x", service=True, port=80, gpus=2)
    ray = await session.run("python", "tune.py", folder=folder, image="x", ray=True, replicas=2, gpus=4)
    assert (service.workload.kind, ray.workload.kind) == ("KaiwoService", "KaiwoJob")
    assert (service.shipped_files, ray.shipped_files) == (1, 1)


async def test_a_rejected_workload_leaves_nothing(session: AsyncClient, client: Client, folder: Path) -> None:
    """Neither a name that is taken nor a namespace that is not there."""
    await session.run("a", name="taken", image="x")
    with pytest.raises(WorkloadExists):
        await session.run("a", name="taken", image="x", folder=folder)
    with pytest.raises(NotFound):
        await session.run("a", image="x", folder=folder, namespace="there-is-none")
    assert await config_maps(client, session.namespace) == []


class Breaking:
    """A client whose creations of a kind fail, before or after the API server has carried them out."""

    def __init__(self, client: Client, kind: Any, *, after: bool, error: Exception) -> None:
        self._client = client
        self._kind = kind
        self._after = after
        self._error = error

    def __getattr__(self, name: str) -> Any:
        """Everything else is the client's."""
        return getattr(self._client, name)

    async def create(self, kind: Any, obj: Object, **how: Any) -> Object:
        """Create, or fail."""
        if kind != self._kind or how.get("dry_run"):
            return await self._client.create(kind, obj, **how)
        if self._after:
            await self._client.create(kind, obj, **how)
        raise self._error


def prepared(session: AsyncClient, folder: Path, name: str) -> runs.PreparedRun:
    """A run with a folder."""
    request = run_request.RunRequest(command=["x"], name=name, image="x")
    return runs.prepare(
        request,
        config=session._config,
        namespace=session.namespace,
        archive=runs.pack_folder(request, folder),
    )


async def test_an_answer_that_never_came_does_not_run_twice(
    session: AsyncClient, client: Client, folder: Path
) -> None:
    """The workload that is there has our token, so it is ours."""
    broken = Breaking(client, KAIWO_JOB, after=True, error=ServerUnavailable(503))
    live = await runs.start(broken, prepared(session, folder, "train"), print)  # type: ignore[arg-type]
    (shipped,) = await config_maps(client, session.namespace)
    assert shipped["metadata"]["ownerReferences"][0]["uid"] == live["metadata"]["uid"]


async def test_what_an_interrupted_run_left_is_finished_by_the_next(
    session: AsyncClient, client: Client, folder: Path
) -> None:
    """A crash before the workload leaves a ConfigMap to delete, one after it a ConfigMap to adopt."""
    early = Breaking(client, KAIWO_JOB, after=False, error=asyncio.CancelledError())  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        await runs.start(early, prepared(session, folder, "never"), print)  # type: ignore[arg-type]
    late = Breaking(client, KAIWO_JOB, after=True, error=asyncio.CancelledError())  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        await runs.start(late, prepared(session, folder, "there"), print)  # type: ignore[arg-type]
    assert len(await config_maps(client, session.namespace)) == 2

    await runs.clean_up(client, session.namespace)
    assert len(await config_maps(client, session.namespace)) == 2, "a run that is under way keeps its own"

    await runs.clean_up(client, session.namespace, datetime.now(UTC) + timedelta(hours=1))
    (kept,) = await config_maps(client, session.namespace)
    there = await client.get(KAIWO_JOB, session.namespace, "there")
    assert kept["metadata"]["ownerReferences"][0]["uid"] == there["metadata"]["uid"]
    assert "labels" not in kept["metadata"]


async def test_a_run_that_cannot_start_says_why_until_somebody_deletes_it(
    session: AsyncClient, operator: Operator
) -> None:
    """An image that does not exist: the reason is shown while the run is followed."""
    await operator()
    record = await session.run(
        "x", image="nowhere/x:1", annotations={"kaiwo-sandbox/image-pull-error": "not found"}
    )
    reasons: list[str] = []

    async def delete_when_reported() -> None:
        while "ImagePullBackOff" not in reasons:
            await asyncio.sleep(0.1)
        await session.delete(record.workload.name, wait=False)

    async with asyncio.timeout(90), asyncio.TaskGroup() as group:
        group.create_task(delete_when_reported())
        with pytest.raises(WorkloadFailed, match="was deleted"):
            await follow(
                session.api,
                record.workload.object,
                on_change=lambda obj: reasons.append(obj["status"]["reason"]),
                on_lines=ignore,
                notify=lambda _: None,
            )


async def test_pods_are_admitted_where_restricted_is_enforced(
    session: AsyncClient, client: Client, operator: Operator, folder: Path
) -> None:
    """By the API server's own admission of pods, init container included."""
    await operator()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await client.merge_patch(NAMESPACE, None, session.namespace, {"metadata": {"labels": labels}})
    record = await session.run("x", folder=folder, image="x", gpus=1)
    (done,) = await session.wait(record.workload.name, timeout=60)
    assert done.status == "COMPLETE"


async def test_without_the_right_to_create_config_maps_the_ways_out_are_named(
    session: AsyncClient, client: Client, folder: Path
) -> None:
    """And no workload is left that waits for its files."""
    broken = Breaking(client, CONFIG_MAP, after=False, error=Forbidden(403, "Forbidden", "no"))
    with pytest.raises(ClientError, match="you may not create ConfigMaps") as failed:
        await runs.start(broken, prepared(session, folder, "train"), print)  # type: ignore[arg-type]
    assert "--git" in failed.value.next_step
    assert await session.list() == ()


async def test_an_invalid_workload_is_explained_by_the_local_rules(
    session: AsyncClient, client: Client, folder: Path
) -> None:
    """The API server's text names a pattern, ours says what to write."""
    with pytest.raises(InvalidManifest, match=r"metadata\.name.*for example"):
        await session.run("x", name="Not_Legal", image="x", folder=folder)
    assert await config_maps(client, session.namespace) == []


def test_500_files_are_on_their_way_within_a_second_of_cpu(
    control_plane: Any, crds: None, namespace: str, tmp_path: Path
) -> None:
    """From the start of the process to the created workload, git's processes included."""
    del crds
    code = tmp_path / "code"
    for number in range(500):
        path = code / f"pkg{number % 20}" / f"m{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 40, encoding="utf-8")
    for args in (("init", "-q"), ("add", ".")):
        subprocess.run(["git", "-C", str(code), *args], check=True)  # noqa: S607
    env = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "XDG_CONFIG_HOME": "/nonexistent"}
    program = Path(sys.executable).with_name("kaiwo")
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [program, "-n", namespace, "run", "-d", "--image", "x", "--", "python", "m.py"],
            cwd=code, env=env, check=True, capture_output=True,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) <= 1.0, seconds
