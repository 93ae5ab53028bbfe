"""The addon AppWrapper, with the validating and mutating webhooks of its project if it was built with Go.

The project's own program, which comes from an image, serves webhooks on all addresses of the machine at a
fixed port. So it runs without them, and its manifests have no webhook configurations. The program built from
`builds/appwrapper.go` has the same controllers, and webhooks on 127.0.0.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from kaiwo_sandbox import objects
from kaiwo_sandbox.addons import probes, webhooks
from kaiwo_sandbox.addons.base import Addon
from kaiwo_sandbox.builds.official_images import PROJECT_APPWRAPPER
from kaiwo_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.control_plane import Layout

NAMESPACE = "appwrapper-system"
_HEALTH, _WEBHOOK = "appwrapper_health", "appwrapper_webhook"
_CERTIFICATES = "appwrapper-webhook"


def _static_objects(manifests: Path) -> list[Object]:
    definitions = objects.read_kinds(manifests, "CustomResourceDefinition")
    return [objects.namespace(NAMESPACE), *definitions]


def _webhook_objects(manifests: Path, layout: Layout) -> list[Object]:
    if not webhooks.paths(manifests):
        return [_settings(layout)]
    return webhooks.configurations(manifests, layout, prefix="appwrapper", port=_WEBHOOK)


def _settings(layout: Layout) -> Object:
    """The configuration of the project's own program, which it reads from this ConfigMap."""
    configuration = {
        "webhooksEnabled": False,
        "controllerManager": {
            "health": {"bindAddress": f"{LOOPBACK}:{layout.ports[_HEALTH]}"},
            "metrics": {"bindAddress": "0"},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "appwrapper-operator-config", "namespace": NAMESPACE},
        "data": {"config.yaml": yaml.safe_dump(configuration)},
    }


def _command(binary: Path, layout: Layout) -> list[str]:
    if binary.name == PROJECT_APPWRAPPER:
        return [str(binary)]
    return [
        str(binary),
        f"--webhook-host={LOOPBACK}",
        f"--webhook-port={layout.ports[_WEBHOOK]}",
        f"--webhook-cert-dir={layout.directory / _CERTIFICATES}",
        f"--health-probe-bind-address={LOOPBACK}:{layout.ports[_HEALTH]}",
    ]


def _ready(manifests: Path, layout: Layout) -> bool:
    paths = webhooks.paths(manifests)
    if not paths:
        # A request for /readyz would make the project's own program start its webhook server.
        return probes.is_ready(layout.ports[_HEALTH], "/healthz")
    return probes.is_ready(layout.ports[_HEALTH], "/readyz") and probes.serves_webhooks(
        layout.ports[_WEBHOOK], paths, layout.pki / webhooks.AUTHORITY
    )


APPWRAPPER = Addon(
    name="appwrapper",
    program="appwrapper-controller",
    port_names=(_HEALTH, _WEBHOOK),
    static_objects=_static_objects,
    webhook_objects=_webhook_objects,
    write_files=lambda layout: webhooks.write_certificates(layout, _CERTIFICATES),
    command=_command,
    environment=lambda _layout: {"NAMESPACE": NAMESPACE},
    ready=_ready,
)
