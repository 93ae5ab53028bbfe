"""The record on a child: the values it was created with, and which of the user's fields it reflects.

Stored as JSON in annotation ``kaiwo.silogen.ai/resolved`` on the child. Fields are kept as short hashes, so
that a later change can be named without keeping the user's text a second time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from kaiwo.api.workload_spec import DEFAULT_VENDOR
from kaiwo.engine.diff import with_canonical_quantities
from kaiwo.plugin.facts import Allocation
from kaiwo.plugin.namespace_defaults import SecretVariable
from kaiwo.plugin.queues import QueueAssignment
from kaiwo.plugin.rendering import Resolved
from kaiwo.workload.json_access import is_blank, lenient_map, value_at
from kaiwo.workload.labels import RESOLVED
from kaiwo.workload.metadata import copied

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object

LABELS = "@labels"
ANNOTATIONS = "@annotations"
"""Where the workload's own metadata stand among the fields; no field of a spec is called so."""

_DEPTH = 3
"""How many names deep a changed field is named: ``job.spec.template``."""

_FIRST_TEMPLATE_VERSION = 1
"""The version of templates that a record without one was made with."""

_MOUNT_PATH = "_mount_path"
"""What the name of a volume is followed by where its mount path stands among the resolved values."""

_RESOLVED_DEFAULTS = {
    **{item.name: item.default for item in fields_of(Resolved) if item.name not in ("mount_paths", "taken")},
    "template_version": _FIRST_TEMPLATE_VERSION,
}
_ALLOCATION_DEFAULTS = {item.name: item.default for item in fields_of(Allocation)}


@dataclass(frozen=True, slots=True)
class AppliedRecord:
    """The content of the annotation.

    Attributes:
        resolved: what was taken from configuration, nodes and templates.
        queue: what the queue system asked for, None when there was none.
        fields: the user's fields, as path below ``spec`` to a hash of the value.
        labels: keys of the labels that were set on the child, the queue's left out.
        annotations: likewise.
        paths: patchable paths that were set on the child, dotted.
        content: hash of what was set on the child and may be restored, see :func:`content`.
        warnings: what of the fields was not used when the child was rendered.
        contributors: names of the contributions that added to its pods.
        meanings: the fields whose quantities were not written in canonical text, with the hash that they have
            in it.
    """

    resolved: Resolved
    queue: QueueAssignment | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    content: str = ""
    warnings: tuple[str, ...] = ()
    contributors: tuple[str, ...] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)


_encode = msgspec.json.Encoder(order="deterministic").encode


def digest(value: Any) -> str:
    """A short hash of JSON data, equal for equal data."""
    return hashlib.blake2s(_encode(value), digest_size=4).hexdigest()


def fingerprint(workload: Workload, *, by_meaning: bool = False) -> dict[str, str]:
    """The user's fields as hashes.

    What means the same as its absence is absent, so that new defaults are no changes.

    Args:
        workload: whose fields.
        by_meaning: hash quantities in canonical text, so that ``1000m`` and ``1`` are the same.
    """
    spec = workload.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    vendor = workload.spec.vendor
    spec["gpuVendor"] = None if vendor == DEFAULT_VENDOR else vendor
    spec["gpusPerReplica"] = workload.spec.gpus_per_replica or None
    hashes: dict[str, str] = {}
    written = {**spec, **workload.blocks}
    _hash_into(hashes, "", with_canonical_quantities(written) if by_meaning else written, _DEPTH)
    if labels := copied(workload.labels):
        hashes[LABELS] = digest(labels)
    if annotations := copied(workload.annotations):
        hashes[ANNOTATIONS] = digest(annotations)
    return hashes


