"""The command lines and configuration files of etcd, the Kubernetes programs and kwok.

All programs listen on 127.0.0.1 and use the administrator's kubeconfig. With it the controller-manager starts
faster than with one service account per controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from kaiwo_sandbox.certs import ADMIN, ADMIN_GROUP, FRONT_PROXY
from kaiwo_sandbox.generations import NEWER, OLDER
from kaiwo_sandbox.ports import LOOPBACK
from kaiwo_sandbox.real_node import certificates, network

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FAKE_NODE = ("kwok.x-k8s.io/node", "fake")
"""The annotation of the nodes that kwok simulates."""

PACKING_SCHEDULER = "kaiwo-scheduler"
GPU_KEYS = ("amd.com/gpu", "nvidia.com/gpu")

PORT_NAMES = ("etcd", "etcd_peer", "apiserver", "kubelet")

_QPS, _BURST = 500, 1000
"""Client-side rate limits. The defaults (20, 50) would limit benchmarks more than the API server does."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The files and ports of one sandbox, the generation of its addons, and whether it has a real node."""

    directory: Path
    ports: Mapping[str, int]
    generation: str = NEWER.name
    real_node: bool = False

    @property
    def is_older(self) -> bool:
        """Whether the addons are of the older generation."""
        return self.generation == OLDER.name

    @property
    def pki(self) -> Path:
        """The directory of keys and certificates, a copy of the cached one."""
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
        """The URL of the API server."""
        return f"https://{self.address}:{self.ports['apiserver']}"

    @property
    def address(self) -> str:
        """The address of the API server. Pods of a real node cannot reach the loopback address."""
        return network.HOST if self.real_node else LOOPBACK


def etcd(binary: Path, layout: Layout) -> list[str]:
    """The command of etcd, without fsync, because the data need not survive a power failure."""
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
    """The command of kube-apiserver.

    Without a real node nothing routes the addresses of Services, so aggregator routing leads from a Service
    to its endpoints. With one, webhooks are called at the Service's address as in an ordinary cluster.
    """
    pki = layout.pki
    certificate = certificates.API_SERVER if layout.real_node else "apiserver"
    return [
        str(binary),
        f"--etcd-servers=http://{LOOPBACK}:{layout.ports['etcd']}",
        f"--bind-address={layout.address}",
        f"--secure-port={layout.ports['apiserver']}",
        f"--advertise-address={layout.address}",
        # It would keep the port of an earlier sandbox in the endpoints of the Service "kubernetes".
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={pki / f'{certificate}.crt'}",
        f"--tls-private-key-file={pki / f'{certificate}.key'}",
        f"--kubelet-client-certificate={pki / 'admin.crt'}",
        f"--kubelet-client-key={pki / 'admin.key'}",
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
        f"--enable-aggregator-routing={str(not layout.real_node).lower()}",
        "--profiling=false",
    ]


def controller_manager(binary: Path, layout: Layout) -> list[str]:
    """The command of kube-controller-manager, with dynamic host-path volumes."""
    return [
        str(binary),
        f"--kubeconfig={layout.kubeconfig}",
        "--secure-port=0",
        "--leader-elect=false",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--service-account-private-key-file={layout.pki / 'service-account.key'}",
        "--enable-hostpath-provisioner=true",
        # Heartbeats are late on a loaded machine, and tests must not see nodes become NotReady.
        "--node-monitor-grace-period=120s",
        f"--kube-api-qps={_QPS}",
        f"--kube-api-burst={_BURST}",
    ]


def scheduler(binary: Path, layout: Layout) -> list[str]:
    """The command of kube-scheduler."""
    return [str(binary), f"--config={layout.directory / 'scheduler.yaml'}", "--secure-port=0"]


def kwok(binary: Path, layout: Layout) -> list[str]:
    """The command of kwok, which simulates the kubelets of the fake nodes."""
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
    """The scheduler's two profiles: the default one, and one that packs pods by GPU use."""
    packing = {
        "schedulerName": PACKING_SCHEDULER,
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio",
                        "resources": [{"name": key, "weight": 5} for key in GPU_KEYS],
                        # Utilization is in percent, and scores are from 0 to 10.
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
    """The content of the static token file: token, user, uid, groups."""
    return f'{token},{ADMIN},{ADMIN},"{ADMIN_GROUP}"\n'
