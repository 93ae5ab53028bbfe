"""What is known of the use of GPUs from one scrape to the next, and which idle times have a gap."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kaiwo.plugin.kit.kinds import JOB
from kaiwo.plugin.kit.monitoring import Samples
from kaiwo.plugin.kit.values import format_time
from kaiwo.testing.builders import NOW
from kaiwo.workload.monitoring.samples import meanings
from kaiwo.workload.monitoring.scrape import Scrape
from kaiwo_gpu_amd.plugin import kaiwo_gpu_vendors
from kaiwo_gpu_preemption.assessment import assess
from kaiwo_gpu_preemption.owners import OwnerMetadata, Root
from kaiwo_gpu_preemption.pods import GpuPodFacts
from kaiwo_gpu_preemption.policy import TrackingPolicy
from kaiwo_gpu_preemption.readings import UseReadings
from kaiwo_gpu_preemption.tracked import Tracked

if TYPE_CHECKING:
    from kaiwo_gpu_preemption.assessment import Assessment

INTERVAL = 15.0
OWNER = OwnerMetadata(JOB, "team", "w", "uid-w", "1", {}, None)


def workload(idle_since: str | None = None, **pod: Any) -> Tracked:
    """A workload with one GPU in one pod, whose GpuWorkload says since when it is idle."""
    facts: dict[str, Any] = {"over": False, "running": True, "started": NOW - timedelta(hours=1), **pod}
    one = Tracked(
        Root(OWNER, "Job/w"), TrackingPolicy(), [GpuPodFacts("team", "w-0", "u", {"k": 1}, "n", **facts)]
    )
    status = {"phase": "Idle", "idleSince": idle_since} if idle_since else {}
    one.entry = SimpleNamespace(readable_part=lambda _, name: status.get(name))  # type: ignore[assignment]
    return one


def scrape(use: float | None = 0.0, *, interrupted: bool = False) -> Scrape:
    """A scrape with the GPU used like this, without any sample for None."""
    samples = Samples()
    utilization = kaiwo_gpu_vendors()[0].utilization
    assert utilization is not None
    if use is not None:
        meaning = meanings([utilization])[utilization.metric]
        samples.add(meaning, {"namespace": "team", "pod": "w-0", "gpu_id": "0"}, use)
    return Scrape(samples, 0.0, NOW, interrupted)


def assessed(
    readings: UseReadings, one: Tracked, found: Scrape | None, clock: float = 0.0, problem: str = ""
) -> Assessment:
    """What the status is to say after a scrape."""
    reading = readings.read(one, found, clock, problem)
    status = one.recorded("phase", "idleSince", "conditions")
    return assess(status, one.pods, reading, one.policy, NOW)


def test_an_idle_time_with_a_gap_does_not_count_until_a_new_one_is_written() -> None:
    """The write may fail; the workload may have been busy while nobody read."""
    readings, before = UseReadings(INTERVAL, scraped=True), format_time(NOW - timedelta(hours=1))
    assert assessed(readings, workload(before), scrape()).idle_since == NOW - timedelta(hours=1)
    for found in (scrape(interrupted=True), scrape()):
        assert assessed(readings, workload(before), found).idle_since == NOW
    after = format_time(NOW - timedelta(seconds=15))
    assert assessed(readings, workload(after), scrape()).idle_since == NOW - timedelta(seconds=15)


def test_so_it_is_where_no_scrape_was_usable_for_long() -> None:
    """Whoever knew nothing for so long takes the time for unobserved."""
    readings, before = UseReadings(INTERVAL, scraped=True), format_time(NOW - timedelta(hours=1))
    assessed(readings, workload(before), scrape())
    for clock in (1000.0, 1015.0):
        assert assessed(readings, workload(before), scrape(), clock).idle_since == NOW


def test_a_workload_that_waited_for_long_is_not_unknown_when_it_starts() -> None:
    """Nothing could be known of it; what is missing counts from its start."""
    readings = UseReadings(INTERVAL, scraped=True)
    for clock in (0.0, 1000.0):
        assessed(readings, workload(running=False, started=None), scrape(None), clock)
    started = workload(started=NOW)
    assert assessed(readings, started, scrape(None), 1015.0).conditions == ()
    late = assessed(readings, workload(), scrape(None), 2000.0)
    assert [one.reason for one in late.conditions] == ["MetricsMissing"]


def test_nothing_is_concluded_from_a_part_of_the_pods() -> None:
    """Others may be busy: the idle time goes on for a moment, no decision is taken, then it begins again."""
    readings, before = UseReadings(INTERVAL, scraped=True), format_time(NOW - timedelta(hours=1))
    assert assessed(readings, workload(before), scrape()).current
    partly = assessed(readings, workload(before), scrape(), 15.0, "OwnerUnreadable")
    assert (partly.phase, partly.current) == ("Idle", False)
    later = assessed(readings, workload(before), scrape(), 1000.0, "OwnerUnreadable")
    assert [(one.type, one.reason) for one in later.conditions] == [("UtilizationUnknown", "OwnerUnreadable")]
    assert later.phase == "Active"
    assert assessed(readings, workload(before), scrape(), 1015.0).idle_since == NOW


def test_time_in_which_no_pod_was_known_does_not_count_as_idle() -> None:
    """The owner of all of them could not be read, perhaps since the operator started."""
    readings, before = UseReadings(INTERVAL, scraped=True), format_time(NOW - timedelta(hours=1))
    for clock in (0.0, 500.0, 1000.0):
        readings.missed(["uid-w"], clock)
        readings.forget_all_but({"uid-w"})
    assert assessed(readings, workload(before), scrape(), 1015.0).idle_since == NOW
