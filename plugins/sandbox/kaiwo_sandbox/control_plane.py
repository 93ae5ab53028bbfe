"""The command lines and configuration files of etcd, the Kubernetes programs and kwok.

Every program listens on 127.0.0.1. All of them use the administrator's kubeconfig: the controller-manager
starts quicker than with an account per controller, and roles are tested with the account of the program under
test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from kaiwo_sandbox.catalogue import NEWER, OLDER
from kaiwo_sandbox.certs import ADMIN, ADMIN_GROUP, FRONT_PROXY
from kaiwo_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FAKE_NODE = ("kwok.x-k8s.io/node", "fake")
"""The annotation that makes kwok play a node's kubelet."""

PACKING_SCHEDULER = "kaiwo-scheduler"
GPU_KEYS = ("amd.com/gpu", "nvidia.com/gpu")

PORT_NAMES = ("etcd", "etcd_peer", "apiserver", "kubelet")

_QPS, _BURST = 500, 1000
"""Limits per second on the client side; the defaults (20, 50) would be measured instead of the API server."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one sandbox's files lie, which ports its programs have, and its addons' generation."""

    directory: Path
    ports: Mapping[str, int]
    generation: str = NEWER.name

    @property
    def is_older(self) -> bool:
        """Whether the addons are of the older generation."""
        return self.generation == OLDER.name

    @property
    def pki(self) -> Path:
        """Keys and certificates, a copy of the cached ones."""
        return self.directory / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def data(self) -> Path:
        """The data directory of etcd."""
        return self.directory / "etcd"

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{LOOPBACK}:{self.ports['apiserver']}"


def etcd(binary: Path, layout: Layout) -> list[str]:
    """Command of etcd, without fsync: the data are thrown away anyway, and need not survive a power cut."""
    client = f"http://{LOOPBACK}:{layout.ports['etcd']}"
    peer = f"http://{LOOPBACK}:{layout.ports['etcd_peer']}"
    return [
        str(binary),
        f"--data-dir={layout.data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--quota-backend-bytes={4 << 30}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(binary: Path, layout: Layout) -> list[str]:
    """Command of kube-apiserver, with aggregator routing: a Service without pods may lead to a webhook."""
    pki = layout.pki
    return [
        str(binary),
        f"--etcd-servers=http://{LOOPBACK}:{layout.ports['etcd']}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports['apiserver']}",
        f"--advertise-address={LOOPBACK}",
        # A loopback address is not allowed in the endpoints of the service "kubernetes".
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--token-auth-file={layout.directory / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki / 'service-account.key'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--enable-aggregator-routing=true",
        "--profiling=false",
    ]


def controller_manager(binary: Path, layout: Layout) -> list[str]:
    """Command of kube-controller-manager, with dynamic host-path volumes."""
    return [
        str(binary),
        f"--kubeconfig={layout.kubeconfig}",
        "--secure-port=0",
        "--leader-elect=false",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--service-account-private-key-file={layout.pki / 'service-account.key'}",
        "--enable-hostpath-provisioner=true",
        # A loaded machine delays heartbeats; nodes that flap would make tests lie.
        "--node-monitor-grace-period=120s",
        f"--kube-api-qps={_QPS}",
        f"--kube-api-burst={_BURST}",
    ]


def scheduler(binary: Path, layout: Layout) -> list[str]:
    """Command of kube-scheduler."""
    return [str(binary), f"--config={layout.directory / 'scheduler.yaml'}", "--secure-port=0"]


def kwok(binary: Path, layout: Layout) -> list[str]:
    """Command of kwok, which plays the kubelets of the fake nodes."""
    port = layout.ports["kubelet"]
    return [
        str(binary),
        f"--kubeconfig={layout.kubeconfig}",
        f"--config={layout.directory / 'kwok.yaml'}",
        f"--manage-nodes-with-annotation-selector={'='.join(FAKE_NODE)}",
        "--node-lease-duration-seconds=40",
        "--cidr=10.244.0.0/16",
        f"--node-ip={LOOPBACK}",
        f"--node-port={port}",
        f"--server-address={LOOPBACK}:{port}",
        f"--tls-cert-file={layout.pki / 'kubelet.crt'}",
        f"--tls-private-key-file={layout.pki / 'kubelet.key'}",
        "--v=WARN",
    ]


def scheduler_configuration(kubeconfig: Path) -> str:
    """Two profiles: the default one, and one that fills nodes with GPUs in use before it opens another."""
    packing = {
        "schedulerName": PACKING_SCHEDULER,
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio",
                        "resources": [{"name": key, "weight": 5} for key in GPU_KEYS],
                        # Scores run from 0 to 10, in percent of what a node has.
                        "requestedToCapacityRatio": {
                            "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                        },
                    }
                },
            }
        ],
        "plugins": {
            "score": {
                "disabled": [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}],
                "enabled": [{"name": "NodeResourcesFit", "weight": 5}],
            }
        },
    }
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _QPS, "burst": _BURST},
        "profiles": [{"schedulerName": "default-scheduler"}, packing],
    }
    return yaml.safe_dump(configuration, sort_keys=False)


def token_file(token: str) -> str:
    """The static token file: token, user, uid, groups."""
    return f'{token},{ADMIN},{ADMIN},"{ADMIN_GROUP}"\n'
