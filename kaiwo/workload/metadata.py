"""Labels and annotations of created objects and their pods: which keys, and who wins."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from kaiwo.api.name_rules import ON_RAY, PLAIN, NameRule
from kaiwo.plugin.facts import Blocked
from kaiwo.workload.json_access import as_map, as_strings, lenient_map, lenient_maps
from kaiwo.workload.labels import NAME, PREFIX, RUN_ID, TYPE, USER, VERSION, WORKLOAD_TYPES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import Origin, RenderInput
    from kaiwo.workload.pods.origins import Origins


_BOOKKEEPING = "deployment.kubernetes.io/"
"""Prefix of what the Deployment controller sets on its objects; it would restore its own value for ever."""

_LAST_APPLIED = "/last-applied-configuration"
_NEVER_COPIED_PREFIXES = (PREFIX, _BOOKKEEPING, "kueue.x-k8s.io/", "argocd.argoproj.io/")
_NEVER_COPIED = frozenset({"app.kubernetes.io/instance", "app.kubernetes.io/managed-by"})


def copied(metadata: Mapping[str, str]) -> dict[str, str]:
    """The part of a workload's labels or annotations that goes to what is created for it.

    Left out: keys by which a queue, a deployment tool or Kaiwo itself would misread the child.
    """
    return {
        key: value
        for key, value in metadata.items()
        if not key.startswith(_NEVER_COPIED_PREFIXES)
        and key not in _NEVER_COPIED
        and not key.endswith(_LAST_APPLIED)
    }


def embedded(metadata: Mapping[str, str]) -> dict[str, str]:
    """The labels or annotations a user wrote into an embedded object.

    Left out: keys that are Kaiwo's, and what tools and controllers keep on objects for themselves, as it
    comes along when a live object is pasted.
    """
    return {
        key: value
        for key, value in metadata.items()
        if not key.startswith((PREFIX, _BOOKKEEPING)) and not key.endswith(_LAST_APPLIED)
    }


def system_labels(workload: Workload, type_: str | None = None) -> dict[str, str]:
    """The labels by which everything made for a workload is found.

    Args:
        workload: the workload; without a uid (it was never sent to a cluster) there is no run-id.
        type_: value of the type label where it is not the workload's own kind.
    """
    labels = {}
    if user := user_label(workload.spec.user or ""):
        labels[USER] = user
    labels[NAME] = label_value(workload.name)
    labels[TYPE] = type_ or WORKLOAD_TYPES.get(workload.kind, "job")
    if workload.uid:
        labels[RUN_ID] = workload.uid
    return labels


def version_label(workload: Workload) -> dict[str, str]:
    """The version label of the created object itself; empty without a version."""
    value = label_value(workload.spec.version or "")
    return {VERSION: value} if value else {}


def owner_reference(workload: Workload) -> list[Object]:
    """The controller reference of everything that is created; empty for a workload without a uid."""
    if not workload.uid:
        return []
    return [
        {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": workload.kind,
            "name": workload.name,
            "uid": workload.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def owned(metadata: Object, workload: Workload, type_: str | None = None) -> Object:
    """Metadata of a created object with the system labels and the controller reference.

    Args:
        metadata: name and all else.
        workload: the owner.
        type_: see :func:`system_labels`.
    """
    result = {**metadata, "labels": {**metadata.get("labels", {}), **system_labels(workload, type_)}}
    if workload.namespace:
        result["namespace"] = workload.namespace
    if owner := owner_reference(workload):
        result["ownerReferences"] = owner
    return result


def layered(path: str, origins: Origins, *layers: tuple[Mapping[str, str], Origin, str]) -> dict[str, str]:
    """Labels or annotations of several sources in one, a later source winning.

    Args:
        path: where they stand, for origins.
        origins: where to note what came from where.
        layers: of each source what it brings, its kind and its name in words.
    """
    merged: dict[str, str] = {}
    for values, origin, words in layers:
        for key, value in values.items():
            merged[key] = value
            origins.note(f"{path}.{key}", origin, words)
    return merged


NamePattern = Literal["dns1123", "dns1035"]

MAX_LABEL = 63
"""Longest label value and longest DNS label (RFC 1123)."""

_RULES: Mapping[NamePattern, NameRule] = {"dns1123": PLAIN, "dns1035": ON_RAY}
_LABEL_VALUE = re.compile(r"[a-z0-9]+(?:[-.][a-z0-9]+)*")
_OUTSIDE_LABEL = re.compile(r"[^a-z0-9.-]+")
_RUNS = re.compile(r"[-.]{2,}")


def label_value(text: str) -> str:
    """A legal label value that still reads like the text: ``jane.doe+x@Amd.com`` is ``jane.doe-x-amd.com``.

    Lower case; runs of other characters become ``-``; ``-`` and ``.`` are trimmed and never repeat;
    at most 63 characters. May be empty.
    """
    if len(text) <= MAX_LABEL and _LABEL_VALUE.fullmatch(text):
        return text  # what nearly every value is
    value = _OUTSIDE_LABEL.sub("-", text.lower()).strip("-.")
    return _RUNS.sub("-", value)[:MAX_LABEL].strip("-.")


_NAME_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SERVICE_ACCOUNT = re.compile(rf"system:serviceaccount:({_NAME_PART}):({_NAME_PART}(?:\.{_NAME_PART})*)")


def user_label(user: str) -> str:
    """The value of the label for a user.

    That of a service account is ``serviceaccount.NAMESPACE.NAME``. A namespace has no dot, so no two service
    accounts share a value: `label_value` would make the same of ``a-b:c`` and ``a:b-c``.
    """
    account = _SERVICE_ACCOUNT.fullmatch(user)
    return derived_name(f"serviceaccount.{account[1]}.{account[2]}", "") if account else label_value(user)


def derived_name(base: str, suffix: str, limit: int = MAX_LABEL) -> str:
    """The name of an object that belongs to another: ``<base><suffix>``, at most ``limit`` characters.

    A longer one is cut and carries a hash of the whole, so that two long names never share it.
    """
    whole = base + suffix
    if len(whole) <= limit:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    kept = base[: limit - len(suffix) - len(digest) - 1].rstrip("-.")
    return f"{kept}-{digest}{suffix}"


def name_problem(name: str, limit: int = MAX_LABEL, pattern: NamePattern = "dns1123") -> str | None:
    """What is wrong with a workload's name, with the limit and a legal one; None when nothing is."""
    return _rule(pattern, limit).problem(name)


