"""What is known of the use of each workload's GPUs, from one scrape to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.monitoring import longest_gap, settling_time
from kaiwo_gpu_preemption.assessment import UseReading
from kaiwo_gpu_preemption.utilization import read_utilization

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kaiwo.plugin.kit.monitoring import Scrape
    from kaiwo_gpu_preemption.tracked import Tracked


class UseReadings:
    """Reads the use of GPUs, and remembers how long nothing was known of it.

    What is remembered is lost with the process; the next one takes the time before it for unobserved.
    """

    def __init__(self, interval: float, *, scraped: bool) -> None:
        """Nothing is read yet.

        Args:
            interval: seconds between two scrapes.
            scraped: whether there is an endpoint at all.
        """
        self._interval = interval
        self._scraped = scraped
        self._usable: dict[str, float] = {}  # when something was known last, by uid
        self._unobserved: dict[str, object] = {}  # idle times that do not count any more, by uid

    def read(self, one: Tracked, scrape: Scrape | None, clock: float, problem: str = "") -> UseReading:
        """What is known of a workload now; its figures go into ``use``.

        Args:
            one: the workload.
            scrape: that is new in this pass, None without one.
            clock: monotonic seconds.
            problem: why the scrape does not say enough of it, a reason; empty where it may.
        """
        uid = one.owner.uid
        usable = self._usable.setdefault(uid, clock)
        if scrape is not None:
            one.use = read_utilization(
                one.pods, scrape.samples if not problem else None, threshold=one.policy.threshold,
                aggregation=one.policy.aggregation, now=scrape.now, settled=settling_time(self._interval),
            )  # fmt: skip
        use = one.use
        current = use is not None and (use.percent is not None or use.busy)
        missing = not self._scraped or clock - usable > longest_gap(self._interval)
        if current or not any(pod.running for pod in one.pods):
            self._usable[uid] = clock  # of one that does not run there is nothing to know
        interrupted = (scrape is not None and scrape.interrupted) or (missing and current)
        return UseReading(
            use, current, missing and not current,
            interrupted=self._is_unobserved(one, interrupted=interrupted),
            problem=problem or ("" if self._scraped else "NoEndpoint"),
        )  # fmt: skip

    def _is_unobserved(self, one: Tracked, *, interrupted: bool) -> bool:
        """Whether the recorded idle time has a gap, also while the status with a new one is not written."""
        uid, recorded = one.owner.uid, one.recorded("idleSince").get("idleSince")
        if interrupted and recorded is not None:
            self._unobserved[uid] = recorded
        return interrupted or (recorded is not None and self._unobserved.get(uid) == recorded)

    def missed(self, uids: Iterable[str], clock: float) -> None:
        """Take note of workloads of whose pods nothing is known in this pass.

        Args:
            uids: of their root owners.
            clock: monotonic seconds.
        """
        for uid in uids:
            self._usable.setdefault(uid, clock)

    def forget_all_but(self, uids: Collection[str]) -> None:
        """Forget what is known of other workloads."""
        self._usable = {uid: at for uid, at in self._usable.items() if uid in uids}
        self._unobserved = {uid: since for uid, since in self._unobserved.items() if uid in uids}
