"""The kubeconfig file of a sandbox. It contains all keys and certificates, so that it can be copied."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, *, name: str, url: str, pki: Path, client: str = "admin") -> None:
    """Write a kubeconfig for the API server at `url`, readable by its owner alone.

    Args:
        path: the file.
        name: the name of the sandbox.
        url: the URL of the API server.
        pki: directory with the certificates of the authority and of the client.
        client: name of the client's certificate and key.
    """

    def encoded(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode()

    context = f"kaiwo-sandbox-{name}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": context, "cluster": {"server": url, "certificate-authority-data": encoded("ca.crt")}}
        ],
        "users": [
            {
                "name": context,
                "user": {
                    "client-certificate-data": encoded(f"{client}.crt"),
                    "client-key-data": encoded(f"{client}.key"),
                },
            }
        ],
        "contexts": [
            {"name": context, "context": {"cluster": context, "user": context, "namespace": "default"}}
        ],
        "current-context": context,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
