"""What Kaiwo made for a workload, in a form that two runs have in common."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import CONFIG_MAP, DEPLOYMENT, JOB, PERSISTENT_VOLUME_CLAIM, SERVICE
from kaiwo.workload.labels import MANAGER, RESOLVED, RUN_ID
from kaiwo_ray_job.kinds import RAY_JOB
from kaiwo_ray_service.kinds import APP_WRAPPER, RAY_SERVICE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

KINDS: Final = (
    JOB,
    DEPLOYMENT,
    SERVICE,
    PERSISTENT_VOLUME_CLAIM,
    CONFIG_MAP,
    RAY_JOB,
    RAY_SERVICE,
    APP_WRAPPER,
)
"""Of the objects that Kaiwo creates for workloads."""

_OF_THE_SERVER: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink", "finalizers"}
)
_RECORDS: Final = frozenset({"kaiwo.silogen.ai/applied", RESOLVED})
"""Annotations with digests over the whole object, which differ with every uid."""

_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KUEUES_NAME: Final = re.compile(r'("kueue.x-k8s.io/workload": )"[^"]*"')
"""The name of Kueue's Workload ends in a digest of a uid."""

_OF_OTHERS: Final = ("deployment.kubernetes.io/", "pv.kubernetes.io/", "volume.kubernetes.io/")


async def children(client: Client, namespace: str, uid: str = "") -> list[Object]:
    """The objects of a namespace that Kaiwo made for workloads.

    Args:
        client: an administrator's.
        namespace: where to look.
        uid: of the workload they were made for; empty for all workloads.
    """
    found = []
    for kind in KINDS:
        try:
            async for obj in client.list(
                kind, namespace, label_selector=f"{RUN_ID}={uid}" if uid else RUN_ID
            ):
                fields = obj["metadata"].get("managedFields", ())
                # A RayService is made by Kaiwo, or by AppWrapper from what Kaiwo made.
                if kind == RAY_SERVICE or any(entry.get("manager") == MANAGER for entry in fields):
                    found.append({"apiVersion": kind.api_version, "kind": kind.kind, **obj})
        except NotFound:
            continue  # the kind is not served
    return found


def normal_form(objects: list[Object], namespace: str) -> dict[str, Any]:
    """The objects without what differs between two runs of the same workload.

    Args:
        objects: of one namespace.
        namespace: its name.

    Returns:
        Content by ``Kind/name``.
    """
    uids: dict[str, str] = {}
    return {
        f"{obj['kind']}/{obj['metadata']['name']}": _normal(_content(obj), namespace, uids)
        for obj in sorted(objects, key=lambda obj: (obj["kind"], obj["metadata"]["name"]))
    }


def _content(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _OF_THE_SERVER}
    notes: Mapping[str, str] = metadata.pop("annotations", {})
    kept = {k: v for k, v in notes.items() if k not in _RECORDS and not k.startswith(_OF_OTHERS)}
    body = {key: value for key, value in obj.items() if key not in {"metadata", "status"}}
    if obj["kind"] == PERSISTENT_VOLUME_CLAIM.kind:
        body["spec"] = {key: value for key, value in body["spec"].items() if key != "volumeName"}
    return {**body, "metadata": {**metadata, **({"annotations": kept} if kept else {})}}


def _normal(content: Object, namespace: str, uids: dict[str, str]) -> Any:
    text = json.dumps(content, sort_keys=True)
    text = _UID.sub(lambda uid: uids.setdefault(uid[0], f"uid-{len(uids)}"), text)
    text = _KUEUES_NAME.sub(r'\1""', text)
    return json.loads(text.replace(namespace, "NAMESPACE"))


def differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """In which objects and fields two normal forms differ; empty when they are equal."""
    lines = [f"{name} is missing" for name in wanted if name not in found]
    lines += [f"{name} is too many" for name in found if name not in wanted]
    for name in wanted.keys() & found.keys():
        lines += _fields(wanted[name], found[name], name)
    return lines


def _fields(wanted: Any, found: Any, path: str) -> list[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        keys = sorted(wanted.keys() | found.keys())
        return [line for key in keys for line in _fields(wanted.get(key), found.get(key), f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [line for index, pair in pairs for line in _fields(*pair, f"{path}[{index}]")]
    return [] if wanted == found else [f"{path} is {found!r:.200}, not {wanted!r:.200}"]
