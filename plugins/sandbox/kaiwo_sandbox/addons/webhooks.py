"""Registration of the addons' webhooks, based on the manifests of their projects.

The API server calls webhooks at ``https://127.0.0.1:PORT`` and verifies them with the sandbox's authority.
This needs neither a Service nor root.
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
"""File name of the authority's certificate that signed the certificates of webhook servers."""


def client_config(layout: Layout, port: str, path: str) -> Object:
    """Build the client configuration for `path` of the webhook server at the port named `port`."""
    return {
        "url": f"https://{LOOPBACK}:{layout.ports[port]}{path}",
        "caBundle": base64_of(layout.pki / AUTHORITY),
    }


def base64_of(file: Path) -> str:
    """The content of a file in base64, as Kubernetes objects contain it."""
    return base64.b64encode(file.read_bytes()).decode()


def _read(manifests: Path) -> list[Object]:
    return objects.read_kinds(manifests, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def configurations(manifests: Path, layout: Layout, *, prefix: str, port: str) -> list[Object]:
    """The webhook configurations of the manifests, with the names of the release and the sandbox's URLs."""
    found = _read(manifests)
    for configuration in found:
        # The release prefixes the names; the manifests in the Go module have no prefix.
        name = configuration["metadata"]["name"].removeprefix(f"{prefix}-")
        configuration["metadata"]["name"] = f"{prefix}-{name}"
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = client_config(layout, port, path)
    return found


def paths(manifests: Path) -> list[str]:
    """The URL paths of the manifests' webhooks."""
    return [
        webhook["clientConfig"]["service"]["path"]
        for configuration in _read(manifests)
        for webhook in configuration["webhooks"]
    ]


def write_certificates(layout: Layout, directory: str) -> None:
    """Copy the certificate of webhook servers to `directory`, with the file names that controllers expect."""
    target = layout.directory / directory
    target.mkdir(mode=0o700, exist_ok=True)
    for ending in ("crt", "key"):
        shutil.copy(layout.pki / f"webhook.{ending}", target / f"tls.{ending}")
    shutil.copy(layout.pki / AUTHORITY, target / "ca.crt")
