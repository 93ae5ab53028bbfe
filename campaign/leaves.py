"""The own fields of KaiwoJob and KaiwoService, from the schemas of their CRDs, each in a valid workload."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from campaign.scenarios import QUEUE, SECRET
from kaiwo.api.crds import WORKLOADS, render_crds
from kaiwo.plugin.loader import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.resource import Object

ITEM: Final = "[]"
"""Step of a path: an item of a list."""

VALUE: Final = "{}"
"""Step of a path: a value of a map whose keys are the user's."""

IMAGE: Final = "registry.example/program:1"
SERVE_CONFIG: Final = "applications:\n- name: chat\n  import_path: app:deployment\n"
_SECRET: Final = {"secretName": SECRET, "secretKey": "key"}
_FILES: Final = {"files": [{"path": "a.bin", "targetPath": "a.bin", "sha256": "0a" * 32}]}
_FOLDERS: Final = {"folders": [{"path": "data", "targetPath": "data", "glob": "*.bin"}]}
_SOURCE: Final = {"name": "models", **_FILES, **_FOLDERS}
_SOURCES: Final[Object] = {
    "s3": [
        {
            "endpointUrl": "https://s3.example.com",
            "region": "us-east-1",
            "accessKeyId": _SECRET,
            "secretKey": _SECRET,
            "buckets": [_SOURCE],
        }
    ],
    "gcs": [{"applicationCredentials": _SECRET, "buckets": [_SOURCE]}],
    "azureBlob": [{"connectionString": _SECRET, "containers": [_SOURCE]}],
    "git": [
        {
            "repository": "https://git.example.com/a/b",
            "branch": "main",
            "commit": "0a" * 20,
            "path": "data",
            "targetPath": "code",
            "lfs": False,
            "username": _SECRET,
            "token": _SECRET,
        }
    ],
}
_POD: Final = {"spec": {"containers": [{"name": "main"}]}}
_WHOLE: Final[Object] = {
    "clusterQueue": QUEUE,
    "dangerous": False,
    "deployment": {"spec": {"template": _POD}},
    "duration": "1h",
    "entrypoint": "python train.py",
    "env": [{"name": "MODE", "value": "fast", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "gpuModels": ["mi300x"],
    "gpuVendor": "amd",
    "gpus": 1,
    "gpusPerReplica": 1,
    "image": IMAGE,
    "imagePullSecrets": [{"name": SECRET}],
    "job": {"spec": {"template": _POD}},
    "podTemplateSpecLabels": {"team": "vision"},
    "preferredTopologyLabel": "topology.kubernetes.io/zone",
    "priorityClass": "",
    "ray": True,
    "rayJob": {"spec": {"ttlSecondsAfterFinished": 60}},
    "rayService": {"spec": {"serveConfigV2": SERVE_CONFIG}},
    "replicas": 1,
    "requiredTopologyLabel": "topology.kubernetes.io/zone",
    "resources": {
        "claims": [{"name": "device", "request": "one"}],
        "limits": {"cpu": "1"},
        "requests": {"cpu": "500m"},
    },
    "secretVolumes": [
        {"name": "keys", "secretName": SECRET, "key": "key", "mountPath": "/keys", "subPath": "key"},
    ],
    "serveConfigV2": SERVE_CONFIG,
    "storage": {
        "storageEnabled": True,
        "accessMode": "ReadWriteMany",
        "storageClassName": "",
        "data": {"storageSize": "1Gi", "mountPath": "/data", "download": _SOURCES},
        "huggingFace": {
            "storageSize": "1Gi",
            "mountPath": "/cache",
            "preCacheRepos": [{"repoId": "org/model", "revision": "main", "files": ["config.json"]}],
        },
    },
    "user": "jane",
    "version": "1",
}
"""A valid value of every field, though not all of them fit together."""

_NEEDS: Final[dict[str, Object]] = {
    "gpuModels": {"gpus": 1},
    "gpusPerReplica": {"replicas": 1},
    "gpuVendor": {"gpus": 1},
    "serveConfigV2": {"ray": True},
    "ray": {"entrypoint": "python train.py", "serveConfigV2": SERVE_CONFIG},
}
"""What else a specification has, by the field at its top that is wanted."""

_EXCLUDES: Final = {
    "commit": ("branch",), "branch": ("commit",), "value": ("valueFrom",), "valueFrom": ("value",),
    "glob": ("files",), "sha256": ("folders",),
}  # fmt: skip
"""Siblings of a field that do not fit beside it."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field of a workload that has no fields of Kaiwo below it.

    Attributes:
        kind: of the workload.
        path: below ``spec``; ``[]`` for an item of a list, ``{}`` for a value of a map.
        schema: its part of the CRD.
    """

    kind: WorkloadKind
    path: tuple[str, ...]
    schema: Object

    @property
    def name(self) -> str:
        """The last field of the path that has a name."""
        return next(step for step in reversed(self.path) if step not in (ITEM, VALUE))

    def __str__(self) -> str:
        """``job-storage.data.mountPath``."""
        steps = [step for step in self.path if step != ITEM]
        return f"{self.kind.removeprefix('Kaiwo').lower()}-{'.'.join(steps).replace('.{}', '.value')}"

    def spec(self) -> Object:
        """A valid specification in which the field has a value, with little else."""
        top = self.path[0]
        whole = json.loads(json.dumps(_WHOLE[top]))  # a copy in which nothing is shared
        if top == "storage":
            part = self.path[1]
            for other in {"data", "huggingFace"} - {part}:
                if part in ("data", "huggingFace") or other == "huggingFace":
                    del whole[other]
            if part != "huggingFace":
                source = self.path[3] if len(self.path) > 3 else ""  # noqa: PLR2004  data.download.s3
                whole["data"]["download"] = {source: whole["data"]["download"][source]} if source else {}
        spec = {"image": IMAGE, "user": "jane", **_NEEDS.get(top, {}), top: whole}
        if self.kind == "KaiwoJob":
            spec.pop("serveConfigV2", None)
        if "claims" in self.path:
            pod = {**_POD["spec"], "resourceClaims": [{"name": "device", "resourceClaimName": "device"}]}
            block = "job" if self.kind == "KaiwoJob" else "deployment"
            spec[block] = {"spec": {"template": {"spec": pod}}}
        elif top == "resources":
            del whole["claims"]
        self._exclude(spec)
        return spec

    def _exclude(self, spec: Object) -> None:
        """Remove what does not fit beside the field, and what of the other entries does not fit together."""
        if "env" in spec and self.name != "valueFrom":
            del spec["env"][0]["valueFrom"]
        for item in ((spec.get("storage") or {}).get("data") or {}).get("download", {}).get("git", ()):
            if self.name != "commit":
                del item["commit"]
        parent = self._parent(spec)
        for sibling in _EXCLUDES.get(self.name, ()):
            parent.pop(sibling, None)
        if self.name == "file":
            parent["file"] = "/keys/key"

    def _parent(self, spec: Object) -> Any:
        found: Any = spec
        for step in self.path[:-1]:
            found = found[0] if step == ITEM else found[step]
        return found

    def place(self, spec: Object) -> tuple[Any, Any]:
        """The map or list of a specification that holds the field, and its key or index there."""
        parent = self._parent(spec)
        last = self.path[-1]
        if last == ITEM:
            return parent, 0
        return parent, next(iter(parent)) if last == VALUE else last

    def workload(self, name: str, spec: Object) -> Object:
        """A workload with a specification; its namespace is that of the request."""
        kind = WORKLOADS[self.kind]
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name},
            "spec": spec,
        }


def leaves() -> list[Leaf]:
    """The leaves of both kinds; those of downloads, which are the same in both, once."""
    plugins = load()
    found: list[Leaf] = []
    for crd in render_crds(plugins.fields(), plugins.settings_models(), kinds=plugins.kinds()):
        kind = crd["spec"]["names"]["kind"]
        if kind not in WORKLOADS:
            continue
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        of_kind = [Leaf(kind, path, part) for path, part in _walk(schema, ())]
        found += [leaf for leaf in of_kind if kind == "KaiwoJob" or "download" not in leaf.path]
    return found


def _walk(schema: Object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Object]]:
    below = {**schema.get("properties", {})}
    if isinstance(schema.get("items"), dict):
        below[ITEM] = schema["items"]
    if isinstance(schema.get("additionalProperties"), dict):
        below[VALUE] = schema["additionalProperties"]
    if not below:
        yield path, schema
    for step, part in below.items():
        yield from _walk(part, (*path, step))
