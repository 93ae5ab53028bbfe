"""Set H: a program of the control plane ends or stands still, the clock jumps, or admission fails."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import signal
import ssl
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp import web

from campaign.case import StandaloneCase
from campaign.own import BARE, hold, own_control_plane
from campaign.scenarios import SCENARIOS
from campaign.simulated_nodes import trying_again
from campaign.violation import NotRunError, ViolationError
from kaiwo.admission.bundles import CONFIGURATIONS
from kaiwo.admission.certificates import issue
from kaiwo.api.crds import KAIWO_JOB
from kaiwo.testing.admission import answer_to
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from campaign.arena import Arena
    from campaign.scenarios import Scenario
    from kaiwo.testing.operator import OperatorProcess

    Act = Callable[["Plane"], Awaitable[None]]

_RUNS: Final = "kaiwo-sandbox/run-time"
_JOB: Final = dataclasses.replace(SCENARIOS["job-plain"], annotations={_RUNS: "8s"})
_SERVICE: Final = SCENARIOS["serve-plain"]
_HOOKED: Final = dataclasses.replace(_JOB, name="webhook")
"""Its Job is created while the webhook fails."""
_SHORT, _LONG = 5.0, 15.0
"""Seconds for which a program stands still: less than a Lease waits to be renewed, or more than it lasts."""
_LEADS_NO_MORE: Final = "this process does not lead any more"

_FAKETIME: Final = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
_HOUR: Final = 3600
_STAMP: Final = r"^\d{4}-\d\d-\d\dT[\d:.]+Z"
"""The time at which a line was logged."""
_OFF: Final = 60.0
"""Seconds by which the time of a line may be off beside that: the case waits for it so long."""
_SLOW: Final = 9.0
_WEBHOOKS: Final = CONFIGURATIONS[0]


@dataclasses.dataclass(slots=True)
class Plane:
    """What a fault works with.

    Attributes:
        arena: of the case.
        clock: the file by which the operator's clock is moved.
    """

    arena: Arena
    clock: Path

    @property
    def operator(self) -> OperatorProcess:
        """The operator, which must have been started."""
        if self.arena.operator is None:
            raise ViolationError("fault", "no operator runs")
        return self.arena.operator

    def move_clock(self, seconds: int) -> None:
        """Set the operator's clock so many seconds forward; the operator never reads half a line."""
        fresh = self.clock.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}")
        fresh.replace(self.clock)

    def signal(self, program: str, number: signal.Signals) -> None:
        """Send a signal to a program, which must run."""
        process = self.arena.cluster.sandbox.program(program)
        if not process.alive():
            raise ViolationError("fault", f"{program} does not run")
        process.signal(number)

    async def etcd(self, path: str, **body: Any) -> Any:
        """A request to etcd's JSON gateway."""
        url = self.arena.cluster.sandbox.etcd_url
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v3/{path}", json=body) as answer,
        ):
            answer.raise_for_status()
            return await answer.json()


def cases() -> Iterator[StandaloneCase]:
    """Each fault while a workload starts, and while one runs."""
    for name, fault in FAULTS.items():
        for moment, scenario in (("starting", _JOB), ("running", _SERVICE)):
            yield StandaloneCase("H", f"{name}-{moment}", partial(_run, fault, scenario, moment), plane=True)


