"""The configuration files of containerd, its network plugins, kubelet, kube-proxy and CoreDNS.

All paths in them are those inside the node's namespaces, under `NODE_DIRECTORY`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml

from kaiwo_sandbox.real_node.images.recipes import PAUSE, REGISTRY
from kaiwo_sandbox.real_node.init import NODE_DIRECTORY
from kaiwo_sandbox.real_node.network import DNS, HOST, NODE, POD_NETWORK
from kaiwo_sandbox.real_node.requirements import CNI_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTAINERD_SOCKET = f"{NODE_DIRECTORY}/containerd.sock"
VOLUMES = f"{NODE_DIRECTORY}/volumes"
_OPEN_FILES = 20000
_KUBELET_HEALTH, _PROXY_HEALTH, _PROXY_METRICS = 10248, 10256, 10249


def files(*, registry_port: int, cgroup: str) -> dict[str, str]:
    """The content of all configuration files by their path in the node's directory."""
    return {
        "containerd.toml": _containerd(),
        f"registries/{REGISTRY}/hosts.toml": _registry(registry_port),
        "cni/10-pods.conflist": json.dumps(_CNI),
        "resolv.conf": f"nameserver {DNS}\n",
        "kubelet.yaml": yaml.safe_dump(_kubelet(cgroup), sort_keys=False),
        "kube-proxy.yaml": yaml.safe_dump(_KUBE_PROXY, sort_keys=False),
        "Corefile": _COREFILE,
    }


def _containerd() -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    runc = f"{cri}.containerd.runtimes.runc"
    return f"""version = 2
root = "{NODE_DIRECTORY}/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "{CONTAINERD_SOCKET}"
[{cri}]
  sandbox_image = "{PAUSE}"
  stream_server_address = "127.0.0.1"
  # A root user without CAP_SYS_RESOURCE may not lower oom_score_adj, which every pod sandbox asks for.
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  disable_hugetlb_controller = true
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  [{cri}.cni]
    bin_dir = "{CNI_DIRECTORY}"
    conf_dir = "{NODE_DIRECTORY}/cni"
  [{cri}.registry]
    config_path = "{NODE_DIRECTORY}/registries"
  [{cri}.containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [{runc}]
      runtime_type = "io.containerd.runc.v2"
      [{runc}.options]
        SystemdCgroup = false
"""


def _registry(port: int) -> str:
    url = f"http://{HOST}:{port}"
    return f'server = "{url}"\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n'


_CNI = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": f"{NODE_DIRECTORY}/ipam",
                "ranges": [[{"subnet": POD_NETWORK}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True},
    ],
}


def _kubelet(cgroup: str) -> Mapping[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        # True is the default from 1.35 on and ends the kubelet on a machine with cgroup v1.
        "failCgroupV1": False,
        # containerd 1.6 cannot tell its driver.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "oomScoreAdj": 0,
        "maxOpenFiles": _OPEN_FILES,
        "failSwapOn": False,
        "address": NODE,
        "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": _KUBELET_HEALTH,
        "tlsCertFile": f"{NODE_DIRECTORY}/pki/kubelet-server.crt",
        "tlsPrivateKeyFile": f"{NODE_DIRECTORY}/pki/kubelet-server.key",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{NODE_DIRECTORY}/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{NODE_DIRECTORY}/resolv.conf",
        # The default is below /usr/libexec, which the node must not write to.
        "volumePluginDir": f"{NODE_DIRECTORY}/volume-plugins",
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "2%",
            "nodefs.inodesFree": "2%",
            "imagefs.available": "2%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "5s",
        # Tests see an object in a pod's volume within seconds.
        "syncFrequency": "5s",
        "configMapAndSecretChangeDetectionStrategy": "Watch",
    }


_KUBE_PROXY: Mapping[str, object] = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "clientConnection": {"kubeconfig": f"{NODE_DIRECTORY}/kube-proxy.kubeconfig"},
    "mode": "iptables",
    "clusterCIDR": POD_NETWORK,
    "oomScoreAdj": 0,
    "healthzBindAddress": f"127.0.0.1:{_PROXY_HEALTH}",
    "metricsBindAddress": f"127.0.0.1:{_PROXY_METRICS}",
    "nodePortAddresses": [f"{NODE}/32"],
    # The network namespace shares the machine's connection table; its limits are not the node's to change.
    "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
}

_COREFILE = f"""cluster.local in-addr.arpa {{
    bind {NODE}
    ready 127.0.0.1:8181
    errors
    cache 5
    loadbalance
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {NODE_DIRECTORY}/coredns.kubeconfig
        pods insecure
        ttl 5
    }}
}}
"""