def changed_fields(
    record: AppliedRecord, workload: Workload, fields: Mapping[str, str] | None = None
) -> list[str]:
    """The fields below ``spec`` that mean something else than those of the record, sorted.

    Args:
        record: of the child.
        workload: as it is now.
        fields: its :func:`fingerprint`, where the caller has it.
    """
    names = changed(record.fields, fingerprint(workload) if fields is None else fields)
    if not names:
        return []
    before = {**record.fields, **record.meanings}
    others = changed(before, fingerprint(workload, by_meaning=True))
    return [name for name in names if name in others]


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The fields below ``spec`` that differ, sorted; the workload's own metadata are not among them."""
    names = before.keys() | after.keys()
    return sorted(
        name for name in names if name not in (LABELS, ANNOTATIONS) and before.get(name) != after.get(name)
    )


def _hash_into(hashes: dict[str, str], path: str, value: Mapping[str, Any], depth: int) -> None:
    for name, item in value.items():
        where = f"{path}.{name}" if path else str(name)
        if isinstance(item, dict) and depth > 1:
            _hash_into(hashes, where, item, depth - 1)
        elif not is_blank(item):
            hashes[where] = digest(item)


def _written(value: Resolved | Allocation, defaults: Mapping[str, Any]) -> Object:
    """The fields of a dataclass that are neither at their default nor empty."""
    return {
        name: item
        for name, default in defaults.items()
        if (item := getattr(value, name)) != default and item != {}
    }


def encode(record: AppliedRecord) -> str:
    """The annotation's value: compact, and the same for equal records."""
    paths = {f"{name}{_MOUNT_PATH}": path for name, path in record.resolved.mount_paths.items()}
    resolved = {**record.resolved.taken, **paths, **_written(record.resolved, _RESOLVED_DEFAULTS)}
    resolved["allocation"] = _written(record.resolved.allocation, _ALLOCATION_DEFAULTS)
    content: Object = {"resolved": resolved, "fields": dict(record.fields)}
    if record.meanings:
        content["meanings"] = dict(record.meanings)
    if record.queue:
        content["queue"] = {
            "queue": record.queue.queue,
            "labels": dict(record.queue.labels),
            "podAnnotations": dict(record.queue.pod_annotations),
            "suspend": record.queue.suspend,
            "knowsPriority": record.queue.knows_priority,
        }
    if record.labels:
        content["labels"] = list(record.labels)
    if record.annotations:
        content["annotations"] = list(record.annotations)
    if record.paths:
        content["paths"] = list(record.paths)
    if record.content:
        content["content"] = record.content
    if record.warnings:
        content["warnings"] = list(record.warnings)
    if record.contributors:
        content["contributors"] = list(record.contributors)
    return _encode(content).decode()


def content(obj: Object, labels: Iterable[str], annotations: Iterable[str], paths: Iterable[str]) -> str:
    """A hash of what was set on a child and is restored when somebody edits it.

    Args:
        obj: the child.
        labels: see :class:`AppliedRecord`; the API server's defaults do not count.
        annotations: likewise.
        paths: likewise.
    """
    metadata = lenient_map(obj.get("metadata"))
    have_labels, have_annotations = (
        lenient_map(metadata.get("labels")),
        lenient_map(metadata.get("annotations")),
    )
    return digest(
        [
            [have_labels.get(key) for key in labels],
            [have_annotations.get(key) for key in annotations],
            [value_at(obj, path.split(".")) for path in paths],
        ]
    )