async def _run(fault: Act, scenario: Scenario, moment: str, directory: Path) -> None:
    clock = directory / "clock"
    clock.write_text("+0")
    env = {
        "LD_PRELOAD": str(_FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    clocked = fault in (_clock_forward, _clock_back)
    if clocked and not _FAKETIME.exists():
        raise NotRunError("libfaketime is not installed (Debian: libfaketime)")
    async with own_control_plane(directory) as arena, _nodes(arena):
        await arena.start_operator(plugins=BARE, leader_election=True, env=env if clocked else {})
        await arena.submit(scenario)
        if moment == "running":
            await arena.reaches(scenario)
        await fault(Plane(arena, clock))
        await hold(arena, scenario)
        # What is created afterwards is seen and run as well.
        later = dataclasses.replace(_JOB, name="later")
        await arena.submit(later)
        await hold(arena, scenario, later)


def _nodes(arena: Arena) -> contextlib.AbstractAsyncContextManager[None]:
    return trying_again(arena.client, arena.cluster.sandbox.directory / "logs" / "kwok.log")


async def _restored(plane: Plane) -> None:
    """Etcd gets data from before: objects made since are gone, those deleted since are back."""
    arena, sandbox = plane.arena, plane.arena.cluster.sandbox
    kept, undone = (dataclasses.replace(_JOB, name=name) for name in ("kept", "undone"))
    await arena.submit(kept)
    await arena.reaches(kept)
    backup = plane.clock.parent / "backup"
    await asyncio.to_thread(sandbox.back_up, backup)
    await arena.submit(undone)
    await arena.reaches(undone)
    await arena.client.delete(KAIWO_JOB, arena.namespace, kept.name, propagation="Foreground")
    await until(arena.client, KAIWO_JOB, arena.namespace, kept.name, lambda obj: obj is None)
    await asyncio.to_thread(sandbox.restore, backup)
    await _answers(plane)
    found = {obj["metadata"]["name"] async for obj in arena.client.list(KAIWO_JOB, arena.namespace)}
    if kept.name not in found or undone.name in found:
        raise ViolationError("fault", f"the data are not those of the backup: {sorted(found)}")
    await arena.submit(undone)
    await arena.reaches(undone)
    await arena.reaches(kept)


async def _etcd_killed(plane: Plane) -> None:
    sandbox = plane.arena.cluster.sandbox
    await asyncio.to_thread(sandbox.program("etcd").kill)
    await asyncio.sleep(_SHORT)
    await asyncio.to_thread(sandbox.start_etcd)
    await _answers(plane)


async def _still(program: str, seconds: float, plane: Plane) -> None:
    plane.signal(program, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        plane.signal(program, signal.SIGCONT)
    await _answers(plane)


async def _still_beyond_lease(program: str, plane: Plane) -> None:
    """The operator cannot renew its Lease, and has to lead anew."""
    operator = plane.operator
    lines = len(operator.lines)
    await _still(program, _LONG, plane)
    try:
        await asyncio.to_thread(operator.wait_log, _LEADS_NO_MORE, 30, since=lines)
    except AssertionError:
        raise ViolationError("fault", "the operator led all the time") from None


async def _no_space(plane: Plane) -> None:
    """Etcd refuses every write, as when its quota is used up."""
    members = (await plane.etcd("cluster/member/list"))["members"]
    alarm = {"memberID": members[0]["ID"], "alarm": "NOSPACE"}
    await plane.etcd("maintenance/alarm", action="ACTIVATE", **alarm)
    try:
        await _refused(plane, "database space exceeded")
        await asyncio.sleep(_LONG)
    finally:
        await plane.etcd("maintenance/alarm", action="DEACTIVATE", **alarm)
    await _answers(plane)


async def _compacted(plane: Plane) -> None:
    """No version from before is known any more, and every watch has to begin anew."""
    revision = (await plane.etcd("kv/range", key="AA=="))["header"]["revision"]
    await plane.etcd("kv/compaction", revision=revision, physical=True)
    await asyncio.to_thread(plane.arena.cluster.sandbox.restart_api_server)
    await plane.arena.proxy.cut_watches(60.0)
    await _answers(plane)


async def _api_server_restarted(plane: Plane) -> None:
    await asyncio.to_thread(plane.arena.cluster.sandbox.restart_api_server)
    await _answers(plane)


async def _clock_forward(plane: Plane) -> None:
    await _moved(plane, _HOUR)


async def _clock_back(plane: Plane) -> None:
    await _moved(plane, -_HOUR)


async def _moved(plane: Plane, seconds: int) -> None:
    operator = plane.operator
    plane.move_clock(seconds)
    await asyncio.sleep(_SHORT)
    lines = len(operator.lines)
    await plane.arena.submit(dataclasses.replace(_JOB, name="clock"))
    try:
        stamp = (await asyncio.to_thread(operator.wait_log, _STAMP, 60, since=lines))[0]
    except AssertionError:
        raise ViolationError("fault", f"nothing was logged since: {operator.lines[-1]}") from None
    off = (datetime.fromisoformat(stamp) - datetime.now(UTC)).total_seconds()
    if abs(off - seconds) > _OFF:
        raise ViolationError("fault", f"the operator's clock is {off:+.0f} s off, not {seconds:+d} s")
    await plane.arena.reaches(dataclasses.replace(_JOB, name="clock"))
    plane.move_clock(0)


async def _webhook_down(plane: Plane) -> None:
    async with _webhook(plane, serving=False):
        await _submitted_in_vain(plane, "failed calling webhook")
    await plane.arena.reaches(_HOOKED)


async def _webhook_expired(plane: Plane) -> None:
    async with _webhook(plane, age=timedelta(days=200)):
        await _submitted_in_vain(plane, "expired")
    await plane.arena.reaches(_HOOKED)


async def _webhook_slow(plane: Plane) -> None:
    async with _webhook(plane, delay=_SLOW) as asked:
        await plane.arena.submit(_HOOKED)
        await plane.arena.reaches(_HOOKED)
        if not asked:
            raise ViolationError("fault", "the webhook was never asked")


async def _submitted_in_vain(plane: Plane, words: str) -> None:
    """The status of a workload whose Job cannot be made says why."""
    await plane.arena.submit(_HOOKED)
    status = await plane.arena.reaches(_HOOKED, "ERROR", "PENDING")
    for _ in range(60):
        if words in str(status.get("message")):
            return
        await asyncio.sleep(1)
        status = await plane.arena.reaches(_HOOKED, "ERROR", "PENDING")
    raise ViolationError("O10", f"the status does not say {words!r}: {status.get('message')}")


@contextlib.asynccontextmanager
async def _webhook(
    plane: Plane, *, serving: bool = True, age: timedelta = timedelta(), delay: float = 0.0
) -> AsyncIterator[list[str]]:
    """Somebody's webhook for Jobs in the case's namespace.

    Args:
        plane: where.
        serving: whether anything listens at its address.
        age: of its certificate.
        delay: seconds before it answers.

    Yields:
        The paths of the requests that it got.
    """
    asked: list[str] = []

    async def review(request: web.Request) -> web.Response:
        asked.append(request.path)
        body = await request.read()
        await asyncio.sleep(delay)
        return web.Response(body=answer_to(body, allowed=True), content_type="application/json")

    given = issue(["localhost"], datetime.now(UTC) - age)
    files = {"certificate": given.certificate, "key": given.key}
    for name, content in files.items():
        (plane.clock.parent / name).write_bytes(content)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(plane.clock.parent / "certificate", plane.clock.parent / "key")
    application = web.Application()
    application.router.add_post("/{path:.*}", review)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    if not serving:
        await runner.cleanup()
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": plane.arena.namespace}}
    hook = {
        "name": "jobs.campaign.example",
        "clientConfig": {
            "url": f"https://localhost:{port}/jobs",
            "caBundle": base64.b64encode(given.authorities).decode(),
        },
        "rules": [
            {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
        ],
        "namespaceSelector": namespace,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 10,
    }
    configuration = {
        "apiVersion": _WEBHOOKS.api_version,
        "kind": _WEBHOOKS.kind,
        "metadata": {"name": "campaign"},
        "webhooks": [hook],
    }
    await plane.arena.client.create(_WEBHOOKS, configuration)
    await asyncio.sleep(2)  # until the API server calls it
    try:
        yield asked
    finally:
        await plane.arena.client.delete(_WEBHOOKS, None, "campaign")
        if serving:
            await runner.cleanup()


async def _refused(plane: Plane, words: str) -> None:
    """Wait until the API server refuses writes with some words."""
    message = ""
    for _ in range(30):
        try:
            await plane.arena.cluster.namespace("refused")
        except Exception as error:  # noqa: BLE001  whatever it is, its words are looked at
            message = str(error)
            if words in message:
                return
        await asyncio.sleep(1)
    raise ViolationError("fault", f"writes are not refused with {words!r}: {message}")


async def _answers(plane: Plane) -> None:
    """Wait until the API server takes writes."""
    message = ""
    for _ in range(90):
        try:
            await plane.arena.cluster.namespace("answers")
        except Exception as error:  # noqa: BLE001  it is not back yet
            message = str(error)
            await asyncio.sleep(1)
        else:
            return
    raise ViolationError("fault", f"the API server never came back: {message}")


FAULTS: Final[dict[str, Act]] = {
    "etcd-killed": _etcd_killed,
    "etcd-restored": _restored,
    "etcd-still-shortly": partial(_still, "etcd", _SHORT),
    "etcd-still-for-long": partial(_still_beyond_lease, "etcd"),
    "etcd-without-space": _no_space,
    "etcd-compacted": _compacted,
    "api-server-restarted": _api_server_restarted,
    "api-server-still-shortly": partial(_still, "kube-apiserver", _SHORT),
    "api-server-still-for-long": partial(_still_beyond_lease, "kube-apiserver"),
    "controllers-still": partial(_still, "kube-controller-manager", _LONG),
    "scheduler-still": partial(_still, "kube-scheduler", _LONG),
    "clock-forward": _clock_forward,
    "clock-back": _clock_back,
    "webhook-down": _webhook_down,
    "webhook-expired": _webhook_expired,
    "webhook-slow": _webhook_slow,
}
"""By name: what happens, until it is over."""
