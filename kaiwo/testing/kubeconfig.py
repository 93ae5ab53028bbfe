"""Kubeconfigs without credentials: for proxies of tests, and for an address where nothing listens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE: Final = "http://127.0.0.1:1"
"""An API server that is not there: no program listens at the port of tcpmux (RFC 1078)."""


def write_kubeconfig(path: Path, server: str, namespace: str = "") -> Path:
    """Write a kubeconfig without credentials.

    Args:
        path: the file.
        server: URL of the API server.
        namespace: of the context; empty for that of Kubernetes.

    Returns:
        The file.
    """
    context = {"cluster": "test", **({"namespace": namespace} if namespace else {})}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [],
        "contexts": [{"name": "test", "context": context}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path
