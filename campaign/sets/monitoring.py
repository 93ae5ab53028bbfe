"""Set K: a metrics endpoint says nothing, or something absurd. No workload may be ended for that.

Two workloads leave their GPUs idle, and are a few minutes from being ended for it. Then the fault comes, and
stays until long after that. Where it is about one of them only, the other one has to be ended meanwhile; and
both have to be once it is over. A case in which nothing could have been ended has failed.
"""

from __future__ import annotations

import contextlib
import gzip
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import web

from campaign.case import StandaloneCase
from campaign.metrics_feed import FORMS, METRIC, Feed, Sample
from campaign.violation import ViolationError
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.testing.exporter import TEXT, Exporter, drip, endless, hang
from kaiwo.testing.monitored import GPUS, INTERVAL, MonitoredCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

AFTER: Final = timedelta(hours=1)
"""How long GPUs may be idle."""

_BEFORE: Final = 110
_FAULTY: Final = 60
_HEALED: Final = 300
_DAY: Final = 2880
VICTIM: Final = "victim"
"""The workload that the faults are about."""

CONTROL: Final = "control"
"""Its neighbour."""

_TIMEOUT: Final = 0.2


def _of(workload: str, value: str = "0", **more: object) -> list[Sample]:
    return [replace(Sample(f"{workload}-0", gpu, value), **more) for gpu in range(GPUS)]  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong.

    Attributes:
        begin: called when it begins, and again before each scrape.
        reason: of the victim's condition at the end.
        partial: whether it is about the victim only.
        scrapes: how long it lasts.
        forms: of the endpoint that can have it.
    """

    begin: Callable[[Feed], None]
    reason: str
    partial: bool = True
    scrapes: int = _FAULTY
    forms: tuple[str, ...] = FORMS


def _values(*samples: Sample) -> Callable[[Feed], None]:
    """The victim's samples are these, the other's are as before."""

    def begin(feed: Feed) -> None:
        feed.samples = [*_of(CONTROL), *samples]

    return begin


def _answers(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Callable[[Feed], None]:
    return lambda feed: feed.replace(answer)


def _responds(
    body: bytes = b"", kind: str = TEXT, status: int = 200, **headers: str
) -> Callable[[Feed], None]:
    async def answer(_: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=body, status=status, headers={"Content-Type": kind, **named})

    return _answers(answer)


async def _cut(request: web.Request) -> web.StreamResponse:
    """Promise more than is sent: the busy sample ends in the middle of its number."""
    response = web.StreamResponse(headers={"Content-Type": TEXT, "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(f'{METRIC}{{gpu_id="0",gpu_uuid="u0",namespace="team",pod="victim-0"}} 0'.encode())
    assert request.transport is not None  # noqa: S101  it is being answered
    request.transport.close()
    return response


def _half_of_pods(feed: Feed) -> None:
    feed.cluster.pod("victim-1", VICTIM)
    feed.samples = [*_of(CONTROL), *_of(VICTIM)]


def _replaced(feed: Feed) -> None:
    feed.samples = [*_of(CONTROL), *_of(VICTIM)]
    feed.cluster.pod(f"{VICTIM}-0", VICTIM, uid=f"pod-{feed.cluster.seconds}", age=timedelta())


def _injected(feed: Feed) -> None:
    """Samples of a tenant whose labels are written so that they look like those of the victim."""
    feed.samples = _of(CONTROL)
    label = f'x\\"}} 0\\n{METRIC}{{gpu_id=\\"0\\",namespace=\\"team\\",pod=\\"victim-0\\"}} 0\\n'
    feed.more = f'{METRIC}{{gpu_id="0",gpu_uuid="{label}",namespace="tenant",pod="{label}"}} 0\n'


def _frozen(feed: Feed) -> None:
    feed.frozen = feed.frozen or feed.cluster.now().timestamp()


def _gone(feed: Feed) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None  # noqa: S101  it is being answered
        request.transport.abort()
        return web.Response()

    feed.replace(refuse)


_UNREACHABLE, _MISSING, _INVALID = "MetricsUnreachable", "MetricsMissing", "MetricsInvalid"
_TEXT_ONLY, _SERVER_ONLY = ("text",), ("server",)
_LARGE: Final = b"# no sample at all\n" * ((10 << 20) // 19)

FAULTS: Final[dict[str, Fault]] = {
    "nan": Fault(_values(*_of(VICTIM, "NaN")), _INVALID),
    "negative": Fault(_values(*_of(VICTIM, "-1")), _INVALID),
    "over-100": Fault(_values(*_of(VICTIM, "101")), _INVALID),
    "huge": Fault(_values(*_of(VICTIM, "1e308")), _INVALID),
    "infinite": Fault(_values(*_of(VICTIM, "-Inf")), _INVALID),
    "no-number": Fault(_values(*_of(VICTIM, "idle")), _INVALID, forms=_SERVER_ONLY),
    "one-absurd": Fault(_values(Sample("victim-0", 0), Sample("victim-0", 1, "NaN")), _INVALID),
    "stale": Fault(_values(*_of(VICTIM, age=600.0)), _MISSING, forms=_TEXT_ONLY),
    "future": Fault(_values(*_of(VICTIM, age=-3600.0)), _MISSING, forms=_TEXT_ONLY),
    "cached": Fault(_frozen, _UNREACHABLE, partial=False, forms=_SERVER_ONLY),
    "missing": Fault(_values(), _MISSING),
    "half-of-gpus": Fault(_values(Sample("victim-0", 0)), _MISSING),
    "half-of-pods": Fault(_half_of_pods, _MISSING),
    "other-namespace": Fault(_values(*_of(VICTIM, namespace="other")), _MISSING),
    "no-namespace": Fault(_values(*_of(VICTIM, namespace="")), _MISSING),
    "replaced-pod": Fault(_replaced, "PodsNew"),
    "injection": Fault(_injected, _MISSING, forms=_TEXT_ONLY),
    "empty": Fault(_responds(), _MISSING, partial=False, forms=_TEXT_ONLY),
    "large": Fault(_responds(_LARGE), _MISSING, partial=False, scrapes=20, forms=_TEXT_ONLY),
    "endless": Fault(_answers(endless), _UNREACHABLE, partial=False, scrapes=20, forms=_TEXT_ONLY),
    "slow": Fault(_answers(drip), _UNREACHABLE, partial=False, forms=_TEXT_ONLY),
    "hanging": Fault(_answers(hang), _UNREACHABLE, partial=False),
    "error-500": Fault(_responds(status=500), _UNREACHABLE, partial=False),
    "redirect": Fault(_responds(status=302, Location="http://169.254.169.254/"), _UNREACHABLE, partial=False),
    "wrong-type": Fault(_responds(b"<html>", "text/html"), _UNREACHABLE, partial=False),
    "packed": Fault(
        _responds(gzip.compress(b""), Content_Encoding="gzip"), _UNREACHABLE, partial=False, forms=_TEXT_ONLY
    ),
    "cut": Fault(_answers(_cut), _UNREACHABLE, partial=False, forms=_TEXT_ONLY),
    "no-vector": Fault(
        _responds(b'{"status":"success","data":{"resultType":"scalar","result":[]}}', "application/json"),
        _UNREACHABLE, partial=False, forms=_SERVER_ONLY,
    ),
    "query-error": Fault(
        _responds(b'{"status":"error","error":"out of memory"}', "application/json"),
        _UNREACHABLE, partial=False, forms=_SERVER_ONLY,
    ),
    "gone-for-a-day": Fault(_gone, _UNREACHABLE, partial=False, scrapes=_DAY),
}  # fmt: skip
"""By name: what goes wrong."""

STEPS: Final = {"clock-forward": 3600.0, "clock-back": -3600.0}
"""By name: by how many seconds the clock is set."""


def cases() -> Iterator[StandaloneCase]:
    """A case for each fault and each form of the endpoint that can have it, and for steps of the clock."""
    for name, fault in FAULTS.items():
        for form in fault.forms:
            yield StandaloneCase("K", f"{name}-{form}", partial(_run, fault, form))
    for name, seconds in STEPS.items():
        yield StandaloneCase("K", name, partial(_step, seconds))


def _config() -> ResolvedConfig:
    defaults = ResolvedConfig.defaults()
    return replace(defaults, terminate_underutilized=True, terminate_underutilized_after=AFTER)


@contextlib.asynccontextmanager
async def _idle(form: str) -> AsyncIterator[Feed]:
    """Two workloads whose GPUs are idle."""
    async with Exporter() as exporter:
        feed = await _idle_for_a_while(exporter, form)
        try:
            yield feed
        finally:
            await feed.cluster.endpoint.close()


async def _idle_for_a_while(exporter: Exporter, form: str) -> Feed:
    url = exporter.url if form == "text" else exporter.url.removesuffix("/metrics")
    cluster = MonitoredCluster(url, _config())
    for name in (VICTIM, CONTROL):
        cluster.workload(name)
        cluster.pod(f"{name}-0", name)
    feed = Feed(exporter, form, cluster, [*_of(VICTIM), *_of(CONTROL)])
    feed.attach()
    await cluster.scrape(_BEFORE)
    if cluster.ended or cluster.condition(VICTIM).get("status") != "True":
        raise ViolationError("fault", f"not idle before: {cluster.condition(VICTIM)}, ended {cluster.ended}")
    return feed


async def _run(fault: Fault, form: str, directory: Path) -> None:
    del directory
    async with _idle(form) as feed:
        cluster, asked = feed.cluster, feed.exporter.requests
        before, patient = len(asked), cluster.endpoint.timeout
        if fault.reason == _UNREACHABLE:
            cluster.endpoint.timeout = _TIMEOUT
        for _ in range(fault.scrapes):
            fault.begin(feed)
            await cluster.scrape()
        cluster.endpoint.timeout = patient
        if len(asked) - before < fault.scrapes / 2:  # the machine may be too busy for a few of them
            raise ViolationError("fault", "the endpoint was not asked while it was faulty")
        _unharmed(cluster, fault)
        await _heals(feed)


def _unharmed(cluster: MonitoredCluster, fault: Fault) -> None:
    if VICTIM in cluster.ended:
        raise ViolationError("O9", f"ended after {cluster.ended[VICTIM]:g} s on data that say nothing")
    if fault.partial != (CONTROL in cluster.ended):
        words = "was not ended, so nothing was tested" if fault.partial else "was ended without data"
        raise ViolationError("fault" if fault.partial else "O9", f"the other workload {words}")
    said = cluster.condition(VICTIM)
    if (said.get("status"), said.get("reason")) != ("Unknown", fault.reason):
        raise ViolationError("O5", f"the status says {said}, expected Unknown for {fault.reason}")


async def _heals(feed: Feed) -> None:
    """Once the data are right again, what is truly idle is ended; and not before its time is over again."""
    cluster = feed.cluster
    cluster.pod(f"{VICTIM}-0", VICTIM)
    feed.samples = [
        *_of(VICTIM),
        *_of(VICTIM + "-1"),
        *_of(CONTROL),
        Sample("victim-1", 0),
        Sample("victim-1", 1),
    ]
    feed.more, feed.frozen = "", None
    feed.attach()
    healed = cluster.seconds
    await cluster.scrape(_HEALED)
    if VICTIM not in cluster.ended:
        raise ViolationError("fault", f"never ended, so nothing was tested: {cluster.condition(VICTIM)}")
    if cluster.ended[VICTIM] - healed < AFTER.total_seconds():
        raise ViolationError("O9", "time before the fault was counted after it")


async def _step(seconds: float, directory: Path) -> None:
    """The clock is set while GPUs are idle."""
    del directory
    async with _idle("text") as feed:
        cluster = feed.cluster
        cluster.step = seconds
        began = 2 * INTERVAL  # the third reading decides that they are idle
        await cluster.scrape(_HEALED)
        if VICTIM not in cluster.ended:
            raise ViolationError("fault", "never ended, so nothing was tested")
        if cluster.ended[VICTIM] - began < AFTER.total_seconds():
            raise ViolationError("O9", f"ended after {cluster.ended[VICTIM]:g} s, before its time was over")
