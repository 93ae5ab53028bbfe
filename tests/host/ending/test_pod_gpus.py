"""How many GPUs pods have on which nodes."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.resource import POD
from kaiwo.engine.store import Cache
from kaiwo.host.ending.pod_gpus import gpus_by_node
from kaiwo.host.workload.watches import POD_PROJECTION
from kaiwo.workload.pods.requests import pod_requests

KEY = "amd.com/gpu"

COUNTS = st.integers(0, 8).map(lambda count: {"resources": {"requests": {KEY: str(count)}}} if count else {})
INIT = st.tuples(COUNTS, st.booleans()).map(
    lambda made: {**made[0], **({"restartPolicy": "Always"} if made[1] else {})}
)


def gpus_on(*specs: dict[str, Any], phase: str = "Running") -> dict[str, int]:
    """The GPUs by node of pods with these specs, from what the operator keeps of them."""
    cache = Cache()
    store = cache.register(POD, POD_PROJECTION)
    pods = [
        store.decode(
            msgspec.json.encode(
                {"metadata": {"name": f"p{number}"}, "spec": spec, "status": {"phase": phase}}
            )
        )
        for number, spec in enumerate(specs)
    ]
    return dict(gpus_by_node(pods, KEY))


def test_a_gpu_that_only_an_init_container_asks_for_is_held() -> None:
    """The scheduler counts it for as long as the pod lives, so no other pod gets it."""
    two = {"resources": {"requests": {KEY: "2"}}}
    assert gpus_on({"nodeName": "n", "containers": [{}], "initContainers": [two]}) == {"n": 2}
    assert gpus_on({"nodeName": "n", "containers": [{}], "initContainers": [two]}, phase="Failed") == {}


@given(st.lists(COUNTS, min_size=1, max_size=3), st.lists(INIT, max_size=4))
def test_gpus_are_counted_as_the_scheduler_counts_them(
    containers: list[dict[str, Any]], init: list[dict[str, Any]]
) -> None:
    """Containers and sidecars together, or one init container beside the sidecars before it if more."""
    spec = {"nodeName": "n", "containers": containers, "initContainers": init}
    wanted = pod_requests(spec).get(KEY)
    assert gpus_on(spec).get("n", 0) == (wanted.units if wanted is not None else 0)
