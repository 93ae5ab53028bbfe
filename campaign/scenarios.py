"""The workloads that faults strike: four backends, each plain, with storage and in a queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaiwo.api.crds import WORKLOADS

if TYPE_CHECKING:
    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.resource import Object

CANARY: Final = "canary-7d1f0c9e4b"
"""Value of the Secret that workloads use. It must appear nowhere else."""

SECRET: Final = "keys"  # noqa: S105  a name
QUEUE: Final = "campaign"
DEFAULT_QUEUE: Final = "kaiwo"
"""The queue of workloads that name none: KaiwoConfig's default."""
_SERVE: Final = "applications:\n- name: chat\n  import_path: app:deployment\n"
_RUNS: Final = {"kaiwo-sandbox/ray-job-status": "RUNNING"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload and where it ends without a fault.

    Attributes:
        name: of the scenario.
        kind: of the workload.
        spec: of the workload.
        ends: statuses of which it reaches one and then stays.
        annotations: of the workload; the fake nodes read them.
    """

    name: str
    kind: WorkloadKind
    spec: Object
    ends: tuple[str, ...]
    annotations: Object

    def workload(self, namespace: str) -> Object:
        """The workload in a namespace; its name is that of the scenario."""
        kind = WORKLOADS[self.kind]
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "name": self.name,
                "namespace": namespace,
                "annotations": dict(self.annotations),
            },
            "spec": {"image": "registry.example/program:1", "user": "jane", **self.spec},
        }


def _storage() -> Object:
    secret = {"secretName": SECRET, "secretKey": "key"}
    bucket = {"name": "models", "files": [{"path": "a.bin", "targetPath": "a.bin"}]}
    item = {
        "endpointUrl": "https://s3.example.com",
        "accessKeyId": secret,
        "secretKey": secret,
        "buckets": [bucket],
    }
    return {
        "storage": {
            "storageEnabled": True,
            "data": {"storageSize": "1Gi", "download": {"s3": [item]}},
        }
    }


_BACKENDS: Final[dict[str, tuple[WorkloadKind, Object, tuple[str, ...], Object]]] = {
    "job": ("KaiwoJob", {"gpus": 1, "entrypoint": "python train.py"}, ("COMPLETE",), {}),
    "serve": ("KaiwoService", {"replicas": 1}, ("READY",), {}),
    "rayjob": (
        "KaiwoJob",
        {"ray": True, "entrypoint": "python train.py"},
        ("RUNNING",),
        _RUNS,
    ),
    "rayserve": (
        "KaiwoService",
        {"ray": True, "serveConfigV2": _SERVE},
        ("READY",),
        {},
    ),
}
_FORMS: Final[dict[str, Object]] = {
    "plain": {},
    "storage": _storage(),
    "queue": {"clusterQueue": QUEUE},
}

SCENARIOS: Final[dict[str, Scenario]] = {
    f"{backend}-{form}": Scenario(f"{backend}-{form}", kind, {**spec, **more}, ends, annotations)
    for backend, (kind, spec, ends, annotations) in _BACKENDS.items()
    for form, more in _FORMS.items()
}
