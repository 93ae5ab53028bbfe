"""Phases, the idle clock, notices, and what is worth a write."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.plugin.kit.monitoring import Samples
from kaiwo.plugin.kit.values import format_time
from kaiwo.testing.builders import NOW
from kaiwo.workload.monitoring.samples import meanings
from kaiwo_gpu_amd.plugin import kaiwo_gpu_vendors
from kaiwo_gpu_preemption.assessment import (
    Assessment,
    UseReading,
    assess,
    expired,
    status_change,
    timing,
)
from kaiwo_gpu_preemption.pods import GpuPodFacts
from kaiwo_gpu_preemption.policy import TrackingPolicy
from kaiwo_gpu_preemption.utilization import WorkloadUtilization, aggregated, read_utilization

if TYPE_CHECKING:
    from kaiwo_gpu_preemption.models import Aggregation

KEY = "amd.com/gpu"
POLICY = TrackingPolicy()
LONG_AGO = NOW - timedelta(hours=1)


def pod(name: str = "w-0", gpus: int = 2, **changes: Any) -> GpuPodFacts:
    """A running pod."""
    facts = GpuPodFacts(
        "team", name, f"uid-{name}", {KEY: gpus}, "n0", over=False, running=True, started=LONG_AGO
    )
    return replace(facts, **changes)


def samples(**pods: list[float]) -> Samples:
    """Samples of pods; ``w_0`` stands for the pod w-0."""
    made = Samples()
    utilization = kaiwo_gpu_vendors()[0].utilization
    assert utilization is not None
    meaning = meanings([utilization])[utilization.metric]
    for name, values in pods.items():
        for gpu, value in enumerate(values):
            labels = {"namespace": "team", "pod": name.replace("_", "-"), "gpu_id": str(gpu)}
            made.add(meaning, labels, value)
    return made


def use(
    pods: list[GpuPodFacts], found: Samples | None, aggregation: Aggregation = "Max"
) -> WorkloadUtilization:
    """The use of the GPUs of pods, with a threshold of 5 %."""
    read = read_utilization(pods, found, threshold=5, aggregation=aggregation, now=NOW, settled=30)
    assert read is not None
    return read


def known(percent: float) -> UseReading:
    """A reading of one pod whose GPUs are all used like this."""
    return UseReading(use([pod()], samples(w_0=[percent, percent])), current=True)


def idle(minutes: float) -> dict[str, Any]:
    """The status of a workload whose GPUs have been idle for some minutes."""
    return {"phase": "Idle", "idleSince": format_time(NOW - timedelta(minutes=minutes))}


@pytest.mark.parametrize(("aggregation", "expected"), [("Min", 0.0), ("Max", 60.0), ("Avg", 25.0)])
def test_one_figure_of_all_gpus_of_all_pods(aggregation: Aggregation, expected: float) -> None:
    """Of several pods, too."""
    found = use([pod(), pod("w-1")], samples(w_0=[0, 10], w_1=[30, 60]), aggregation)
    assert found.percent == expected
    assert [name for name, _ in found.pods] == ["w-0", "w-1"]


@given(st.lists(st.floats(0, 100), min_size=1), st.sampled_from(["Min", "Max", "Avg"]))
def test_a_figure_is_between_the_least_and_the_most_used_gpu(values: list[float], how: Any) -> None:
    """Whatever the aggregation."""
    assert min(values) - 1e-9 <= aggregated(values, how) <= max(values) + 1e-9


@pytest.mark.parametrize("aggregation", ["Min", "Max", "Avg"])
@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (None, "MetricsUnreachable"),
        (samples(), "MetricsMissing"),
        (samples(w_0=[0]), "MetricsMissing"),
        (samples(w_0=[0, float("nan")]), "MetricsInvalid"),
        (samples(w_0=[0, -1]), "MetricsInvalid"),
        (samples(w_0=[0, 1e308]), "MetricsInvalid"),
        (samples(other=[0, 0]), "MetricsMissing"),
    ],
)
def test_missing_and_absurd_samples_never_make_gpus_idle(
    found: Samples | None, problem: str, aggregation: Aggregation
) -> None:
    """There is no figure then, and the reason is named."""
    read = use([pod()], found, aggregation)
    assert read.percent is None
    assert read.problem == problem
    made = assess({}, [pod()], UseReading(read, missing=True), POLICY, NOW)
    assert (made.phase, made.idle_since) == ("Active", None)
    assert [(one.type, one.reason) for one in made.conditions] == [("UtilizationUnknown", problem)]


def test_samples_of_a_pod_that_has_just_started_do_not_count() -> None:
    """They may be those of an earlier pod of its name."""
    new = pod(started=NOW - timedelta(seconds=5))
    assert use([new], samples(w_0=[0, 0])).problem == "PodsNew"


@pytest.mark.parametrize(
    ("aggregation", "found", "busy"),
    [
        ("Max", [50], True),
        ("Max", [0], False),
        ("Avg", [50], True),
        ("Avg", [4], False),
        ("Min", [50], False),
    ],
)
def test_gpus_that_are_used_are_used_whatever_the_others_do(
    aggregation: Aggregation, found: list[float], busy: bool
) -> None:
    """One GPU of two has no sample."""
    assert use([pod()], samples(w_0=found), aggregation).busy is busy


@pytest.mark.parametrize(
    ("pods", "reading", "held", "phase"),
    [
        ([pod(running=False, node="", lacks=KEY)], UseReading(None), False, "PendingGpu"),
        ([pod(), pod("w-1", running=False, node="", lacks=KEY)], known(0), False, "PendingGpu"),
        ([], UseReading(None), True, "PendingGpu"),
        ([], UseReading(None), False, "PendingOther"),
        ([pod(running=False, node="")], UseReading(None), False, "PendingOther"),
        ([pod()], UseReading(None), False, "Active"),
        ([pod()], known(5), False, "Active"),
        ([pod()], known(4.9), False, "Idle"),
    ],
)
def test_the_phase_follows_pods_and_figures(
    pods: list[GpuPodFacts], reading: UseReading, held: bool, phase: str
) -> None:
    """A workload that waits for more GPUs is not idle, whatever those do that it has."""
    assert assess({}, pods, reading, POLICY, NOW, held=held).phase == phase


def test_a_restart_neither_shortens_nor_restarts_the_clock() -> None:
    """It is in the status."""
    made = assess(idle(7), [pod()], known(0), POLICY, NOW)
    assert made.idle_since == NOW - timedelta(minutes=7)


@pytest.mark.parametrize(
    ("reading", "phase", "since"),
    [
        (UseReading(use([pod()], None)), "Idle", 7),
        (UseReading(use([pod()], None), missing=True), "Active", None),
        (replace(known(0), interrupted=True), "Idle", 0),
        (replace(known(0), current=False), "Idle", 7),
    ],
)
def test_a_scrape_that_fails_leaves_the_clock_and_a_long_gap_stops_it(
    reading: UseReading, phase: str, since: float | None
) -> None:
    """Nothing is ended meanwhile in either case."""
    made = assess(idle(7), [pod()], reading, POLICY, NOW)
    assert made.phase == phase
    assert made.idle_since == (NOW - timedelta(minutes=since) if since is not None else None)
    later = timing(
        made, POLICY, NOW - timedelta(minutes=6), NOW + timedelta(hours=1), NOW + timedelta(hours=1)
    )
    assert not later.due


def test_idle_gpus_are_given_notice_at_half_and_taken_back_at_the_end_of_the_grace_period() -> None:
    """Of ten minutes."""
    made = Assessment("Idle", NOW, (), current=True)

    def at(minutes: float, notice: float | None = None) -> tuple[bool, bool]:
        now = NOW + timedelta(minutes=minutes)
        found = timing(
            made, POLICY, NOW + timedelta(minutes=notice) if notice is not None else None, now, now
        )
        return found.notice_due, found.due

    assert at(4.9) == (False, False)
    assert at(5) == (True, False)
    assert at(9.9, notice=5) == (False, False)
    assert at(10, notice=5) == (False, True)
    assert at(60) == (True, False)  # nobody ran when the notice was due
    assert at(64.9, notice=60) == (False, False)
    assert at(65, notice=60) == (False, True)
    assert at(10, notice=-30) == (True, False)  # of an earlier idle time


@pytest.mark.parametrize("behind", [timedelta(hours=-1), timedelta(hours=1)])
def test_a_clock_that_is_set_ends_nothing_early(behind: timedelta) -> None:
    """The earlier one of two clocks counts."""
    made = Assessment("Idle", NOW, (), current=True)
    now = NOW + timedelta(minutes=6)
    clocks: tuple[datetime, datetime] = (now + max(behind, timedelta()), now - min(behind, timedelta()))
    assert not timing(made, POLICY, NOW + timedelta(minutes=5), *clocks).due


def test_nothing_is_ended_while_an_annotation_cannot_be_read() -> None:
    """Nobody knows what its author wanted."""
    policy = replace(POLICY, problems=("threshold is bad",))
    made = assess(idle(60), [pod()], known(0), policy, NOW)
    assert made.conditions[0].type == "PolicyValid"
    assert not timing(made, policy, NOW - timedelta(minutes=30), NOW, NOW).due


@pytest.mark.parametrize(("percent", "written"), [(50.0, False), (51.0, False), (51.1, True), (48.9, True)])
def test_a_figure_is_written_when_it_has_moved_by_more_than_a_point(percent: float, written: bool) -> None:
    """And nothing else is written meanwhile."""
    first = known(50)
    made = assess({}, [pod()], first, POLICY, NOW)
    status = status_change({}, made, first.utilization, NOW, chain="Pod/w-0")
    status = {name: value for name, value in status.items() if value is not None}
    reading = known(percent)
    again = assess(status, [pod()], reading, POLICY, NOW)
    later = NOW + timedelta(minutes=1)
    change = status_change(status, again, reading.utilization, later, chain="Pod/w-0")
    assert bool(change) is written
    if written:
        assert change["aggregatedUtilization"] == percent
        assert change["lastMetricsUpdate"] == format_time(later)


def test_a_status_lists_64_pods_and_counts_the_others() -> None:
    """A workload may have thousands."""
    pods = [pod(f"w-{number:03}", gpus=1) for number in range(100)]
    found = use(pods, samples(**{f"w_{number:03}": [0] for number in range(100)}))
    assert len(found.documents("now")) == 64
    assert found.left_out == 36
    assert found.percent == 0


@pytest.mark.parametrize(
    ("hours", "ttl", "gone"), [(23, 24, False), (24, 24, True), (1000, 0, False), (0, 1, False)]
)
def test_a_record_is_kept_for_its_ttl(hours: int, ttl: int, gone: bool) -> None:
    """Zero keeps it for ever."""
    status = {"finishedAt": format_time(NOW - timedelta(hours=hours))}
    assert expired(status, timedelta(hours=ttl), NOW) is gone
    assert not expired({}, timedelta(hours=ttl), NOW)
