"""KubeRay, with the operator on this machine, and the stand-in for Ray heads that it asks.

It calls heads by the names of their Services, by plain HTTP. These names lead nowhere on this machine, but Go
programs send plain HTTP through the proxy that `HTTP_PROXY` names, and there the stand-in answers. Calls of
the API server are HTTPS and go straight there.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kaiwo_sandbox import objects
from kaiwo_sandbox.addons import health
from kaiwo_sandbox.addons.base import Addon
from kaiwo_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.control_plane import Layout

_HEALTH, _HEADS = "kuberay_health", "ray_heads"


def _objects(manifests: Path) -> list[Object]:
    return objects.read_kinds(manifests, "CustomResourceDefinition")


def _command(binary: Path, layout: Layout) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={layout.kubeconfig}",
        # Outside a cluster it has no namespace for its lease and would exit.
        "--enable-leader-election=false",
        "--metrics-addr=0",
        f"--health-probe-bind-address={LOOPBACK}:{layout.ports[_HEALTH]}",
    ]


def _heads(layout: Layout) -> dict[str, list[str]]:
    port = str(layout.ports[_HEADS])
    return {"ray-heads": [sys.executable, "-m", "kaiwo_sandbox.ray", layout.url, str(layout.pki), port]}


def _ready(_manifests: Path, layout: Layout) -> bool:
    return health.answers(layout.ports[_HEADS], "/-/healthz") and health.answers(
        layout.ports[_HEALTH], "/readyz"
    )


KUBERAY = Addon(
    name="kuberay",
    program="ray-operator",
    port_names=(_HEALTH, _HEADS),
    objects=_objects,
    wiring=lambda _manifests, _layout: [],
    configure=lambda _layout: None,
    command=_command,
    environment=lambda layout: {"HTTP_PROXY": f"http://{LOOPBACK}:{layout.ports[_HEADS]}"},
    ready=_ready,
    companions=_heads,
)
