"""The lifecycle of a simulated Ray job: pending, running, finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaiwo_sandbox.ray.annotations import SimulatedOutcome

_FINAL_STATUSES = ("STOPPED", "SUCCEEDED", "FAILED")


@dataclass(slots=True)
class SimulatedJob:
    """One submission. Times are seconds since the epoch, or 0 if not reached.

    Attributes:
        namespace: namespace of its Ray cluster.
        submission_id: its ID in Ray.
        head: name of the head's Service.
        entrypoint: the command that Ray would run.
        status: its Ray status.
        message: its Ray message.
        started: start time.
        ended: end time.
    """

    namespace: str
    submission_id: str
    head: str
    entrypoint: str = ""
    status: str = "PENDING"
    message: str = ""
    started: float = 0.0
    ended: float = 0.0

    @property
    def finished(self) -> bool:
        """Whether its status is final."""
        return self.status in _FINAL_STATUSES

    def advance(self, outcome: SimulatedOutcome, now: float, *, submitted: bool) -> None:
        """Update the status for the time `now`. A job starts when its submitter runs."""
        if self.finished or not submitted or (outcome.job_status == "PENDING" and not self.started):
            return
        self.started = self.started or now
        if now - self.started < outcome.run_time or outcome.job_status not in _FINAL_STATUSES:
            self.status = "RUNNING"
            return
        self.end(outcome.job_status, outcome.message, now)

    def end(self, status: str, message: str, now: float) -> None:
        """Set the final status, unless the job has finished already."""
        if not self.finished:
            self.status, self.message, self.ended = status, message, now

    def document(self) -> dict[str, Any]:
        """The job as in Ray's REST API, with times in milliseconds."""
        found = {
            "type": "SUBMISSION",
            "submission_id": self.submission_id,
            "job_id": self.submission_id,
            "entrypoint": self.entrypoint,
            "status": self.status,
            "message": self.message,
        }
        times = {"start_time": self.started, "end_time": self.ended}
        return found | {key: int(value * 1000) for key, value in times.items() if value}
