"""The life of one simulated Ray job: pending, running, ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaiwo_sandbox.ray.behaviour import Behaviour

_ENDED = ("STOPPED", "SUCCEEDED", "FAILED")


@dataclass(slots=True)
class Job:
    """One submission. Times are seconds since the epoch, 0 for "not yet".

    Attributes:
        namespace: of its Ray cluster.
        submission_id: its name in Ray.
        head: the name of the head's Service.
        entrypoint: what a real Ray would run.
        status: Ray's word for it now.
        message: Ray's text about it.
        started: when it began to run.
        ended: when it ended.
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
    def over(self) -> bool:
        """Whether it has ended; Ray never takes that back."""
        return self.status in _ENDED

    def advance(self, behaviour: Behaviour, now: float, *, submitted: bool) -> None:
        """Bring it to where it is at `now`; it begins to run when its submitter does."""
        if self.over or not submitted or (behaviour.job_status == "PENDING" and not self.started):
            return
        self.started = self.started or now
        if now - self.started < behaviour.run_time or behaviour.job_status not in _ENDED:
            self.status = "RUNNING"
            return
        self.end(behaviour.job_status, behaviour.message, now)

    def end(self, status: str, message: str, now: float) -> None:
        """Record how it ended, unless it already has."""
        if not self.over:
            self.status, self.message, self.ended = status, message, now

    def document(self) -> dict[str, Any]:
        """The job as Ray's REST API gives it, times in milliseconds."""
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
