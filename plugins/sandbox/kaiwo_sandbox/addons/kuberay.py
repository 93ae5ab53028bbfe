"""The addon KubeRay: its operator, and a simulator of Ray heads.

The operator calls heads over plain HTTP by the names of their Services, which do not resolve on this machine.
Go programs send plain HTTP requests to the proxy in `HTTP_PROXY`, and the simulator is that proxy. It
forwards what is for heads on the real node. Requests to the API server use HTTPS and bypass it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kaiwo_sandbox import objects
from kaiwo_sandbox.addons import probes
from kaiwo_sandbox.addons.base import Addon
from kaiwo_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.control_plane import Layout

_HEALTH, _HEADS = "kuberay_health", "ray_heads"


def _static_objects(manifests: Path) -> list[Object]:
    return objects.read_kinds(manifests, "CustomResourceDefinition")


def _command(binary: Path, layout: Layout) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={layout.kubeconfig}",
        # Outside a cluster the operator has no namespace for its lease and would exit.
        "--enable-leader-election=false",
        "--metrics-addr=0",
        f"--health-probe-bind-address={LOOPBACK}:{layout.ports[_HEALTH]}",
    ]


def _head_simulator(layout: Layout) -> dict[str, list[str]]:
    port = str(layout.ports[_HEADS])
    command = [sys.executable, "-m", "kaiwo_sandbox.ray", layout.url, str(layout.pki), port]
    return {"ray-heads": [*command, *(["--real-node"] if layout.real_node else [])]}


def _ready(_manifests: Path, layout: Layout) -> bool:
    return probes.is_ready(layout.ports[_HEADS], "/-/healthz") and probes.is_ready(
        layout.ports[_HEALTH], "/readyz"
    )


KUBERAY = Addon(
    name="kuberay",
    program="ray-operator",
    port_names=(_HEALTH, _HEADS),
    static_objects=_static_objects,
    webhook_objects=lambda _manifests, _layout: [],
    write_files=lambda _layout: None,
    command=_command,
    environment=lambda layout: {"HTTP_PROXY": f"http://{LOOPBACK}:{layout.ports[_HEADS]}"},
    ready=_ready,
    sidecars=_head_simulator,
)
