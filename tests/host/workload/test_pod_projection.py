"""What the operator keeps of a pod is enough for what its status says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kaiwo.engine.cached_object import ObjectDecoder
from kaiwo.engine.resource import POD
from kaiwo.host.workload.watches import POD_PROJECTION
from kaiwo.workload.observe.pod_failure import failure

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object


def kept(pod: Object) -> Object:
    """The pod as the operator keeps it."""
    return ObjectDecoder(POD, POD_PROJECTION).decode(msgspec.json.encode(pod)).full()


def ended(name: str, code: int, reason: str = "Error") -> Object:
    """The status of a container that has ended."""
    return {
        "name": name,
        "state": {
            "terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-01-02T03:05:10Z"},
        },
    }


def pod(spec: Object, **status: Any) -> Object:
    """A failed pod as the API server sends it."""
    metadata = {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Failed", **status}}


def test_a_native_sidecar_is_recognised_in_the_operator() -> None:
    """Only its restartPolicy tells it from an init container, and the kubelet stops it with the program."""
    failed = pod(
        {
            "initContainers": [{"name": "istio-proxy", "restartPolicy": "Always"}],
            "containers": [{"name": "main"}],
        },
        initContainerStatuses=[ended("istio-proxy", 143)],
        containerStatuses=[ended("main", 1)],
    )
    found = failure([kept(failed)])
    assert found is not None
    assert found.message == "container main of pod a exited with code 1"


def test_the_memory_limit_that_a_container_exceeded_is_in_the_status() -> None:
    """For a container and for an init container."""
    limits = {"resources": {"limits": {"memory": "2Gi"}}}
    for part in ("initContainer", "container"):
        failed = pod(
            {f"{part}s": [{"name": "c", **limits}]}, **{f"{part}Statuses": [ended("c", 137, "OOMKilled")]}
        )
        found = failure([kept(failed)])
        assert found is not None
        assert "more memory than its limit of 2Gi" in found.message
