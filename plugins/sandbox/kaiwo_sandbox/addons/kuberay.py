"""KubeRay, with the operator on this machine; it reaches Ray heads through the API server's proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo_sandbox import objects
from kaiwo_sandbox.addons import health
from kaiwo_sandbox.addons.base import Addon
from kaiwo_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.control_plane import Layout

_HEALTH = "kuberay_health"


def _objects(manifests: Path) -> list[Object]:
    return objects.read_kinds(manifests, "CustomResourceDefinition")


def _command(binary: Path, layout: Layout) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={layout.kubeconfig}",
        # Outside a cluster it has no namespace for its lease and would exit.
        "--enable-leader-election=false",
        "--use-kubernetes-proxy=true",
        "--metrics-addr=0",
        f"--health-probe-bind-address={LOOPBACK}:{layout.ports[_HEALTH]}",
    ]


KUBERAY = Addon(
    name="kuberay",
    program="ray-operator",
    port_names=(_HEALTH,),
    objects=_objects,
    wiring=lambda _manifests, _layout: [],
    configure=lambda _layout: None,
    command=_command,
    environment={},
    ready=lambda _manifests, layout: health.answers(layout.ports[_HEALTH], "/readyz"),
)
