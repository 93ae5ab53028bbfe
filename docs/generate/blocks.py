"""The generated blocks, by name."""

from __future__ import annotations

import typing
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from docs.generate import commands, meanings, plugin_kit
from docs.generate.fields import FieldRow, of_config, of_custom_kind, of_kind
from docs.generate.metrics import metric_tables
from docs.generate.pages import StaleReferenceError, table
from docs.generate.plugins import plugin_blocks
from docs.generate.reasons import CONFIG, QUEUES, ROOT, WORKLOADS, Use, literal, uses
from docs.generate.records import record_tables
from kaiwo.api.status_words import TERMINAL, Status
from kaiwo.host.ending.preemption import CONDITION as PREEMPTION_DECIDED
from kaiwo.host.settings import describe
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.workload.diagnosis.next_commands import NEXT, next_command
from kaiwo.workload.ending.carry_out import CONDITION as TERMINATED_EARLY
from kaiwo.workload.ending.duration import CONDITION as PREEMPTABLE
from kaiwo.workload.ending.record import RULE_REASONS
from kaiwo.workload.monitoring.underuse import UNDERUSE
from kaiwo.workload.observe.pod_status import PROBLEMS
from kaiwo.workload.status import OWN_CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from kaiwo.plugin.registry import Plugins

_OF_OTHERS = {
    "AdmissionCheck", "BackoffLimitExceeded", "ClusterQueueStopped", "Deactivated",
    "DeactivatedDueToAdmissionCheck", "DeactivatedDueToRequeuingLimitExceeded", "Inadmissible",
    "LocalQueueStopped", "NodeLost", "PodsReadyTimeout", "Preempted", "PreemptedByScheduler",
}  # fmt: skip
"""Reasons that Kubernetes and Kueue give, explained in the text of the page."""

_EARLY = meanings.CANNOT_RUN
"""Reasons of workloads whose child does not exist, so that a corrected job needs no ``--replace``."""

_FIELDS = ("field", "takes", "default", "meaning")
_STATUS_MODULE = "kaiwo/workload/status.py"
_UNDERUSE_MODULE = "kaiwo/workload/monitoring/underuse.py"
_STATUSES: dict[str, str] = {
    "PENDING": "It waits for its download, its queue or a deletion, or it is scaled to zero.",
    "STARTING": "It was admitted, and no container runs yet.",
    "RUNNING": "A container runs. For a service: not everything is ready.",
    "READY": "A service that is fully ready.",
    "COMPLETE": "A job that succeeded.",
    "FAILED": "It ended and cannot recover.",
    "ERROR": "It cannot run or serve now; it continues by itself when the named cause is gone.",
    "TERMINATING": "Kaiwo is ending it: its pods have their grace period.",
    "TERMINATED": "Kaiwo has ended it, and its pods are gone. `status.termination` has the decision.",
}


