"""The page of ``kaiwo status``: state first, then what it consists of, then what happened."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import duration as spans
from kaiwo.cli import kit
from kaiwo.cli.kit import Column
from kaiwo.cli.output import workload_times
from kaiwo.cli.output.layout import width_of, wrap
from kaiwo.cli.output.table import terminal_width, write_table
from kaiwo.cli.terminal import clean, styled_status
from kaiwo.client import workload_fields
from kaiwo.client.kinds import SHORT
from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.diagnosis.evidence import event_time
from kaiwo.workload.monitoring.advice import gpu_use, right_sizing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from kaiwo.cli.workload_details import WorkloadDetails
    from kaiwo.engine.resource import Object

_TITLES = 11
"""Columns of the titles in the head of the page."""

_MAX_EVENTS = 20
_MAX_PODS = 50


def write_details(workload: Object, found: WorkloadDetails, now: datetime) -> None:
    """Write the page to standard output.

    Args:
        workload: the live object.
        found: what was created for it.
        now: what ages are counted to.
    """
    _head(workload, now)
    _conditions(workload, now)
    _section("Objects", found.objects, _object_columns(now))
    _section("Pods", found.pods[:_MAX_PODS], _pod_columns(now))
    if len(found.pods) > _MAX_PODS:
        click.echo(f"  and {len(found.pods) - _MAX_PODS} more pods")
    _section("Events", found.events[-_MAX_EVENTS:], _event_columns(now))
    for text in found.missing:
        kit.say(text)


def _head(workload: Object, now: datetime) -> None:
    metadata, status = workload["metadata"], workload_fields.status(workload)
    word, reason = workload_fields.word(workload), workload_fields.reason(workload)
    shown = styled_status(word) if word else "not yet observed by an operator; is one running? (kaiwo doctor)"
    rows: list[tuple[str, str]] = [
        ("Name", f"{SHORT[workload['kind']]}/{metadata['name']}"),
        ("Namespace", metadata["namespace"]),
        ("Status", f"{shown} ({reason})" if reason and reason.upper() != word else shown),
        ("Message", workload_fields.message(workload)),
        ("User", workload_fields.user(workload)),
        ("Queue", workload_fields.queue(workload)),
        ("GPUs", _gpus(workload)),
        ("GPU use", gpu_use(status)),
        ("Advice", right_sizing(status, now)),
        ("Created", _time(metadata.get("creationTimestamp"), now)),
        ("Started", _time(status.get("startTime"), now)),
        ("Completed", _time(status.get("completionTime"), now)),
        ("Duration", workload_times.duration(workload, now)),
    ]
    observed = status.get("observedGeneration")
    if isinstance(observed, int) and observed < metadata.get("generation", 0):
        rows.append(("Note", "the last change is not yet observed by the operator"))
    for title, value in rows:
        if value:
            _line(title, value if title == "Status" else clean(value))


def _line(title: str, text: str) -> None:
    """One line of the head; on a terminal a long text goes on below its beginning."""
    room = terminal_width() - _TITLES if sys.stdout.isatty() else 0
    parts = wrap(text, room) if room > _TITLES and width_of(click.unstyle(text)) > room else [text]
    click.echo(f"{title + ':':<{_TITLES}}" + f"\n{'':<{_TITLES}}".join(parts))


def _gpus(workload: Object) -> str:
    total = workload_fields.gpus(workload)
    allocation = workload_fields.status(workload).get("allocation")
    if total == "0" or not isinstance(allocation, dict):
        return total
    key = allocation.get("resourceKey")
    pods, each = allocation.get("pods", allocation.get("replicas")), allocation.get("gpusPerReplica")
    split = f"{pods} x {each}" if isinstance(pods, int) and isinstance(each, int) else ""
    detail = " ".join(part for part in (split, key if isinstance(key, str) else "") if part)
    return f"{total} ({detail})" if detail else total


def _time(text: object, now: datetime) -> str:
    return f"{text} ({spans.since(text, now)} ago)" if parse_time(text) else ""


def _section(title: str, rows: Sequence[Object], columns: Sequence[Column]) -> None:
    if rows:
        click.echo(f"\n{title}:")
        write_table(columns, rows, indent="  ")


def _conditions(workload: Object, now: datetime) -> None:
    conditions = [c for c in workload_fields.status(workload).get("conditions") or () if isinstance(c, dict)]
    columns = [
        Column("TYPE", _at("type")),
        Column("STATUS", _at("status")),
        Column("REASON", _reason),
        Column("AGE", lambda c: spans.since(c.get("lastTransitionTime"), now)),
        Column("MESSAGE", _at("message")),
    ]
    _section("Conditions", conditions, columns)


def _object_columns(now: datetime) -> list[Column]:
    return [
        Column("KIND", _at("kind")),
        Column("NAME", _at("metadata", "name")),
        Column("STATE", _object_state, state=True),
        Column("AGE", lambda obj: workload_times.age(obj, now)),
    ]


def _object_state(obj: Object) -> str:
    """The state of an object of any kind: its phase, else its true conditions, else its counts of pods."""
    status = obj.get("status")
    if not isinstance(status, dict):
        return ""
    for key in ("phase", "jobStatus", "jobDeploymentStatus", "state"):
        if isinstance(status.get(key), str) and status[key]:
            return str(status[key])
    if (obj.get("spec") or {}).get("suspend"):
        return "Suspended"
    true = [
        str(condition.get("type"))
        for condition in status.get("conditions") or ()
        if isinstance(condition, dict) and condition.get("status") == "True"
    ]
    if true:
        return ",".join(true)
    counts = [
        f"{status[key]} {key}" for key in ("active", "ready", "readyReplicas", "failed") if status.get(key)
    ]
    return ", ".join(counts)


def _pod_columns(now: datetime) -> list[Column]:
    return [
        Column("NAME", _at("metadata", "name")),
        Column("STATE", pod_state, state=True),
        Column("READY", _ready),
        Column("RESTARTS", lambda pod: str(sum(c.get("restartCount", 0) for c in _containers(pod)))),
        Column("NODE", _at("spec", "nodeName")),
        Column("AGE", lambda pod: workload_times.age(pod, now)),
        Column("MESSAGE", _pod_message),
    ]


def pod_state(pod: Object) -> str:
    """What kubectl shows as a pod's status: the containers' trouble before the phase."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = pod.get("status") or {}
    for container in _containers(pod):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason") not in (None, "", "ContainerCreating", "PodInitializing"):
            return workload_fields.reason_word(waiting["reason"]) or "Waiting"
        if ended and ended.get("exitCode"):
            reason = workload_fields.reason_word(ended.get("reason")) or "Error"
            return f"{reason} (exit code {ended['exitCode']})"
    return workload_fields.reason_word(status.get("reason")) or str(status.get("phase") or "")


def _pod_message(pod: Object) -> str:
    for container in _containers(pod):
        state = container.get("state") or {}
        for part in ("waiting", "terminated"):
            message = (state.get(part) or {}).get("message")
            if message:
                return str(message)
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or "")
    return str(status.get("message") or "")


def _ready(pod: Object) -> str:
    running = (pod.get("status") or {}).get("containerStatuses") or ()
    total = len((pod.get("spec") or {}).get("containers") or ())
    return f"{sum(1 for container in running if container.get('ready'))}/{total}"


def _containers(pod: Object) -> list[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _event_columns(now: datetime) -> list[Column]:
    def subject(event: Object) -> str:
        about = event.get("involvedObject") or {}
        return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"

    return [
        Column("AGE", lambda event: spans.since(event_time(event), now)),
        Column("TYPE", _at("type"), state=True),
        Column("REASON", _reason),
        Column("OBJECT", subject),
        Column("MESSAGE", _at("message")),
    ]


def _reason(obj: Object) -> str:
    return workload_fields.reason_word(obj.get("reason"))


def _at(*path: str) -> Callable[[Object], str]:
    """The text at a path, empty when there is none."""

    def value(obj: Object) -> str:
        found: Any = obj
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return "" if found is None else str(found)

    return value
