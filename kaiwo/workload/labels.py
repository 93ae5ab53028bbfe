"""Labels and annotations of created objects and their pods: which keys, and who wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.workload.names import label_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backends import Origin
    from kaiwo.workload.origins import Origins

PREFIX = "kaiwo.silogen.ai/"
USER = PREFIX + "user"
NAME = PREFIX + "name"
TYPE = PREFIX + "type"
RUN_ID = PREFIX + "run-id"
VERSION = PREFIX + "version"
RESOLVED = PREFIX + "resolved"
GPU_MODEL = "kaiwo/gpu-model"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"

WORKLOAD_TYPES = {"KaiwoJob": "job", "KaiwoService": "service"}

_BOOKKEEPING = "deployment.kubernetes.io/"
"""What the Deployment controller keeps on its objects; setting it would be a quarrel without an end."""

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
    if user := label_value(workload.spec.user or ""):
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