@cache
def first_party() -> Plugins:
    """All plugins of this repository, and no other that happens to be installed."""
    folders = sorted(path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml"))
    return load(PluginSelection(names=tuple(folders), required=frozenset(folders)))


def blocks() -> dict[str, str]:
    """Text of every block by name.

    Raises:
        StaleReferenceError: the code says a word that has no meaning here, or no longer says one that has.
    """
    said = [use for use in uses(WORKLOADS) if use.call != "PlannedEvent"]
    _compare("workloads", _words_of_workloads(said), _known(), WORKLOADS)
    _check_statuses(said)
    _check_commands()
    config = {use.reason for use in uses(CONFIG)}
    _compare("KaiwoConfig", config, meanings.OF_CONFIG, CONFIG)
    queues = {use.reason for use in uses(QUEUES) if use.call in ("SyncProblem", "_report", "Condition")}
    _compare("KaiwoQueueConfig", queues, meanings.OF_QUEUES, QUEUES)
    return {
        **{f"reasons-{name}": _reasons(group) for name, group in meanings.GROUPS.items()},
        "statuses": _statuses(),
        "conditions": _conditions(said),
        "events": _events(),
        "config-reasons": table(("reason", "meaning"), _coded(meanings.OF_CONFIG)),
        "queue-reasons": table(("reason", "meaning"), _coded(meanings.OF_QUEUES)),
        "config-fields": _fields(of_config(first_party())),
        "queue-fields": _fields(of_custom_kind("KaiwoQueueConfig", first_party())),
        "settings": table(
            ("key in the file", "environment", "default", "meaning"),
            ((f"`{key}`", f"`{name}`", default, text) for key, name, default, text in describe()),
        ),
        **_workload_fields(),
        "client-records": record_tables(),
        **plugin_blocks(first_party()),
        "commands": commands.reference(),
        **metric_tables(),
        "plugin-kit": plugin_kit.reference(),
    }


def _fields(rows: Iterable[FieldRow]) -> str:
    return table(_FIELDS, ((f"`{row.path}`", row.type, row.default, row.meaning) for row in rows))


def _workload_fields() -> dict[str, str]:
    jobs, services = of_kind("KaiwoJob", first_party()), of_kind("KaiwoService", first_party())
    common = {row.path for row in jobs} & {row.path for row in services}
    storage = [row for row in jobs if row.path.startswith("storage")]
    below = len("storage.data.download.")
    downloads = [
        replace(row, path=row.path[below:])
        for row in storage
        if row.path[: below - 1] == "storage.data.download"
    ]
    caches = [row for row in storage if row.path.startswith("storage.huggingFace.preCacheRepos[")]
    volumes = [
        row for row in storage if row not in caches and not row.path.startswith("storage.data.download.")
    ]
    return {
        "common-fields": _fields(row for row in jobs if row.path in common and row not in storage),
        "storage-fields": _fields(volumes),
        "download-fields": _fields([row for row in downloads if row.path] + caches),
        "job-fields": _fields(row for row in jobs if row.path not in common),
        "service-fields": _fields(row for row in services if row.path not in common),
    }


def _statuses() -> str:
    words = [word for word in typing.get_args(Status) if word]
    _compare("statuses", words, _STATUSES, ("kaiwo/api/status_words.py",))
    rows = ((f"`{word}`", "yes" if word in TERMINAL else "no", _STATUSES[word]) for word in words)
    return table(("status", "ended for good", "meaning"), rows)


def _reasons(group: meanings.Meanings) -> str:
    rows = (
        (f"`{reason}`", ", ".join(meaning.statuses.split()), meaning.text, f"`{_next_command(reason)}`")
        for reason, meaning in group.items()
    )
    return table(("reason", "status", "meaning and what to do", "next command"), rows)


def _next_command(code: str) -> str:
    """The next command of a code as `kaiwo why` prints it, with words in capitals for names."""
    return next_command(
        code, kind="KaiwoJob", name="NAME", namespace="NAMESPACE", queue="QUEUE", created=code not in _EARLY
    )


def _computed_reasons() -> Mapping[tuple[str, str], Collection[str]]:
    """Reasons of conditions that are no literal words where the condition is made, by type and value."""
    unknown = literal(_UNDERUSE_MODULE, "_WORDS")
    if not isinstance(unknown, dict):
        raise StaleReferenceError(f"{_UNDERUSE_MODULE}: _WORDS is no table of reasons any more")
    return {
        (PREEMPTABLE, "True"): [RULE_REASONS["Duration"]],
        (TERMINATED_EARLY, "True"): RULE_REASONS.values(),
        (UNDERUSE, "Unknown"): unknown,
    }


def _conditions(said: Sequence[Use]) -> str:
    _compare("conditions", OWN_CONDITIONS, meanings.CONDITIONS, (_STATUS_MODULE,))
    computed = _computed_reasons()
    rows = []
    for name in OWN_CONDITIONS:
        here = [use for use in said if use.condition == name]
        words = []
        for truth in ("True", "False", "Unknown"):
            reasons = sorted(
                {use.reason for use in here if truth in use.truth} | {*computed.get((name, truth), ())}
            )
            if reasons:
                words.append(f"{truth}: {', '.join(f'`{reason}`' for reason in reasons)}")
        text = meanings.CONDITIONS[name]
        if name == "Admitted":
            words = ["True or False: Kueue's own reason", *words]
        if not words:
            raise StaleReferenceError(f"conditions: no place in the code gives {name} a reason")
        rows.append((f"`{name}`", text, ". ".join(words)))
    rows_of_words = ((f"`{word}`", text) for word, text in meanings.ON_CONDITIONS.items())
    return (
        f"{table(('condition', 'meaning', 'reasons'), rows)}\n\n{table(('reason', 'meaning'), rows_of_words)}"
    )


def _events() -> str:
    transitions = literal(_STATUS_MODULE, "_EVENTS")
    if not isinstance(transitions, dict):
        raise StaleReferenceError(f"{_STATUS_MODULE}: _EVENTS is no table of events any more")
    rows = [(f"`{name}`", kind, f"The status became {word}.") for word, (kind, name) in transitions.items()]
    others = {use.reason: "".join(use.statuses) for use in uses(WORKLOADS) if use.call == "PlannedEvent"}
    _compare("events", others, meanings.EVENTS, WORKLOADS)
    rows += [(f"`{name}`", kind, meanings.EVENTS[name]) for name, kind in others.items()]
    rows.append((f"`{RULE_REASONS['Duration']}`", "Warning", "`duration` has passed."))
    rows.append((f"`{PREEMPTION_DECIDED}`", "Normal", "Others are ended for the workload, or would be."))
    rows.append((f"a reason of `{UNDERUSE}`", "Warning if True, else Normal", "The condition changed."))
    rows.append(("a reason of pods, or of ERROR", "Warning", "A new problem within the same status."))
    return table(("event", "type", "when"), rows)


def _coded(words: dict[str, str]) -> Iterable[tuple[str, str]]:
    return ((f"`{word}`", text) for word, text in words.items())


def _known() -> dict[str, object]:
    known: dict[str, object] = dict(meanings.ON_CONDITIONS)
    for group in meanings.GROUPS.values():
        known.update(group)
    return known


def _words_of_workloads(said: Iterable[Use]) -> set[str]:
    passing = literal(_STATUS_MODULE, "_PASSING")
    if not isinstance(passing, dict):
        raise StaleReferenceError(f"{_STATUS_MODULE}: _PASSING is no table of reasons any more")
    return {use.reason for use in said} | {reason for reason, _ in passing.values()} | PROBLEMS


def _compare(what: str, said: Collection[str], known: Collection[str], places: Sequence[str]) -> None:
    """Every word that the code says has a meaning, and every word with a meaning stands in the code."""
    if unknown := sorted(set(said) - set(known)):
        raise StaleReferenceError(
            f"{what}: the code says {', '.join(unknown)}, which docs/generate/meanings.py does not explain; "
            "add it there and run python -m docs.generate"
        )
    text = "".join(source.read_text(encoding="utf-8") for place in places for source in _sources(place))
    gone = sorted(word for word in set(known) - set(said) if f'"{word}"' not in text)
    if gone:
        raise StaleReferenceError(
            f"{what}: the code does not say {', '.join(gone)} any more; take it out of "
            "docs/generate and run python -m docs.generate"
        )


def _check_commands() -> None:
    """Every code with a next command of its own is explained."""
    if unknown := sorted(set(NEXT) - set(_known()) - _OF_OTHERS):
        raise StaleReferenceError(f"next_commands.py: {', '.join(unknown)} have no meaning")


def _check_statuses(said: Iterable[Use]) -> None:
    listed = {
        reason: meaning.statuses.split()
        for group in meanings.GROUPS.values()
        for reason, meaning in group.items()
    }
    for use in said:
        lacking = use.statuses - set(listed.get(use.reason, use.statuses))
        if lacking:
            raise StaleReferenceError(
                f"{use.source}: {use.reason} stands with {', '.join(sorted(lacking))}, which its statuses in "
                "docs/generate/meanings.py do not list"
            )


def _sources(place: str) -> list[Path]:
    path = ROOT / place
    return [path] if path.is_file() else sorted(path.rglob("*.py"))