def with_record(
    child: Object,
    workload: Workload,
    resolved: Resolved,
    queue: QueueAssignment | None,
    *,
    patchable: Iterable[tuple[str, ...]],
    warnings: tuple[str, ...],
    contributors: tuple[str, ...] = (),
) -> Object:
    """A rendered child with the record on it.

    Args:
        child: the child.
        workload: its workload.
        resolved: see :class:`AppliedRecord`.
        queue: likewise.
        patchable: the patchable paths of its backend.
        warnings: see :class:`AppliedRecord`.
        contributors: likewise.
    """
    metadata = child["metadata"]
    queue_keys = queue.labels.keys() if queue else ()
    labels = tuple(sorted(key for key in metadata["labels"] if key not in queue_keys))
    annotations = tuple(sorted(key for key in metadata.get("annotations", {}) if key != RESOLVED))
    paths = tuple(".".join(path) for path in patchable if value_at(child, path) is not None)
    fields = fingerprint(workload)
    by_meaning = fingerprint(workload, by_meaning=True)
    record = AppliedRecord(
        resolved=resolved,
        queue=queue,
        fields=fields,
        meanings={name: value for name, value in by_meaning.items() if fields[name] != value},
        labels=labels,
        annotations=annotations,
        paths=paths,
        content=content(child, labels, annotations, paths),
        warnings=warnings,
        contributors=contributors,
    )
    recorded = {**metadata.get("annotations", {}), RESOLVED: encode(record)}
    return {**child, "metadata": {**metadata, "annotations": recorded}}


class _AllocationDocument(msgspec.Struct):
    vendor: str = ""
    resource_key: str = ""
    replicas: int = 1
    gpus_per_replica: int = 0
    pods: int = 1
    models: tuple[str, ...] = ()


class _QueueDocument(msgspec.Struct, rename="camel"):
    queue: str
    labels: dict[str, str]
    pod_annotations: dict[str, str] = {}
    suspend: bool = True
    knows_priority: bool = False


class _ResolvedDocument(msgspec.Struct):
    allocation: _AllocationDocument
    default_image: str = ""
    scheduler_name: str = ""
    gpu_taint_key: str = ""
    storage_class: str = ""
    priority_class: str = ""
    vendor_keys: tuple[str, ...] = ()
    template_version: int = _FIRST_TEMPLATE_VERSION
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    contributions: dict[str, dict[str, Any]] = {}
    variables: tuple[SecretVariable, ...] = ()
    image_pull_secrets: tuple[str, ...] = ()


class _Document(msgspec.Struct):
    resolved: dict[str, Any]
    fields: dict[str, str] = {}
    meanings: dict[str, str] = {}
    queue: _QueueDocument | None = None
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    content: str = ""
    warnings: tuple[str, ...] = ()
    contributors: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(_Document)
_KNOWN = frozenset(_ResolvedDocument.__struct_fields__)


def _others(resolved: Object) -> tuple[dict[str, str], dict[str, str]]:
    """Mount paths by volume, and what the backend took from KaiwoConfig: texts under other names."""
    paths, taken = {}, {}
    for name, value in resolved.items():
        if name not in _KNOWN and isinstance(value, str):
            if name.endswith(_MOUNT_PATH):
                paths[name.removesuffix(_MOUNT_PATH)] = value
            else:
                taken[name] = value
    return paths, taken


def decode(child: Object) -> AppliedRecord | None:
    """The record on a live child; None when it has none or it is malformed."""
    text = lenient_map(lenient_map(child.get("metadata")).get("annotations")).get(RESOLVED)
    return _decoded(text) if isinstance(text, str) else None


@lru_cache(maxsize=512)
def _decoded(text: str) -> AppliedRecord | None:
    """The record of an annotation. A child is planned with several times before it ends."""
    try:
        document = _decoder.decode(text)
        known = msgspec.convert(document.resolved, _ResolvedDocument)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    resolved = msgspec.structs.asdict(known)
    resolved["allocation"] = Allocation(**msgspec.structs.asdict(known.allocation))
    resolved["mount_paths"], resolved["taken"] = _others(document.resolved)
    queue = QueueAssignment(**msgspec.structs.asdict(document.queue)) if document.queue else None
    return AppliedRecord(
        resolved=Resolved(**resolved),
        queue=queue,
        fields=document.fields,
        meanings=document.meanings,
        labels=document.labels,
        annotations=document.annotations,
        paths=document.paths,
        content=document.content,
        warnings=document.warnings,
        contributors=document.contributors,
    )
