"""The annotations that control the outcome of simulated Ray jobs and applications.

They belong on the RayJob or RayService or the pod template of its head group, and may change at any time::

    kaiwo-sandbox/ray-run-time: 2s           time from the submitter's start to a job's end (default 1 s)
    kaiwo-sandbox/ray-job-status: FAILED     final status of a job (default SUCCEEDED; RUNNING never ends)
    kaiwo-sandbox/ray-app-status: UNHEALTHY  status of all Serve applications (default RUNNING)
    kaiwo-sandbox/ray-message: text          message of the job or the applications
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN_TIME, JOB_STATUS, APP_STATUS, MESSAGE = (
    f"kaiwo-sandbox/ray-{name}" for name in ("run-time", "job-status", "app-status", "message")
)
SIMULATED = "Simulated: nothing was computed."

JOB_STATUSES = ("PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED")
"""Ray's `JobStatus`."""
DEPLOYMENT_OF_APP = {
    "NOT_STARTED": "UPDATING",
    "DEPLOYING": "UPDATING",
    "DEPLOY_FAILED": "DEPLOY_FAILED",
    "RUNNING": "HEALTHY",
    "UNHEALTHY": "UNHEALTHY",
    "DELETING": "UPDATING",
}
"""Ray Serve's `DeploymentStatus` by `ApplicationStatus`."""

_DEFAULT_SECONDS = 1.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:(?:\d+(?:\.\d+)?)(?:ms|s|m|h)){1,8}")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class SimulatedOutcome:
    """The outcome that annotations specify.

    Attributes:
        run_time: run time of a job in seconds.
        job_status: status of the job after that time.
        app_status: status of all applications.
        message: message of the job or the applications; it always contains that nothing was computed.
    """

    run_time: float = _DEFAULT_SECONDS
    job_status: str = "SUCCEEDED"
    app_status: str = "RUNNING"
    message: str = SIMULATED


def parse(*sources: Mapping[str, str] | None) -> SimulatedOutcome:
    """Parse annotations; earlier sources override later ones.

    With an invalid value the job and the applications fail, and the message contains the reason.
    """
    found: dict[str, str] = {}
    for source in reversed(sources):
        found.update(source or {})
    seconds = _seconds(found.get(RUN_TIME, ""))
    job, app = found.get(JOB_STATUS, "SUCCEEDED"), found.get(APP_STATUS, "RUNNING")
    error = ""
    if seconds is None:
        error = f"{RUN_TIME}: expected a duration such as 500ms, 2s or 1m30s, got {found[RUN_TIME]!r}"
    elif job not in JOB_STATUSES:
        error = f"{JOB_STATUS}: expected one of {', '.join(JOB_STATUSES)}, got {job!r}"
    elif app not in DEPLOYMENT_OF_APP:
        error = f"{APP_STATUS}: expected one of {', '.join(DEPLOYMENT_OF_APP)}, got {app!r}"
    if error:
        return SimulatedOutcome(0.0, "FAILED", "DEPLOY_FAILED", error)
    text = found.get(MESSAGE, "").strip()
    message = f"{text} ({SIMULATED[0].lower()}{SIMULATED[1:-1]})" if text else SIMULATED
    return SimulatedOutcome(seconds or 0.0, job, app, message)


def _seconds(text: str) -> float | None:
    """Parse a Go duration to seconds; the default for an empty text, None if it is invalid."""
    if not text:
        return _DEFAULT_SECONDS
    if text == "0":
        return 0.0
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