@cache
def _rule(pattern: NamePattern, limit: int) -> NameRule:
    return replace(_RULES[pattern], limit=limit)


def controller_of(obj: Object) -> Object | None:
    """The owner reference of an object's controller, None without one."""
    references = lenient_maps(lenient_map(obj.get("metadata")).get("ownerReferences"))
    return next((item for item in references if item.get("controller")), None)


def is_ours(obj: Object, workload: Workload, made: Collection[str]) -> bool:
    """Whether the workload controls the object, and Kaiwo made it. An owner reference alone proves nothing.

    Args:
        obj: a live object.
        workload: the workload.
        made: uids of the objects that Kaiwo made, see :class:`kaiwo.workload.model.Facts`.
    """
    uid = lenient_map(obj.get("metadata")).get("uid")
    return _claims(obj, workload) and (uid in made or (bool(uid) and uid == workload.status.child_uid))


def _claims(obj: Object, workload: Workload) -> bool:
    """Whether the owner reference of an object's controller names the workload."""
    owner = controller_of(obj)
    return owner is not None and bool(workload.uid) and owner.get("uid") == workload.uid


def conflict(obj: Object, kind: str, workload: Workload) -> Blocked:
    """Why an object of somebody else under a wanted name stops the workload.

    Args:
        obj: the object.
        kind: its kind, for the message.
        workload: the workload that needs the name.
    """
    metadata = lenient_map(obj.get("metadata"))
    name, owner = metadata.get("name"), controller_of(obj)
    if owner is None:
        whose = "has no controller"
    elif _claims(obj, workload):
        whose = f"names the {workload.kind} as its controller, but Kaiwo did not create it"
    else:
        whose = f"belongs to {owner.get('kind')} {owner.get('name')}"
        same = owner.get("kind") == workload.kind and owner.get("name") == workload.name
        if same and str(owner.get("apiVersion", "")).startswith(PREFIX):
            return Blocked(
                "PreviousRunDeleting",
                f"{kind} {name} of the previous {workload.kind} {workload.name} is still being deleted; "
                "this one starts when it is gone",
                status="PENDING",
            )
    return Blocked(
        "NameConflict",
        f"{kind} {name} exists in namespace {workload.namespace} and {whose}; it is not changed. "
        "Delete it or choose another name for the workload",
    )


def child_metadata(inp: RenderInput, block: Object, path: str, origins: Origins) -> Object:
    """Metadata of the object that runs a workload, named like it and owned by it.

    Labels: the queue's, then Kaiwo's own, then those of the embedded object, then the workload's.

    Args:
        inp: the render input.
        block: the embedded object; only its labels and annotations are used.
        path: where the user writes it (``spec.job``).
        origins: where to note what came from where.

    Raises:
        SpecError: the embedded metadata have an impossible shape.
    """
    workload = inp.workload
    own = as_map(block.get("metadata"), f"{path}.metadata")
    metadata: Object = {"name": workload.name}
    if workload.namespace:
        metadata["namespace"] = workload.namespace
    where = f"{path}.metadata"
    queue = inp.queue.labels if inp.queue else {}
    metadata["labels"] = layered(
        f"{where}.labels",
        origins,
        (copied(workload.labels), "user", "metadata.labels"),
        (embedded(as_strings(own.get("labels"), f"{where}.labels")), "user", f"{where}.labels"),
        (version_label(workload), "user", "spec.version"),
        (system_labels(workload), "system", "by which Kaiwo finds what belongs to the workload"),
        (queue, "queue", f"queue {inp.queue.queue}" if inp.queue else ""),
    )
    annotations = layered(
        f"{where}.annotations",
        origins,
        (copied(workload.annotations), "user", "metadata.annotations"),
        (
            embedded(as_strings(own.get("annotations"), f"{where}.annotations")),
            "user",
            f"{where}.annotations",
        ),
    )
    if annotations:
        metadata["annotations"] = annotations
    if owner := owner_reference(workload):
        metadata["ownerReferences"] = owner
    return metadata
