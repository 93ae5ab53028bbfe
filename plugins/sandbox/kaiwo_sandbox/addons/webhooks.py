"""Webhooks of controllers on this machine, registered as their projects' manifests say.

The API server calls them at ``https://127.0.0.1:PORT``, with an authority of ours as CA bundle. So neither a
Service nor an address besides loopback is needed, nor root to make one.
"""

from __future__ import annotations

import base64
import shutil
from typing import TYPE_CHECKING

from kaiwo_sandbox import objects
from kaiwo_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.control_plane import Layout

AUTHORITY = "webhook-ca.crt"
"""The certificate, among the sandbox's keys, of who signed the webhook servers' certificates."""


def client_config(layout: Layout, port: str, path: str) -> Object:
    """How the API server reaches `path` of the webhook server whose port is called `port`."""
    return {
        "url": f"https://{LOOPBACK}:{layout.ports[port]}{path}",
        "caBundle": encoded(layout.pki / AUTHORITY),
    }


def encoded(file: Path) -> str:
    """A file's content in base64, as objects carry it."""
    return base64.b64encode(file.read_bytes()).decode()


def _read(manifests: Path) -> list[Object]:
    return objects.read_kinds(manifests, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def wired(manifests: Path, layout: Layout, *, prefix: str, port: str) -> list[Object]:
    """The webhook configurations of the manifests, named as in the project's release, at our addresses."""
    found = _read(manifests)
    for configuration in found:
        # In the module's manifests the names lack the prefix that its release has.
        name = configuration["metadata"]["name"].removeprefix(f"{prefix}-")
        configuration["metadata"]["name"] = f"{prefix}-{name}"
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = client_config(layout, port, path)
    return found


def paths(manifests: Path) -> list[str]:
    """The paths that the manifests' webhooks are called at."""
    return [
        webhook["clientConfig"]["service"]["path"]
        for configuration in _read(manifests)
        for webhook in configuration["webhooks"]
    ]


def write_certificates(layout: Layout, directory: str) -> None:
    """Put the webhook servers' certificate where controllers look for it: a directory with fixed names."""
    place = layout.directory / directory
    place.mkdir(mode=0o700, exist_ok=True)
    for ending in ("crt", "key"):
        shutil.copy(layout.pki / f"webhook.{ending}", place / f"tls.{ending}")
    shutil.copy(layout.pki / AUTHORITY, place / "ca.crt")
