"""Creates, restores and deletes secondary resources: objects beside the child as a Deployment's Service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.diff import contains, would_change
from kaiwo.workload import plugin_calls
from kaiwo.workload.applied_record import digest
from kaiwo.workload.json_access import is_deleting, lenient_map
from kaiwo.workload.labels import RESOLVED
from kaiwo.workload.metadata import conflict, controller_of, is_ours, owned
from kaiwo.workload.model import Apply, Delete, Patch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.facts import Blocked
    from kaiwo.plugin.rendering import Rendered
    from kaiwo.workload.model import Facts, PlanContext, Write


def with_hash(obj: Object, workload: Workload) -> Object:
    """A rendered secondary resource with ownership, and with a hash of the whole.

    By the hash a field which is no longer rendered is noticed.
    """
    metadata = obj["metadata"]
    annotations = {**metadata.get("annotations", {}), RESOLVED: digest(obj)}
    return {**obj, "metadata": owned({**metadata, "annotations": annotations}, workload)}


def live(backend: Backend, workload: Workload, facts: Facts) -> Mapping[Resource, Object]:
    """The live objects under the names of the backend's secondary resources, ours or not."""
    found = {kind: facts.auxiliaries.get((kind, workload.name)) for kind in backend.secondary}
    return {kind: obj for kind, obj in found.items() if obj is not None}


def taken(case: PlanContext, rendered: Rendered) -> Blocked | None:
    """Why a secondary resource cannot be made: somebody else's object has its name."""
    present = live(case.backend, case.workload, case.facts)
    for kind in rendered.secondary:
        if kind in present and not is_ours(present[kind], case.workload, case.facts.made):
            return conflict(present[kind], kind.kind, case.workload)
    return None


def writes(case: PlanContext, rendered: Rendered) -> list[Write]:
    """The writes that make the secondary resources as rendered; nothing of somebody else's is touched."""
    present = live(case.backend, case.workload, case.facts)
    steps: list[Write] = []
    for kind, obj in rendered.secondary.items():
        there = present.get(kind)
        if there is None or not (
            is_deleting(there) or contains(there, obj) or not is_ours(there, case.workload, case.facts.made)
        ):
            steps.append(Apply(kind, obj))
    for kind, there in present.items():
        if (
            kind in rendered.secondary
            or is_deleting(there)
            or not is_ours(there, case.workload, case.facts.made)
        ):
            continue
        uid = str(lenient_map(there.get("metadata")).get("uid", ""))
        steps.append(Delete(kind, case.workload.namespace, case.workload.name, uid))
    return steps


def tuned(case: PlanContext) -> list[Write]:
    """Patches of what the child's own controller made; nothing while the API server refuses them."""
    if not case.backend.secondary or case.facts.rejection is not None:
        return []
    child = lenient_map(lenient_map(case.facts.live).get("metadata")).get("uid")
    made = {
        kind: obj
        for kind, obj in live(case.backend, case.workload, case.facts).items()
        if not is_deleting(obj) and (controller_of(obj) or {}).get("uid") == child
    }
    steps: list[Write] = []
    for kind, body in plugin_calls.tuned(case.backend, case.workload, made).items():
        if kind in made and would_change(made[kind], body):
            uid = str(lenient_map(made[kind].get("metadata")).get("uid", ""))
            steps.append(Patch(kind, case.workload.namespace, case.workload.name, uid, body))
    return steps
