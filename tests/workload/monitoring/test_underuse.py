"""From scrapes to the status of a workload: condition, figures, warnings, the end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.conditions import merge_conditions
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.plugin.vendors import Utilization
from kaiwo.workload.monitoring.advice import gpu_use, right_sizing, with_basis
from kaiwo.workload.monitoring.history import GpuUse, History, longest_gap
from kaiwo.workload.monitoring.reading import GpuPod, gpu_pod, read_gpus, settling_time
from kaiwo.workload.monitoring.samples import Meaning, Samples
from kaiwo.workload.monitoring.underuse import is_monitored, judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object

START = datetime(2026, 11, 22, 9, tzinfo=UTC)
INTERVAL = 30.0
USE = Meaning(Utilization("use", gpu_labels=("gpu",)), "use")
MEMORY = Meaning(Utilization("use", gpu_labels=("gpu",), memory_used="used", memory_total="total"), "used")
DEFAULTS = ResolvedConfig.defaults()
ENDING = replace(DEFAULTS, terminate_underutilized=True)


def samples_of(pods: dict[str, Sequence[float]], namespace: str = "team") -> Samples:
    """Samples of pods, by the utilization of each GPU."""
    found = Samples()
    for pod, values in pods.items():
        for gpu, value in enumerate(values):
            found.add(USE, {"namespace": namespace, "pod": pod, "gpu": str(gpu)}, value)
    return found


@dataclass
class Workload:
    """A workload of two pods with four GPUs each, and an operator that follows it.

    Attributes:
        ended: the evidence with which it was ended.
        writes: how often its status was written.
        events: those that were recorded.
    """

    config: ResolvedConfig = DEFAULTS
    seconds: float = 0.0
    set_by: timedelta = timedelta()
    status: Object = field(default_factory=dict)
    ended: str = ""
    writes: int = 0
    events: list[tuple[timedelta, str]] = field(default_factory=list)
    history: History = field(default_factory=lambda: History(0.0, longest_gap(INTERVAL), interrupted=False))
    pods: tuple[GpuPod, ...] = tuple(
        GpuPod("team", name, 4, START - timedelta(hours=1)) for name in ("p-0", "p-1")
    )

    @property
    def now(self) -> datetime:
        """The time by a clock that may have been set."""
        return START + timedelta(seconds=self.seconds) + self.set_by

    @property
    def condition(self) -> tuple[str, str] | None:
        """Status and reason."""
        found = self.status.get("conditions") or [None]
        return (found[0]["status"], found[0]["reason"]) if found[0] else None

    def restart(self, *, down: float = 0.0) -> None:
        """Another operator takes over after some seconds."""
        self.seconds += down
        interrupted = down > longest_gap(INTERVAL)
        self.history = History(self.seconds, longest_gap(INTERVAL), interrupted=interrupted)

    def scrape(self, samples: Samples | None) -> None:
        """One scrape, None for one that failed; what it says is written."""
        self.seconds += INTERVAL
        if self.history.interrupted and (self.condition or ("",))[0] != "True":
            self.history.interrupted = False
        threshold = self.config.low_utilization_threshold
        settled = settling_time(INTERVAL)
        reading = read_gpus(self.pods, samples, threshold, self.now, settled) if samples is not None else None
        problem: Any = "MetricsUnreachable" if samples is None else "PodsNew"
        self.history.add(reading, problem, threshold, self.seconds, self.now)
        for _ in range(3):  # the plan is made until nothing is left to write
            if not self._write(self.history.use(self.seconds)):
                return
        raise AssertionError("the status never comes to rest")

    def _write(self, use: GpuUse) -> bool:
        conditions, utilization = self.status.get("conditions", []), self.status.get("utilization", {})
        said = judge(
            conditions, utilization, use, self.config,
            gpus=8, now=self.now, monotonic=START + timedelta(seconds=self.seconds),
        )  # fmt: skip
        self.ended = self.ended or said.evidence
        if not said.differs(conditions, utilization):
            return False
        self.writes += 1
        own = [said.condition] if said.condition else []
        self.status = {
            "conditions": merge_conditions(conditions, own, self.now),
            "utilization": said.utilization or {},
        }
        self.events += [(timedelta(seconds=self.seconds), event.reason) for event in said.events]
        return True

    def run(self, hours: float, busy: Sequence[float] | None = (0, 0, 0, 0), *, second: Any = ...) -> None:
        """Scrape for some hours while the GPUs of both pods are used like this; None: scrapes fail."""
        other = busy if second is ... else second
        given = {name: values for name, values in (("p-0", busy), ("p-1", other)) if values is not None}
        for _ in range(round(hours * 3600 / INTERVAL)):
            if self.ended:
                return
            self.scrape(samples_of(given) if busy is not None else None)


def test_three_low_readings_make_it_underutilized_and_one_busy_reading_ends_that() -> None:
    """A pause of a minute between two epochs is no news; work is."""
    it = Workload()
    it.run(2 * INTERVAL / 3600)
    assert it.condition is None
    it.scrape(samples_of({"p-0": [0] * 4, "p-1": [0] * 4}))
    assert it.condition == ("True", "GpuUtilizationLow")
    assert it.status["utilization"] == {
        "gpus": 8, "percent": 0, "mostGpusUsed": 0, "observedSince": "2026-11-22T09:00:30Z"
    }  # fmt: skip
    it.scrape(samples_of({"p-0": [0] * 4, "p-1": [0, 0, 0, 9]}))
    assert it.condition == ("False", "GpuUtilizationNormal")
    assert [reason for _, reason in it.events] == ["GpuUtilizationLow", "GpuUtilizationNormal"]


def test_the_mean_of_all_gpus_decides() -> None:
    """One busy GPU of eight is 12 %: more than 1 %, less than 20 %."""
    for threshold, status in ((1, "False"), (20, "True"), (12.5, "False"), (12.6, "True")):
        it = Workload(replace(DEFAULTS, low_utilization_threshold=threshold))
        it.run(0.1, (100, 0, 0, 0), second=(0, 0, 0, 0))
        assert (it.condition or ("",))[0] == status
    never = Workload(replace(DEFAULTS, low_utilization_threshold=0))
    never.run(0.1)
    assert never.condition == ("False", "GpuUtilizationNormal")


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (None, "MetricsMissing"),
        ((0, 0, 0), "MetricsMissing"),
        ((0, 0, 0, float("nan")), "MetricsInvalid"),
        ((0, 0, 0, -1), "MetricsInvalid"),
        ((0, 0, 0, 1e308), "MetricsInvalid"),
        ((0, 0, 0, 101), "MetricsInvalid"),
    ],
)
def test_what_is_missing_or_absurd_is_unknown_and_ends_nothing(second: Any, reason: str) -> None:
    """Half of the pods, one series, or one value: the GPUs that are not known may be busy."""
    it = Workload(ENDING)
    it.run(48, (0, 0, 0, 0), second=second)
    assert it.condition == ("Unknown", reason)
    assert (it.ended, it.status["utilization"], it.writes) == ("", {}, 1)


def test_gpus_that_are_busy_are_enough_to_know_whatever_is_missing() -> None:
    """Four of eight at 50 % are 25 % at least; of the others it is assumed that they are used."""
    it = Workload()
    it.run(1, (50, 50, 50, 50), second=None)
    assert it.condition == ("False", "GpuUtilizationNormal")
    assert it.status["utilization"]["mostGpusUsed"] == 8


def test_an_endpoint_that_is_gone_for_a_day_ends_nothing_and_the_time_begins_again() -> None:
    """Two writes for the whole outage."""
    it = Workload(ENDING)
    it.run(23)
    it.run(24, None)
    assert it.condition == ("Unknown", "MetricsUnreachable")
    writes = it.writes
    it.run(1)
    assert (it.condition or ("",))[0] == "True"
    assert (it.ended, it.writes) == ("", writes + 1)
    it.run(22)
    assert it.ended == ""
    it.run(2)
    assert it.ended


def test_an_outage_of_four_minutes_changes_nothing() -> None:
    """So long as a Prometheus server or an operator takes to be back."""
    it = Workload(ENDING)
    it.run(11)
    writes = it.writes
    it.run(4 / 60, None)
    it.run(0.1)
    assert (it.writes, (it.condition or ("",))[0]) == (writes, "True")


def test_warnings_come_at_half_time_and_ten_minutes_before_the_end() -> None:
    """Each once, with the time of the end; it comes to the minute."""
    it = Workload(ENDING)
    it.run(30)
    since = timedelta(seconds=3 * INTERVAL)
    assert it.ended == "its GPUs have been used less than 1 % since 2026-11-22T09:01:30Z"
    warned = [at - since for at, reason in it.events if reason == "TerminationWarning"]
    assert warned == [timedelta(hours=12), timedelta(hours=23, minutes=50)]
    assert timedelta(seconds=it.seconds) - since == timedelta(hours=24)
    assert it.status["utilization"]["terminationTime"] == "2026-11-23T09:01:30Z"


def test_a_workload_that_uses_its_gpus_in_time_is_left_alone() -> None:
    """One busy reading a minute before the end: the time begins again, and the warnings too."""
    it = Workload(ENDING)
    it.run(23.98)
    assert "terminationTime" in it.status["utilization"]
    it.scrape(samples_of({"p-0": [50] * 4, "p-1": [0] * 4}))
    assert "terminationTime" not in it.status["utilization"]
    it.run(23.9)
    assert it.ended == ""
    assert [reason for _, reason in it.events].count("TerminationWarning") == 4


def test_restarts_of_the_operator_neither_restart_nor_shorten_the_time() -> None:
    """It is in the condition; a restart every hour warns no more often."""
    it = Workload(ENDING)
    for _ in range(30):
        it.run(1)
        if it.ended:
            break
        it.restart(down=60)
    since = timedelta(seconds=3 * INTERVAL)
    assert it.ended
    took = timedelta(seconds=it.seconds) - since
    assert timedelta(hours=24) <= took < timedelta(hours=24, minutes=4)
    assert [reason for _, reason in it.events].count("TerminationWarning") == 2


def test_a_time_without_an_operator_is_a_time_without_data() -> None:
    """The GPUs may have been busy for the ten hours in which nobody read: the time begins again."""
    it = Workload(ENDING)
    it.run(20)
    it.restart(down=36_000)
    it.run(10)
    assert it.ended == ""
    assert (it.condition or ("",))[0] == "True"
    it.run(15)
    assert it.ended


@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(hours=-1), timedelta(days=2)])
def test_a_clock_that_is_set_ends_nothing_early(step: timedelta) -> None:
    """The clock that was never set has the last word."""
    it = Workload(ENDING)
    it.run(6)
    it.set_by = step
    it.run(17.9)
    assert it.ended == ""
    it.run(24 + 1.2)
    assert it.ended


def test_turning_the_ending_on_warns_before_it_ends() -> None:
    """A workload that has been idle for days has ten minutes all the same; turning it off takes it back."""
    it = Workload()
    it.run(48)
    it.config = ENDING
    it.run(0.1)
    assert it.ended == ""
    assert [reason for _, reason in it.events][-1] == "TerminationWarning"
    it.config = DEFAULTS
    it.run(1)
    assert (it.ended, "terminationTime" in it.status["utilization"]) == ("", False)
    it.config = ENDING
    it.run(0.25)
    assert it.ended


def test_a_longer_time_is_longer_for_what_was_warned_already() -> None:
    """An administrator who doubles it at the last minute is heard, and it is warned again."""
    it = Workload(ENDING)
    it.run(23.95)
    it.config = replace(ENDING, terminate_underutilized_after=timedelta(hours=48))
    it.run(23.9)
    assert it.ended == ""
    it.run(1)
    assert it.ended
    assert [reason for _, reason in it.events].count("TerminationWarning") == 3


def test_a_short_time_has_one_warning_at_its_half() -> None:
    """Five minutes have no ten before the end."""
    it = Workload(replace(ENDING, terminate_underutilized_after=timedelta(minutes=5)))
    it.run(1)
    assert it.ended
    assert [reason for _, reason in it.events] == ["GpuUtilizationLow", "TerminationWarning"]


def test_nothing_is_written_at_rest() -> None:
    """Idle or busy, a day costs no write; with much noise it costs a few."""
    noise = random.Random(1)
    for mean, spread in ((0, 0), (100, 0), (55, 25)):
        it = Workload()
        it.run(0.5, [mean] * 4)
        writes = it.writes
        for _ in range(2880):
            values = [max(0.0, min(100.0, noise.gauss(mean, spread))) for _ in range(8)]
            it.scrape(samples_of({"p-0": values[:4], "p-1": values[4:]}))
        assert it.writes - writes <= (4 if spread else 0), (mean, spread)


def test_a_figure_follows_what_really_changed() -> None:
    """Within ten minutes, in one write."""
    it = Workload()
    it.run(1, (20, 20, 20, 20))
    it.run(0.2, (80, 80, 80, 80))
    assert it.status["utilization"]["percent"] == 80
    assert it.writes <= 3


def test_pods_that_have_just_started_count_as_unknown() -> None:
    """Samples may be those of an earlier pod of that name; those of other namespaces are not theirs."""
    it = Workload(ENDING)
    for _ in range(30):
        it.pods = tuple(replace(pod, started=it.now) for pod in it.pods)
        it.scrape(samples_of({"p-0": [0] * 4, "p-1": [0] * 4}))
    assert it.condition == ("Unknown", "PodsNew")
    elsewhere = Workload()
    for _ in range(30):
        elsewhere.scrape(samples_of({"p-0": [0] * 4, "p-1": [0] * 4}, "other"))
    assert elsewhere.condition == ("Unknown", "MetricsMissing")


def test_samples_too_many_make_no_gpu_idle() -> None:
    """Somebody who writes a hundred idle GPUs for a pod of another does not lower its mean."""
    it = Workload()
    for _ in range(10):
        it.scrape(samples_of({"p-0": [50] * 4 + [0] * 100, "p-1": [0] * 104}))
    assert it.condition == ("False", "GpuUtilizationNormal")
    assert it.status["utilization"]["percent"] == 25


WORD = st.sampled_from(["idle", "busy", "half", "nothing", "failed", "absurd", "restart", "down", "set"])


@given(st.lists(st.tuples(WORD, st.integers(1, 40)), max_size=12))
def test_whatever_happens_it_is_ended_only_after_the_whole_time_of_idle_readings(
    story: list[tuple[str, int]],
) -> None:
    """No gap of more than five minutes in it, and a warning well before."""
    after = timedelta(hours=1)
    it = Workload(replace(ENDING, terminate_underutilized_after=after))
    idle_since: float | None = None
    read_at = 0.0
    scrapes = {
        "idle": samples_of({"p-0": [0] * 4, "p-1": [0] * 4}),
        "busy": samples_of({"p-0": [90] * 4, "p-1": [0] * 4}),
        "half": samples_of({"p-0": [0] * 4}),
        "nothing": Samples(),
        "failed": None,
        "absurd": samples_of({"p-0": [0] * 4, "p-1": [0, 0, 0, float("nan")]}),
    }
    for word, count in story:
        if word == "restart":
            it.restart(down=count)
        elif word == "down":
            it.restart(down=count * 60.0)
        elif word == "set":
            it.set_by += timedelta(minutes=count - 20)
        for _ in range(count if word in scrapes else 0):
            it.scrape(scrapes[word])
            if word == "busy":
                idle_since = None
            elif word == "idle":
                if idle_since is None or it.seconds - read_at > longest_gap(INTERVAL):
                    idle_since = it.seconds
                read_at = it.seconds
            if it.ended:
                assert word == "idle"
                assert idle_since is not None
                assert it.seconds - idle_since >= after.total_seconds()
                assert [reason for _, reason in it.events].count("TerminationWarning") >= 1
                return


def test_namespaces_are_those_of_the_setting_or_all_but_kube_system() -> None:
    """As documented."""
    some = replace(DEFAULTS, target_namespaces=frozenset({"team", "kube-system"}))
    assert [is_monitored(name, DEFAULTS) for name in ("team", "other", "kube-system")] == [True, True, False]
    assert [is_monitored(name, some) for name in ("team", "other", "kube-system")] == [True, False, True]


def test_memory_is_a_mean_over_the_gpus_that_tell() -> None:
    """A model that is loaded and not asked takes memory and no time."""
    it = Workload()
    for _ in range(4):
        found = samples_of({"p-0": [0] * 4, "p-1": [0] * 4})
        for field_, value in (("used", 30.0), ("total", 40.0)):
            meaning = Meaning(MEMORY.utilization, field_)  # type: ignore[arg-type]  # its words
            found.add(meaning, {"namespace": "team", "pod": "p-0", "gpu": "0"}, value)
        it.scrape(found)
    assert it.status["utilization"]["memoryPercent"] == 75


def pod(**changes: Any) -> Object:
    """A running pod with four GPUs."""
    state = {"running": {"startedAt": "2026-11-22T08:00:00Z"}}
    made: Any = {
        "metadata": {"name": "p-0", "namespace": "team"},
        "spec": {
            "containers": [
                {"name": "a", "resources": {"limits": {"amd.com/gpu": "3", "cpu": "1"}}},
                {"name": "b", "resources": {"limits": {"amd.com/cpx_nps4": 1}}},
            ]
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "a", "state": state}]},
    }
    for key, value in changes.items():
        made[key] = {**made[key], **value}
    return made  # type: ignore[no-any-return]  # a dict


KEYS = ("amd.com/gpu", "amd.com/cpx_*")


def test_a_running_pod_holds_the_gpus_of_its_containers() -> None:
    """Of all keys of the vendors; a pod that waits, ends or has none holds none."""
    found = gpu_pod(pod(), KEYS)
    assert found is not None
    assert (found.gpus, found.started) == (4, datetime(2026, 11, 22, 8, tzinfo=UTC))
    assert gpu_pod(pod(metadata={"deletionTimestamp": "2026-11-22T08:00:00Z"}), KEYS) is None
    assert gpu_pod(pod(status={"phase": "Pending"}), KEYS) is None
    assert gpu_pod(pod(status={"containerStatuses": []}), KEYS) is None
    assert gpu_pod(pod(), ("nvidia.com/gpu",)) is None


def test_a_sidecar_holds_its_gpus_and_an_init_container_that_has_ended_none() -> None:
    """A sidecar runs beside the containers, so that its GPUs are measured like theirs."""
    limits = {"limits": {"amd.com/gpu": "2"}}
    init = [
        {"name": "first", "resources": limits},
        {"name": "s", "restartPolicy": "Always", "resources": limits},
    ]
    found = gpu_pod(pod(spec={"initContainers": init}), KEYS)
    assert found is not None
    assert found.gpus == 6
    bare = gpu_pod(pod(spec={"initContainers": init, "containers": [{"name": "a"}]}), KEYS)
    assert bare is not None
    assert bare.gpus == 2


def test_odd_pods_hold_nothing() -> None:
    """What the API server would not store breaks nothing either."""
    for odd in ("", None, 5, [], {}, [{}], [None], {"limits": 5}):
        assert gpu_pod(pod(spec={"containers": odd, "initContainers": odd}), KEYS) is None
        assert gpu_pod(pod(spec={"containers": [{"resources": odd}]}), KEYS) is None
        assert gpu_pod(pod(status={"containerStatuses": odd}), KEYS) is None


def test_advice_names_what_was_used_and_for_how_long() -> None:
    """Only after an hour, and only where fewer GPUs were used than asked for."""
    it = Workload()
    it.run(6.1, (90, 90, 0, 0), second=(0, 0, 0, 0))
    assert right_sizing(it.status, it.now) == "asked for 8 GPUs, used at most 2 over 6 h"
    assert right_sizing(it.status, START + timedelta(minutes=50)) == ""
    assert (
        right_sizing(it.status, START + timedelta(minutes=100))
        == "asked for 8 GPUs, used at most 2 over 99 min"
    )
    assert right_sizing({**it.status, "completionTime": "2026-11-22T11:30:00Z"}, it.now).endswith("over 2 h")
    assert with_basis(it.status, it.now) == (
        "asked for 8 GPUs, used at most 2 over 6 h "
        "(most GPUs used in one reading of the metrics since 2026-11-22T09:00:30Z)"
    )
    assert gpu_use(it.status) == "22 %"
    it.run(1, (90, 90, 90, 90))
    assert right_sizing(it.status, it.now) == ""
    for odd in ({}, {"utilization": 5}, {"utilization": {"gpus": "8", "mostGpusUsed": None}}):
        assert (right_sizing(odd, it.now), with_basis(odd, it.now), gpu_use(odd)) == ("", "", "")
