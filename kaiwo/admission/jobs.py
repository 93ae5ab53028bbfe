"""Jobs that are to be adopted, and other objects of kinds that backends adopt: labelled, queued, guarded.

Nothing is created here, also for what is no dry run: the adoption controller does that for labelled objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kaiwo.admission.answer import FORBIDDEN, Answer
from kaiwo.admission.names import MUTATE_JOBS, VALIDATE_JOBS
from kaiwo.api.workload import GROUP
from kaiwo.workload.adoption import gpus_of, is_managed
from kaiwo.workload.gpus.resource_keys import is_gpu
from kaiwo.workload.json_access import lenient_map, lenient_maps, lenient_text, name_of, value_at
from kaiwo.workload.labels import MANAGED, MANAGED_VALUE, REQUESTED_BY
from kaiwo.workload.metadata import controller_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import TypeAlias

    from pydantic import BaseModel

    from kaiwo.admission.request import Request
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.adoption import Adoption
    from kaiwo.workload.model import Registry

    Reviewer: TypeAlias = Callable[[Request], Answer]

_ALLOWED: Final = Answer(allowed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRules:
    """What the reviews of Jobs depend on.

    Attributes:
        registry: loaded declarations: backends that adopt, GPU vendors, the queue system.
        enforcing: whether every Job that requests GPUs gets the label.
        default_queue: returns the name of the default queue in force.
        excluded: namespaces in which nothing is adopted: kube-system and the operator's own.
        operator: user name of the operator. Its own requests pass as they are.
        settings: returns the settings of plugins by their names.
    """

    registry: Registry
    enforcing: bool
    default_queue: Callable[[], str]
    excluded: Collection[str]
    operator: str
    settings: Callable[[], Mapping[str, BaseModel]] = dict

    def adoption(self, request: Request) -> Adoption | None:
        """How objects of the kind of a request are adopted; None where it is not for these reviews."""
        if request.object is None or request.subresource or request.namespace in self.excluded:
            return None
        if request.user.username == self.operator:
            return None
        for backend in self.registry.backends:
            if (backend.child.group, backend.child.kind) == (request.group, request.kind) and backend.built:
                return backend.adoption
        return None

    def may_change_gpus(self, user: str) -> bool:
        """Whether a user may change the GPU requests of managed objects: the queue system's controller."""
        queue = self.registry.queue
        if queue is None or queue.writers is None:
            return False
        return user in queue.writers(self.settings().get(queue.plugin))

    def requests_gpus(self, obj: Object, adoption: Adoption) -> bool:
        """Whether a pod of an object requests GPUs of any loaded vendor."""
        spec = lenient_map(value_at(obj, (*adoption.pod_template, "spec")))
        return bool(gpus_of(spec, self.registry.vendors))


def job_reviewers(rules: JobRules) -> dict[str, Reviewer]:
    """The reviewers of Jobs by path; both are for CREATE and UPDATE.

    Args:
        rules: what they depend on.
    """
    return {MUTATE_JOBS: JobMutator(rules), VALIDATE_JOBS: JobValidator(rules)}


class JobMutator:
    """Labels GPU Jobs in enforcing mode, and queues, suspends and annotates labelled ones."""

    def __init__(self, rules: JobRules) -> None:
        """Keep the rules."""
        self._rules = rules

    def __call__(self, request: Request) -> Answer:
        """The patch that an object gets; a dry run gets the same."""
        adoption, obj = self._rules.adoption(request), request.object
        if adoption is None or obj is None:
            return _ALLOWED
        if request.operation == "UPDATE":
            return Answer(allowed=True, patch=tuple(_kept_user(request)))
        if request.operation != "CREATE" or controller_of(obj) is not None:
            return _ALLOWED
        if request.unreadable and (self._rules.enforcing or is_managed(_labels(obj))):
            text = f"{request.unreadable}; its GPU requests cannot be read. Make the {request.kind} smaller"
            return Answer(allowed=False, message=text)
        return Answer(allowed=True, patch=tuple(self._created(request, obj, adoption)))

    def _created(self, request: Request, obj: Object, adoption: Adoption) -> list[Mapping[str, Any]]:
        rules, before = self._rules, _labels(obj)
        managed = is_managed(before)
        labels: dict[str, str] = {}
        if not managed and rules.enforcing and rules.requests_gpus(obj, adoption):
            labels[MANAGED], managed = MANAGED_VALUE, True
        user = request.user.username
        forged = REQUESTED_BY in _annotations(obj)
        annotations = {REQUESTED_BY: user} if user and (managed or forged) else {}
        queue = rules.registry.queue
        suspend: list[Mapping[str, Any]] = []
        if managed and queue is not None and queue.queue_label and adoption.held_by:
            if not before.get(queue.queue_label) and (default := rules.default_queue()):
                labels[queue.queue_label] = default
            queued = bool({**before, **labels}.get(queue.queue_label))
            if queued and value_at(obj, adoption.held_by) is not True:
                suspend = _set(obj, adoption.held_by, value=True)
        return [
            *_merged(obj, "labels", labels),
            *_merged(obj, "annotations", annotations),
            *suspend,
        ]


