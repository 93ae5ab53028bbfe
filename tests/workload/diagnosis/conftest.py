"""Facts as an API server sends them, for the rules of the diagnosis."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kaiwo.workload.diagnosis.model import DiagnosisFacts

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
CREATED = "2026-01-31T11:58:00Z"
Object = dict[str, Any]


class Cluster:
    """Builds what a cluster holds of one workload ``train`` in namespace ``team``."""

    now = NOW

    def workload(self, status: str = "STARTING", reason: str = "Starting", **more: Any) -> Object:
        """A KaiwoJob with a status; an empty word is one that no operator has observed."""
        found: Object = {"status": status, "reason": reason, "message": f"{reason} it is", **more}
        found |= {"observedGeneration": 1, "childUID": "child"} | more
        return {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": "KaiwoJob",
            "metadata": {
                "name": "train",
                "namespace": "team",
                "uid": "u",
                "generation": 1,
                "creationTimestamp": CREATED,
            },
            "spec": {"clusterQueue": "blue"},
            "status": found if status else {},
        }

    def pod(self, name: str = "train-x", phase: str = "Pending", **more: Any) -> Object:
        """A pod of the Job."""
        return {
            "kind": "Pod",
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": CREATED,
                "ownerReferences": [{"uid": "child", "kind": "Job", "controller": True}],
                "labels": {"kaiwo.silogen.ai/type": more.pop("type", "job")},
            },
            "spec": {"nodeName": "node-1", **more.pop("spec", {})},
            "status": {
                "phase": phase,
                "conditions": [{"type": "PodScheduled", "status": "True"}],
                **more,
            },
        }

    def container(self, **state: Any) -> list[Object]:
        """``containerStatuses`` of a container c; ``count`` is its restarts, ``last`` its last end."""
        count, last = state.pop("count", 0), state.pop("last", None)
        found: Object = {"name": "c", "image": "registry/it:1", "restartCount": count, "state": state}
        return [{**found, "lastState": {"terminated": last}} if last else found]

    def event(self, about: Object, reason: str, message: str) -> Object:
        """A Warning event about an object, one minute old."""
        return {
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": "2026-01-31T11:59:00Z",
            "involvedObject": {"uid": about["metadata"]["uid"]},
        }

    def claim(self, phase: str = "Pending", storage_class: str | None = "fast") -> Object:
        """The claim of the data volume."""
        return {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "train-data", "uid": "claim", "creationTimestamp": CREATED},
            "spec": {"storageClassName": storage_class},
            "status": {"phase": phase},
        }

    def lease(self, age: int = 1, holder: str = "operator-1") -> Object:
        """The operator's Lease, renewed some seconds ago."""
        renewed = f"2026-01-31T11:59:{60 - age:02d}.000000Z" if age <= 60 else CREATED
        return {
            "kind": "Lease",
            "metadata": {"name": "kaiwo-operator"},
            "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 10},
        }

    def facts(self, **known: Any) -> DiagnosisFacts:
        """Facts at noon; without a workload one that starts, with a Lease that is renewed."""
        known.setdefault("workload", self.workload())
        known.setdefault("lease", self.lease())
        for name in ("pods", "objects", "events"):
            known[name] = tuple(known.get(name, ()))
        return DiagnosisFacts(now=NOW, lease_read=True, **known)


@pytest.fixture
def cluster() -> Cluster:
    """The builder."""
    return Cluster()
