"""AppWrapper, with its webhooks switched off: its program would serve them on every address at a fixed port.

Kueue's own webhook suspends AppWrappers that have a queue label, and the controller infers their pod sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from kaiwo_sandbox import objects
from kaiwo_sandbox.addons import health
from kaiwo_sandbox.addons.base import Addon
from kaiwo_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.control_plane import Layout

NAMESPACE = "appwrapper-system"
_HEALTH = "appwrapper_health"


def _objects(manifests: Path) -> list[Object]:
    definitions = objects.read_kinds(manifests, "CustomResourceDefinition")
    return [objects.namespace(NAMESPACE), *definitions]


def _wiring(_manifests: Path, layout: Layout) -> list[Object]:
    configuration = {
        "webhooksEnabled": False,
        "controllerManager": {
            "health": {"bindAddress": f"{LOOPBACK}:{layout.ports[_HEALTH]}"},
            "metrics": {"bindAddress": "0"},
            "leaderElection": False,
        },
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "appwrapper-operator-config", "namespace": NAMESPACE},
            "data": {"config.yaml": yaml.safe_dump(configuration)},
        }
    ]


APPWRAPPER = Addon(
    name="appwrapper",
    program="appwrapper",
    port_names=(_HEALTH,),
    objects=_objects,
    wiring=_wiring,
    configure=lambda _layout: None,
    command=lambda binary, _layout: [str(binary), "--zap-devel=false"],
    environment={"NAMESPACE": NAMESPACE},
    # Not /readyz: asking it starts the webhook server, which then finds no certificate and ends the program.
    ready=lambda _manifests, layout: health.answers(layout.ports[_HEALTH], "/healthz"),
)
