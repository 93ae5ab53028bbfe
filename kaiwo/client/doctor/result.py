"""What the checks of a cluster return."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from kaiwo.client.record import Record

if TYPE_CHECKING:
    from kaiwo.engine.errors import Forbidden
    from kaiwo.plugin.registry import Plugins

_DENIED = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)

CheckState = Literal["ok", "warning", "failed", "unknown"]


class DoctorCheck(Record, frozen=True):
    """The result of one check.

    Attributes:
        name: what was checked, for example ``storage-classes``; stable.
        state: ``ok``; ``warning``: works, and may surprise; ``failed``: something does not work;
            ``unknown``: the caller may not read what the check needs, or no answer came in time.
        message: one line with the facts.
        fix: the command or the step that helps; empty where there is nothing to do.
    """

    name: str
    state: CheckState
    message: str
    fix: str = ""


class DoctorReport(Record, frozen=True):
    """The results of all checks.

    Attributes:
        checks: in a fixed order; a check may have several results.
        failed: how many of them are ``failed``.
    """

    checks: tuple[DoctorCheck, ...]
    failed: int


class DoctorScope:
    """What the checks are made for.

    Attributes:
        plugins: the loaded plugins.
        namespace: where the caller runs workloads.
        operator: name of the operator's Deployment and Lease.
        installation: the usual namespace of the operator, for callers that may not list all Deployments.
        skew: by how much the caller's clock is behind the API server's.
    """

    def __init__(self, plugins: Plugins, namespace: str, *, operator: str, installation: str) -> None:
        self.plugins = plugins
        self.namespace = namespace
        self.operator = operator
        self.installation = installation
        self.skew = timedelta()

    def now(self) -> datetime:
        """The time by the API server's clock."""
        return datetime.now(UTC) + self.skew


def ok(name: str, message: str) -> DoctorCheck:
    """A check without anything to do."""
    return DoctorCheck(name=name, state="ok", message=message)


def warning(name: str, message: str, fix: str = "") -> DoctorCheck:
    """A check that found what works and may surprise."""
    return DoctorCheck(name=name, state="warning", message=message, fix=fix)


def failed(name: str, message: str, fix: str) -> DoctorCheck:
    """A check that found what does not work."""
    return DoctorCheck(name=name, state="failed", message=message, fix=fix)


def unknown(name: str, message: str, fix: str = "") -> DoctorCheck:
    """A check that could not be made."""
    return DoctorCheck(name=name, state="unknown", message=message, fix=fix)


def not_allowed(error: Forbidden) -> str:
    """The right that is missing, in few words; the API server's own where it writes others."""
    match = _DENIED.search(str(error))
    if match is None:
        return str(error)
    resource = match["resource"] + (f".{match['group']}" if match["group"] else "")
    where = f"in namespace {match['namespace']}" if match["namespace"] else "in the cluster"
    return f"not allowed to {match['verb']} {resource} {where}"


def some(texts: list[str], limit: int = 3) -> str:
    """The first of several texts, and how many more there are."""
    rest = len(texts) - limit
    return "; ".join(texts[:limit]) + (f"; and {rest} more" if rest > 0 else "")
