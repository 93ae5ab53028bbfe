"""The state of a scenario that runs: what was observed of its workloads, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo_sandbox.demo.scenario import ObservedStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.demo.scenario import DemoWorkload, Scenario


class ScenarioRun:
    """One run of a scenario.

    Attributes:
        statuses: the last observed status of each workload, by name.
        node_joined: whether the demo has added its node.
        competing_submitted: whether the competing workloads have been submitted; true if there are none.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.statuses = {workload.name: ObservedStatus() for workload in scenario.workloads}
        self.node_joined = False
        self.competing_submitted = scenario.competing is None
        self._seen_earlier: set[str] = set()

    def observe(self, objects: Iterable[Object]) -> list[DemoWorkload]:
        """Store the status of the live objects; return the workloads whose status changed."""
        observed = {obj["metadata"]["name"]: _status(obj) for obj in objects}
        changed = []
        for workload in self.scenario.workloads:
            status = observed.get(workload.name, ObservedStatus())
            if status != self.statuses[workload.name]:
                self.statuses[workload.name] = status
                changed.append(workload)
            if workload.earlier and workload.earlier.matches(status):
                self._seen_earlier.add(workload.name)
        return changed

    def has_earlier(self, workload: DemoWorkload) -> bool:
        """Whether the earlier status was observed; also true if none is expected."""
        return workload.earlier is None or workload.name in self._seen_earlier

    def is_done(self, workload: DemoWorkload) -> bool:
        """Whether a workload has its final status and everything expected before was observed."""
        if not (self.has_earlier(workload) and workload.final.matches(self.statuses[workload.name])):
            return False
        return not workload.after or self._started_in_order(workload)

    def _started_in_order(self, workload: DemoWorkload) -> bool:
        # RFC 3339 times of one cluster sort as text.
        before, after = self.statuses[workload.after].started, self.statuses[workload.name].started
        return bool(before) and before < after

    def mismatch(self, workload: DemoWorkload) -> str:
        """How the status of a workload that is not done differs from the expected one."""
        status = self.statuses[workload.name]
        found = ", ".join(
            part for part in (status.status or "no status", status.reason, status.message) if part
        )
        if not workload.final.matches(status):
            return f"expected {workload.final.status}, got {found}"
        if workload.earlier and not self.has_earlier(workload):
            return f"expected {workload.earlier.status} before {workload.final.status}, got only {found}"
        return f"expected a start after {workload.after}, got an earlier one: {found}"

    def competing_may_be_submitted(self) -> bool:
        """Whether the workload that must hold the GPUs first has left its queue."""
        return not self.competing_submitted and self.statuses[self.scenario.holder].status not in {
            "",
            "PENDING",
        }

    def node_may_join(self) -> bool:
        """Whether every workload is done or was observed waiting."""
        if self.node_joined:
            return False
        return all(
            self.has_earlier(workload) if workload.earlier else self.is_done(workload)
            for workload in self.scenario.workloads
        )

    def finished(self) -> bool:
        """Whether every workload is done."""
        return all(self.is_done(workload) for workload in self.scenario.workloads)


def _status(obj: Object) -> ObservedStatus:
    status = obj.get("status") or {}
    return ObservedStatus(
        *(str(status.get(key) or "") for key in ("status", "reason", "message", "startTime"))
    )
