"""The certificates and kubeconfigs of the real node, signed by the sandbox's authority at each start."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kaiwo_sandbox import certs, kubeconfig
from kaiwo_sandbox.real_node.network import HOST, NODE

if TYPE_CHECKING:
    from pathlib import Path

API_SERVER = "apiserver-for-node"
"""Name of the API server's certificate with the address that the node reaches it at."""

NODE_NAME = "real-1"
"""Name of the real node."""

_CLIENTS = {
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
    "kube-proxy": ("system:kube-proxy", ""),
    "coredns": (certs.ADMIN, certs.ADMIN_GROUP),
    "volumes": (certs.ADMIN, certs.ADMIN_GROUP),
}
"""User and group of each program, by its name."""


def write_api_server(pki: Path) -> None:
    """Write the API server's certificate for its address on the link to the node."""
    certs.issue(pki, API_SERVER, "kube-apiserver", alternatives=(*certs.API_SERVER_SANS, HOST))


def write_node(pki: Path, files: Path, *, name: str, url: str) -> None:
    """Write the kubelet's server certificate and a kubeconfig per client to the node's directory."""
    target = files / "pki"
    target.mkdir(mode=0o700)
    for file in ("ca.crt", "ca.key"):
        shutil.copy(pki / file, target / file)
    certs.issue(target, "kubelet-server", NODE_NAME, alternatives=(NODE_NAME, NODE))
    for client, (user, group) in _CLIENTS.items():
        certs.issue(target, client, user, group=group)
        kubeconfig.write(files / f"{client}.kubeconfig", name=name, url=url, pki=target, client=client)
    (target / "ca.key").unlink()
