"""A service whose container crashes again and again has one stable status, and recovers when it does."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import kaiwo_deployment.plugin
from kaiwo.engine.timestamps import format_time
from kaiwo.testing import plugins, service
from kaiwo.testing.builders import NOW
from kaiwo.workload.model import Registry
from kaiwo.workload.observe.crash_loop import restarts

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object

REVISION = "web-1"
READY = {"observedGeneration": 1, "updatedReplicas": 1, "replicas": 1, "availableReplicas": 1}
BROKEN = {**READY, "availableReplicas": 0}


class Service:
    """A service with one pod, the moment, and what was written."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = NOW
        self.restarts = 0
        self.last: Object = {}
        self.written: list[tuple[str, str, str]] = []
        world.registry = Registry.of(plugins(kaiwo_deployment.plugin))
        world.obj = service("web", image="image:1")
        world.settle()

    def sees(self, deployment: Object, **state: Any) -> Any:
        """The container is in a state; reconcile, and record each status that is written."""
        container = {"name": "main", "image": "i", "restartCount": self.restarts, "state": state}
        pod = {
            "metadata": {
                "name": "web-1-a",
                "creationTimestamp": format_time(NOW),
                "ownerReferences": [{"kind": "ReplicaSet", "name": REVISION, "controller": True}],
            },
            "spec": {"nodeName": "n", "restartPolicy": "Always"},
            "status": {"phase": "Running", "containerStatuses": [{**container, "lastState": self.last}]},
        }
        self.world.live(status=deployment)
        self.world.set(pods=(pod,), now=self.now)
        plan = self.world.plan()
        assert plan.writes == ()
        self.written += [(each["status"], each["reason"], each["message"]) for each in plan.statuses]
        if plan.statuses:
            self.world.obj = {**self.world.obj, "status": plan.statuses[-1]}
        return plan.requeue_after

    def runs(self, seconds: float) -> Any:
        """The container starts, is ready at once, and has run that long; seconds until the next check."""
        begun, self.now = self.now, self.now + timedelta(seconds=seconds)
        self.begun = begun
        return self.sees(READY, running={"startedAt": format_time(begun)})

    def crashes(self, code: int, back_off: float = 10.0) -> None:
        """The running container ends, and waits for its next restart."""
        times = {"startedAt": format_time(self.begun), "finishedAt": format_time(self.now)}
        ended = {"exitCode": code, "reason": "Error", **times}
        self.sees(BROKEN, terminated=ended)
        self.last, self.restarts = {"terminated": ended}, self.restarts + 1
        self.sees(BROKEN, waiting={"reason": "CrashLoopBackOff"})
        self.now += timedelta(seconds=back_off)

    @property
    def status(self) -> tuple[str, str]:
        """Status and reason as written last."""
        return self.written[-1][:2]


@pytest.fixture
def web(world: World) -> Service:
    """A service that was just created."""
    return Service(world)


def test_a_service_that_crashes_for_hours_is_not_ready_and_hardly_written(web: Service) -> None:
    """A hundred restarts with changing exit codes: one state, and a write only for far more restarts."""
    web.runs(2)
    assert web.status == ("READY", "Ready")
    web.crashes(1)
    assert web.status == ("STARTING", "CrashLoopBackOff")
    before = len(web.written)
    for code in itertools.islice(itertools.cycle((1, 137, 2)), 99):
        web.runs(3)
        web.crashes(code, back_off=300)
    assert {item[:2] for item in web.written[before:]} == {("STARTING", "CrashLoopBackOff")}
    messages = [message.partition("CrashLoopBackOff, ")[2] for _, _, message in web.written[before - 1 :]]
    assert [text.partition(",")[0] for text in messages] == [
        "1 restart",
        *(f"at least {count} restarts" for count in (2, 5, 10, 20, 50, 100)),
    ]
    assert "exited with code 1" in messages[0]


def test_a_service_that_stops_crashing_is_ready_after_a_while(web: Service) -> None:
    """Twice as long as it ran before its last crash, and ten seconds at least; no event is needed."""
    web.runs(2)
    web.crashes(1)
    assert web.runs(4) == pytest.approx(6)
    assert web.status == ("STARTING", "CrashLoopBackOff")
    web.now = web.begun + timedelta(seconds=10)
    web.sees(READY, running={"startedAt": format_time(web.begun)})
    assert web.status == ("READY", "Ready")
    web.now += timedelta(seconds=60)
    web.crashes(1)
    assert web.runs(5) == pytest.approx(135)


def test_a_single_restart_is_no_crash_loop(web: Service) -> None:
    """The kubelet starts a container at once after its first crash: the service is ready again."""
    web.runs(600)
    web.restarts, web.last = 1, {"terminated": {"exitCode": 1, "startedAt": format_time(web.begun)}}
    web.runs(1)
    assert web.status == ("READY", "Ready")


def test_a_container_that_cannot_start_recovers_like_one_that_ran_for_no_time(web: Service) -> None:
    """Its start is the beginning of Unix time, which is no long run."""
    web.begun = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    web.crashes(128)
    assert web.runs(1) == pytest.approx(9)


def test_a_container_that_the_runtime_never_starts_is_hardly_written(web: Service) -> None:
    """A kubelet shows RunContainerError at each try, and CrashLoopBackOff in between."""
    said = 'failed to create containerd task: exec: "pyton": executable file not found in $PATH: unknown'
    ended = {"exitCode": 128, "reason": "StartError", "startedAt": "1970-01-01T00:00:00Z", "message": said}
    web.last = {"terminated": ended}
    for _ in range(20):
        web.sees(BROKEN, waiting={"reason": "RunContainerError", "message": said})
        web.restarts += 1
        web.now += timedelta(seconds=1)
        web.sees(BROKEN, waiting={"reason": "CrashLoopBackOff", "message": "back-off 10s"})
        web.now += timedelta(seconds=60)
    assert [item[1] for item in web.written if item[1] != "Starting"] == [
        "RunContainerError", *["CrashLoopBackOff"] * 5  # with 1, 2, 5, 10 and 20 restarts
    ]  # fmt: skip
    assert "executable file not found in $PATH" in web.written[-1][2]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, ""), (1, "1 restart"), (2, "at least 2 restarts"), (4, "at least 2 restarts"),
     (9, "at least 5 restarts"), (49, "at least 20 restarts"), (12345, "at least 10000 restarts"),
     (None, ""), ("x", "")],
)  # fmt: skip
def test_restarts_are_reported_in_steps(count: Any, text: str) -> None:
    """A number that grows for ever would be written for ever."""
    assert restarts({"restartCount": count}) == text
