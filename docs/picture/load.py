"""Work on a cluster: users submit jobs of several lengths; an exporter reports how busy their GPUs are."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from typing import TYPE_CHECKING, Any, Final

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine import errors
from kaiwo.engine.resource import POD
from kaiwo.testing.exporter import lines

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.testing.exporter import Exporter

NAMESPACE: Final = "default"
GPU: Final = "amd.com/gpu"

_USERS: Final = {"ada": 97.0, "bohr": 78.0, "curie": 35.0, "darwin": 0.0}
"""Mean utilization of each user's GPUs, in per cent."""

_PAUSE: Final = 6.0
"""Mean seconds between two jobs. With the lengths below, GPUs are short now and then."""

_SECONDS: Final = (15, 40, 60)
_FAILS: Final = 0.1
_EXPORTED: Final = 5.0


def _job(number: int, chance: random.Random) -> dict[str, Any]:
    user = chance.choice(list(_USERS))
    annotations = {"kaiwo-sandbox/run-time": f"{chance.choice(_SECONDS)}s"}
    if chance.random() < _FAILS:
        annotations["kaiwo-sandbox/exit-code"] = "1"
    spec: dict[str, Any] = {
        "user": f"{user}@example.com", "gpus": chance.choice((1, 2, 4)),
        "image": "registry.example.com/train:1.0", "entrypoint": "python train.py\n",
    }  # fmt: skip
    name = f"{user}-{number}"
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations}
    return {"apiVersion": KAIWO_JOB.api_version, "kind": KAIWO_JOB.kind, "metadata": metadata, "spec": spec}


async def submit(client: Client, seed: int, until: float) -> int:
    """Create jobs until a time.

    Args:
        client: an administrator's.
        seed: chooses users, sizes and lengths.
        until: value of ``time.monotonic``.

    Returns:
        How many were created.
    """
    chance = random.Random(seed)  # noqa: S311  no secret
    number = 0
    while time.monotonic() < until:
        number += 1
        await client.create(KAIWO_JOB, _job(number, chance))
        await asyncio.sleep(chance.expovariate(1 / _PAUSE))
    return number


async def export(client: Client, exporter: Exporter) -> None:
    """Let an exporter report the GPUs of all running pods, until cancelled."""
    while True:
        pods: dict[tuple[str, str], list[float]] = {}
        with contextlib.suppress(errors.ConnectionBroken):
            async for pod in client.list(POD, NAMESPACE):
                if pod.get("status", {}).get("phase") == "Running":
                    name = pod["metadata"]["name"]
                    pods[(NAMESPACE, name)] = _uses(pod, _USERS.get(name.partition("-")[0], 0.0))
            exporter.body = lines(pods)
        await asyncio.sleep(_EXPORTED)


def _uses(pod: dict[str, Any], mean: float) -> list[float]:
    [container, *_] = pod["spec"]["containers"]
    count = int(container.get("resources", {}).get("limits", {}).get(GPU, 0))
    wave = math.sin(time.monotonic() / 20)
    return [min(100.0, max(0.0, mean * (1 + 0.1 * wave) - gpu)) for gpu in range(count)]
