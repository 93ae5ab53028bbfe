"""A KaiwoJob or KaiwoService as the pure core sees it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from kaiwo.api.errors import InvalidWorkload, Problem, WorkloadTooLarge, not_a_string, shorten
from kaiwo.api.spec_size import size_problem
from kaiwo.api.status import WorkloadStatus
from kaiwo.api.validation_errors import explain
from kaiwo.api.workload_spec import CommonSpec, JobSpec, ServiceSpec
from kaiwo.engine.timestamps import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.resource import Object

GROUP = "kaiwo.silogen.ai"
API_VERSION = "kaiwo.silogen.ai/v1alpha1"

SPECS: Final[Mapping[str, type[CommonSpec]]] = MappingProxyType(
    {"KaiwoJob": JobSpec, "KaiwoService": ServiceSpec}
)

NEVER = datetime.fromtimestamp(0, UTC)
"""Creation time of an object that was not created yet, as of a file."""

_IDENTITY = ("name", "namespace", "uid", "generation", "deletionTimestamp", "resourceVersion")
"""The metadata that a status needs; it is read also where the rest of the object is invalid."""

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Workload:
    """A frozen view of one object; the mappings in it are the object's own and must not be changed.

    Attributes:
        kind: ``KaiwoJob`` or ``KaiwoService``.
        name: its name.
        namespace: its namespace, empty if the object carries none.
        uid: its uid, empty before the API server gave one.
        generation: ``metadata.generation``, 0 before the API server gave one.
        labels: its own labels.
        annotations: its own annotations.
        deleting: whether its deletion was requested.
        created: creation time, UTC; :data:`NEVER` before creation.
        spec: the common fields, with defaults.
        blocks: contributed top-level fields of ``spec`` that are present (``job``, ``rayJob``,
            ``serveConfigV2``).
        given: JSON names of all fields present in ``spec``. The API server's defaults count as present:
            after admission ``gpus``, ``gpuVendor``, ``replicas``, ``ray`` and ``dangerous`` always are.
        status: what was last reported about it.
        resource_version: version of the object that was read, empty for a file.
        error: why its spec cannot be read, empty when it can; otherwise `spec` has nothing but defaults.
        error_reason: the reason for that in the status, empty when the spec can be read.
    """

    kind: WorkloadKind
    name: str
    namespace: str
    uid: str
    generation: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    deleting: bool
    created: datetime
    spec: CommonSpec
    blocks: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    given: frozenset[str] = frozenset()
    status: WorkloadStatus = field(default_factory=WorkloadStatus)
    resource_version: str = ""
    error: str = ""
    error_reason: str = ""

    @classmethod
    def from_object(cls, obj: object) -> Workload:
        """Read an object of the API server or a file. Unknown fields are ignored, a broken status is too.

        Raises:
            InvalidWorkload: the object is no workload, is too large, or its spec has values it cannot have;
                no other error is raised, whatever the object.
        """
        if not isinstance(obj, dict):
            raise InvalidWorkload([Problem("", "is not a mapping", "start with apiVersion and kind")])
        kind = workload_kind(obj.get("kind"))
        model = SPECS[kind]
        meta, spec = obj.get("metadata"), obj.get("spec", {})
        problems = [
            Problem(path, "must be a mapping")
            for path, value in (("metadata", meta), ("spec", spec))
            if not isinstance(value, dict) and not (path == "spec" and value is None)
        ]
        if problems or not isinstance(meta, dict):
            raise InvalidWorkload(problems)
        spec = spec or {}
        if too_large := size_problem(meta, spec):
            raise WorkloadTooLarge([too_large])
        try:
            common = model.read(spec)
        except ValidationError as error:
            raise InvalidWorkload(explain(error, ("spec",))) from None
        common_names = _json_names(model)
        given = frozenset(name for name, value in spec.items() if value is not None)
        return cls(
            kind=kind,
            name=_text(meta, "name"),
            namespace=_text(meta, "namespace"),
            uid=_text(meta, "uid"),
            generation=_generation(meta),
            labels=_texts(meta, "labels"),
            annotations=_texts(meta, "annotations"),
            deleting=meta.get("deletionTimestamp") is not None,
            spec=common,
            blocks={name: spec[name] for name in given - common_names},
            given=given,
            status=read_status(obj.get("status")),
            resource_version=_text(meta, "resourceVersion"),
            created=_moment(meta),
        )

    @classmethod
    def from_live(cls, obj: Object, error: str = "") -> Workload:
        """Read an object of the API server whose spec may be invalid; `error` then says why.

        Args:
            obj: the object, or what of it can be decoded.
            error: why its spec cannot be decoded, empty when it can.

        Raises:
            InvalidWorkload: the object is no workload, or has no name.
        """
        reason = WorkloadTooLarge.reason
        if not error:
            try:
                return cls.from_object(obj)
            except InvalidWorkload as invalid:
                if not _is_named(obj):
                    raise
                error, reason = str(invalid), invalid.reason
        metadata = {name: obj["metadata"][name] for name in _IDENTITY if name in obj["metadata"]}
        known = {"kind": obj.get("kind"), "metadata": metadata, "status": obj.get("status")}
        return replace(cls.from_object(known), error=error, error_reason=reason)


def _is_named(obj: object) -> bool:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def workload_kind(kind: object) -> WorkloadKind:
    """Narrow the text of ``kind``.

    Raises:
        InvalidWorkload: it names no workload.
    """
    if kind == "KaiwoJob":
        return "KaiwoJob"
    if kind == "KaiwoService":
        return "KaiwoService"
    raise InvalidWorkload([Problem("kind", f"unknown kind {shorten(kind)}", "known: KaiwoJob, KaiwoService")])


def read_status(status: Any) -> WorkloadStatus:
    """Read ``status``; a part that cannot be read counts as absent, since the operator writes it anew."""
    if not isinstance(status, dict):
        return WorkloadStatus()
    try:
        return WorkloadStatus.read(status)
    except ValidationError as error:
        broken = {str(item["loc"][0]) for item in error.errors(include_url=False, include_input=False)}
        try:
            return WorkloadStatus.read({name: value for name, value in status.items() if name not in broken})
        except ValidationError:
            return WorkloadStatus()


@cache
def _json_names(model: type[CommonSpec]) -> frozenset[str]:
    return frozenset(info.alias or name for name, info in model.model_fields.items())


def _text(meta: Object, name: str) -> str:
    value = meta.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidWorkload([not_a_string(f"metadata.{name}", value)])
    return value


def _texts(meta: Object, name: str) -> Mapping[str, str]:
    value = meta.get(name)
    if value is None:
        return _EMPTY
    if not isinstance(value, dict):
        raise InvalidWorkload([Problem(f"metadata.{name}", "must be a mapping of texts")])
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            wrong = text if isinstance(key, str) else key
            raise InvalidWorkload([not_a_string(f"metadata.{name}.{key}", wrong)])
    return value


def _generation(meta: Object) -> int:
    value = meta.get("generation", 0)
    return value if isinstance(value, int) else 0


def _moment(meta: Object) -> datetime:
    return parse_time(meta.get("creationTimestamp")) or NEVER