class JobValidator:
    """Keeps the GPU requests of managed Jobs as they are, and in enforcing mode their label."""

    def __init__(self, rules: JobRules) -> None:
        """Keep the rules."""
        self._rules = rules

    def __call__(self, request: Request) -> Answer:
        """Whether a change of a managed object is allowed."""
        adoption, new, old = self._rules.adoption(request), request.object, request.old_object
        if adoption is None or new is None or old is None or request.operation != "UPDATE":
            return _ALLOWED
        if lenient_map(new.get("metadata")).get("deletionTimestamp") or not _is_kept(old):
            return _ALLOWED
        what = f"{request.kind} {request.name or name_of(new)}"
        if request.unreadable:
            return Answer(allowed=False, message=f"{request.unreadable}; its GPU requests cannot be read")
        changed = self._changed(old, new, adoption)
        if changed and not self._rules.may_change_gpus(request.user.username):
            text = (
                f"{changed}: GPU requests of {what} cannot change, because Kaiwo manages it. "
                "Delete it and create it again"
            )
            return Answer(allowed=False, message=text, code=FORBIDDEN)
        if is_managed(_labels(old)) and not is_managed(_labels(new)):
            return self._unlabelled(what, new, adoption)
        return _ALLOWED

    def _unlabelled(self, what: str, new: Object, adoption: Adoption) -> Answer:
        field = f"metadata.labels[{MANAGED}]"
        if self._rules.enforcing and self._rules.requests_gpus(new, adoption):
            text = (
                f"{field}: cannot be removed from {what}: GPU workloads are managed by Kaiwo in this cluster"
            )
            return Answer(allowed=False, message=text, code=FORBIDDEN)
        if not _is_adopted(new):
            return _ALLOWED
        owner = lenient_map(controller_of(new)).get("kind")
        text = f"{field}: was removed; {what} stays with its {owner}, and is deleted with it"
        return Answer(allowed=True, warnings=(text,))

    def _changed(self, old: Object, new: Object, adoption: Adoption) -> str:
        """The path of the first container whose GPU requests differ, empty where none do."""
        path = (*adoption.pod_template, "spec")
        before, after = (lenient_map(value_at(obj, path)) for obj in (old, new))
        for name in ("initContainers", "containers"):
            was, becomes = self._requests(before, name), self._requests(after, name)
            for container in dict.fromkeys((*was, *becomes)):
                if was.get(container, {}) != becomes.get(container, {}):
                    return f"{'.'.join(path)}.{name}[{container}].resources"
        return ""

    def _requests(self, spec: Object, name: str) -> dict[str, Object]:
        """Of each container its GPU keys with what is written there, requests and limits apart."""
        keys = tuple(key for vendor in self._rules.registry.vendors for key in vendor.resource_keys)
        found: dict[str, Object] = {}
        for position, container in enumerate(lenient_maps(spec.get(name))):
            resources = lenient_map(container.get("resources"))
            found[lenient_text(container.get("name")) or str(position)] = {
                f"{part}.{key}": str(value)
                for part in ("requests", "limits")
                for key, value in lenient_map(resources.get(part)).items()
                if is_gpu(key, keys)
            }
        return found


def _kept_user(request: Request) -> list[Mapping[str, Any]]:
    """The patch by which the requesting user stays; who adds the label counts as having requested."""
    new, old = request.object or {}, request.old_object or {}
    before, after = (_annotations(obj).get(REQUESTED_BY) for obj in (old, new))
    asks = is_managed(_labels(new)) and not is_managed(_labels(old)) and controller_of(new) is None
    expected = request.user.username if before is None and asks else before
    return [] if after == expected else _restored(new, expected)


def _restored(obj: Object, value: str | None) -> list[Mapping[str, Any]]:
    if value is not None:
        return _merged(obj, "annotations", {REQUESTED_BY: value})
    return [{"op": "remove", "path": f"/metadata/annotations/{_escaped(REQUESTED_BY)}"}]


def _labels(obj: Object) -> dict[str, Any]:
    return lenient_map(lenient_map(obj.get("metadata")).get("labels"))


def _annotations(obj: Object) -> dict[str, Any]:
    return lenient_map(lenient_map(obj.get("metadata")).get("annotations"))


def _is_adopted(obj: Object) -> bool:
    """Whether the controller of an object is a workload of Kaiwo's."""
    owner = controller_of(obj)
    return owner is not None and lenient_text(owner.get("apiVersion")).startswith(f"{GROUP}/")


def _is_kept(obj: Object) -> bool:
    """Whether an object is managed, or was when it was adopted."""
    return _is_adopted(obj) or (is_managed(_labels(obj)) and controller_of(obj) is None)


def _merged(obj: Object, name: str, values: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """The operations that set labels or annotations; none for those that are so already."""
    metadata = lenient_map(obj.get("metadata"))
    before = metadata.get(name)
    if not isinstance(before, dict):
        return [{"op": "add", "path": f"/metadata/{name}", "value": dict(values)}] if values else []
    return [
        {"op": "add", "path": f"/metadata/{name}/{_escaped(key)}", "value": value}
        for key, value in values.items()
        if before.get(key) != value
    ]


def _set(obj: Object, path: tuple[str, ...], *, value: object) -> list[Mapping[str, Any]]:
    """The operation that sets the value at a path; none where what is above it is no object."""
    if not isinstance(value_at(obj, path[:-1]), dict):
        return []
    return [{"op": "add", "path": "/" + "/".join(map(_escaped, path)), "value": value}]


def _escaped(key: str) -> str:
    """A key as a JSON pointer writes it (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
