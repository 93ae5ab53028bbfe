"""Annotations that say how a simulated Ray job or application does.

They stand on the RayJob or RayService, or on the pod template of its head group, and may change any time::

    kaiwo-sandbox/ray-run-time: 2s           a job ends that long after its submitter started (default 1 s)
    kaiwo-sandbox/ray-job-status: FAILED     with that status (default SUCCEEDED; RUNNING: it never ends)
    kaiwo-sandbox/ray-app-status: UNHEALTHY  all Serve applications have that status (default RUNNING)
    kaiwo-sandbox/ray-message: text          with that message
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
"""Ray Serve's `ApplicationStatus`, and the `DeploymentStatus` that goes with each."""

_DEFAULT_SECONDS = 1.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:(?:\d+(?:\.\d+)?)(?:ms|s|m|h)){1,8}")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the annotations ask for.

    Attributes:
        run_time: seconds that a job runs.
        job_status: what it has become then.
        app_status: of all applications.
        message: what Ray says about it; always tells that it is simulated.
    """

    run_time: float = _DEFAULT_SECONDS
    job_status: str = "SUCCEEDED"
    app_status: str = "RUNNING"
    message: str = SIMULATED


def read(*sources: Mapping[str, str] | None) -> Behaviour:
    """The behaviour that annotations ask for; a source before another overrides it.

    A value that cannot be used makes the job fail and the applications too, with a message that says why.
    """
    found: dict[str, str] = {}
    for source in reversed(sources):
        found.update(source or {})
    seconds = _seconds(found.get(RUN_TIME, ""))
    job, app = found.get(JOB_STATUS, "SUCCEEDED"), found.get(APP_STATUS, "RUNNING")
    mistake = ""
    if seconds is None:
        mistake = f"{RUN_TIME}: {found[RUN_TIME]!r} is not a duration such as 500ms, 2s or 1m30s."
    elif job not in JOB_STATUSES:
        mistake = f"{JOB_STATUS}: {job!r} is not one of {', '.join(JOB_STATUSES)}."
    elif app not in DEPLOYMENT_OF_APP:
        mistake = f"{APP_STATUS}: {app!r} is not one of {', '.join(DEPLOYMENT_OF_APP)}."
    if mistake:
        return Behaviour(0.0, "FAILED", "DEPLOY_FAILED", mistake)
    text = found.get(MESSAGE, "").strip()
    message = f"{text} ({SIMULATED[0].lower()}{SIMULATED[1:-1]})" if text else SIMULATED
    return Behaviour(seconds or 0.0, job, app, message)


def _seconds(text: str) -> float | None:
    """Seconds of a duration as Go writes it, the default for none, None when it is no duration."""
    if not text:
        return _DEFAULT_SECONDS
    if text == "0":
        return 0.0
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
