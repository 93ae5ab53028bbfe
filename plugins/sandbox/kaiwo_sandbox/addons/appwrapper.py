"""The addon AppWrapper, with the validating and mutating webhooks of its project.

The project's own program serves webhooks on all addresses of the machine at a fixed port. The program built
from `builds/appwrapper.go` has the same controllers and webhooks on 127.0.0.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo_sandbox import objects
from kaiwo_sandbox.addons import probes, webhooks
from kaiwo_sandbox.addons.base import Addon
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
    return webhooks.configurations(manifests, layout, prefix="appwrapper", port=_WEBHOOK)


def _command(binary: Path, layout: Layout) -> list[str]:
    return [
        str(binary),
        f"--webhook-host={LOOPBACK}",
        f"--webhook-port={layout.ports[_WEBHOOK]}",
        f"--webhook-cert-dir={layout.directory / _CERTIFICATES}",
        f"--health-probe-bind-address={LOOPBACK}:{layout.ports[_HEALTH]}",
    ]


def _ready(manifests: Path, layout: Layout) -> bool:
    return probes.is_ready(layout.ports[_HEALTH], "/readyz") and probes.serves_webhooks(
        layout.ports[_WEBHOOK], webhooks.paths(manifests), layout.pki / webhooks.AUTHORITY
    )


APPWRAPPER = Addon(
    name="appwrapper",
    program="appwrapper-controller",
    port_names=(_HEALTH, _WEBHOOK),
    static_objects=_static_objects,
    webhook_objects=_webhook_objects,
    write_files=lambda layout: webhooks.write_certificates(layout, _CERTIFICATES),
    command=_command,
    environment=lambda _layout: {},
    ready=_ready,
)
