"""Whether the API server answers, its version, and the difference of the clocks."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.client.doctor.result import failed, ok, warning

if TYPE_CHECKING:
    from kaiwo.client.doctor.result import DoctorCheck, DoctorScope
    from kaiwo.engine.client import Client

OLDEST = 30
"""Minor version of the oldest Kubernetes 1.x whose API has all that is installed (admission policies)."""

SKEW_WARNING = 5.0
"""Seconds of difference from which ages and durations look wrong."""

SKEW_FAILED = 300.0
"""Seconds of difference from which certificates and tokens may be refused."""


async def check_api_server(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """Version and clock of the API server; sets the scope's skew.

    Raises:
        EngineError: no answer.
    """
    started = time.monotonic()
    version = await api.get_json("/version")
    seconds = time.monotonic() - started
    found = [judge_version(version, api.connection.server, seconds)]
    server = api.server_time()
    if server is not None:
        here = datetime.now(UTC)
        scope.skew = server - here
        # The header has whole seconds, and the answer was under way.
        found.append(judge_clock((here - server).total_seconds(), 1.0 + seconds))
    return found


def judge_version(version: dict[str, object], server: str, seconds: float) -> DoctorCheck:
    """Whether the version is supported.

    Args:
        version: the answer of ``/version``.
        server: URL of the API server.
        seconds: how long the answer took.
    """
    text = str(version.get("gitVersion") or "of unknown version")
    message = f"Kubernetes {text} at {server} answered in {seconds * 1000:.0f} ms"
    minor = "".join(char for char in str(version.get("minor") or "") if char.isdigit())
    if version.get("major") == "1" and minor and int(minor) < OLDEST:
        return warning("api-server", f"{message}; Kaiwo needs 1.{OLDEST} or later for its admission policies")
    return ok("api-server", message)


def judge_clock(ahead: float, error: float) -> DoctorCheck:
    """Whether the caller's clock agrees with the API server's.

    Args:
        ahead: seconds by which the caller's clock is ahead.
        error: seconds of measuring error.
    """
    off = max(0.0, abs(ahead) - error)
    if off < SKEW_WARNING:
        return ok("clock", f"this machine's clock agrees with the API server's to {off + error:.0f} s")
    message = (
        f"this machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the server's"
    )
    fix = "synchronize the clock, for example: sudo timedatectl set-ntp true"
    if off < SKEW_FAILED:
        return warning("clock", f"{message}; ages and durations are off by as much", fix)
    return failed("clock", f"{message}; certificates and tokens may be refused", fix)
