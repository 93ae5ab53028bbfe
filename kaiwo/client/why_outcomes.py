"""What backend, queue system and diagnosis rules make of a workload's facts. Pure, and it never raises."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.api.errors import InvalidWorkload
from kaiwo.api.workload import Workload
from kaiwo.client.created_kinds import possible_backends
from kaiwo.client.why_facts import queue_facts
from kaiwo.engine.cached_object import managers_of
from kaiwo.plugin.observation import Observation
from kaiwo.plugin.settings import read_settings
from kaiwo.workload import plugin_calls
from kaiwo.workload.diagnosis.evidence import newest_warning
from kaiwo.workload.diagnosis.pods import downloads
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.field_owners import field_owners
from kaiwo.workload.json_access import lenient_map, lenient_text, value_at
from kaiwo.workload.observe import pod_status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.diagnosis import QueueExplainer
    from kaiwo.plugin.observation import Outcome
    from kaiwo.plugin.queues import Admission
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.diagnosis.model import DiagnosisFacts

_UNREADABLE = (PluginError, SpecError, InvalidWorkload)


def with_outcomes(
    facts: DiagnosisFacts,
    plugins: Plugins,
    queue: QueueExplainer | None,
    objects: Mapping[Resource, tuple[Object, ...]],
) -> DiagnosisFacts:
    """The facts with the outcomes that the operator would write now, by the same functions.

    Args:
        facts: what was read.
        plugins: loaded plugins.
        queue: how the queue system explains where a child is.
        objects: what it explains from, by kind.
    """
    with suppress(InvalidWorkload):
        workload = Workload.from_live(facts.workload)
        facts = replace(facts, download=_download(workload, facts, queue, objects))
        if facts.child is not None:
            backends = possible_backends(facts.workload, plugins)
            settings = plugin_settings(facts, plugins)
            seen = Observation(
                workload=workload,
                child=facts.child,
                pods=pod_status.since([pod for pod in facts.pods if not downloads(pod)], facts.child),
                admission=_admission(facts.child, facts, queue, objects),
                queued=facts.queue is not None,
                now=facts.now,
                secondary=_secondary(facts, backends),
                warning_event=newest_warning(facts, facts.child),
            )
            return replace(
                facts,
                outcome=_outcome(seen, backends, settings),
                findings=tuple(plugin_calls.findings(plugins.diagnosis_rules, seen, settings)),
            )
    return facts


def plugin_settings(facts: DiagnosisFacts, plugins: Plugins) -> Mapping[str, BaseModel]:
    """The settings in the KaiwoConfig that was read, by name of the plugin."""
    sections = lenient_map(lenient_map(lenient_map(facts.config).get("spec")).get("plugins"))
    return read_settings(plugins.settings_models(), sections)[0]


def _admission(
    child: Object,
    facts: DiagnosisFacts,
    queue: QueueExplainer | None,
    objects: Mapping[Resource, tuple[Object, ...]],
) -> Admission | None:
    if queue is not None:
        with suppress(Exception):  # a plugin's code
            return queue.admission(child, queue_facts(facts, objects))
    return None


def _outcome(
    seen: Observation, backends: Sequence[Backend], settings: Mapping[str, BaseModel]
) -> Outcome | None:
    for backend in backends:
        if backend.child.kind == seen.child.get("kind"):
            with suppress(*_UNREADABLE):
                return plugin_calls.observed(
                    backend,
                    replace(seen, settings=settings.get(backend.plugin), owners=_owners(seen.child, backend)),
                )
    return None


def _owners(child: Object, backend: Backend) -> dict[tuple[str, ...], str]:
    """Who owns the fields of the child whose owner matters, as the operator's cache has it."""
    return field_owners(
        backend.owned_paths, lambda path: managers_of(child, path), lambda *path: value_at(child, path)
    )


def _secondary(facts: DiagnosisFacts, backends: Sequence[Backend]) -> dict[Resource, Object]:
    return {
        kind: obj
        for backend in backends
        for kind in backend.secondary
        for obj in facts.objects
        if obj.get("kind") == kind.kind
    }


def _download(
    workload: Workload,
    facts: DiagnosisFacts,
    queue: QueueExplainer | None,
    objects: Mapping[Resource, tuple[Object, ...]],
) -> Outcome | None:
    """The outcome of the download Job, None without one."""
    jobs = [obj for obj in facts.objects if downloads(obj) and obj.get("kind") == "Job"]
    if not jobs:
        return None
    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.workload.download import state
    from kaiwo.workload.model import Facts

    pods = tuple(pod for pod in facts.pods if downloads(pod))
    warned = next((pod for pod in pods if newest_warning(facts, pod)), None)
    known = Facts(
        now=facts.now,
        config=ResolvedConfig.defaults(),
        download_pods=pods,
        warning_event=newest_warning(facts, warned) if warned else None,
        warning_event_uid=lenient_text(lenient_map(warned.get("metadata")).get("uid")) if warned else "",
    )
    # With a child, the objects of the queue system are that one's.
    admission = _admission(jobs[0], facts, queue, objects) if facts.child is None else None
    with suppress(*_UNREADABLE):
        return state.observe(workload, jobs[0], known, admission)
    return None
