"""Start the real node of a sandbox, and remove what the kernel leaves of it."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from kaiwo_sandbox import nodes, objects, process, readiness
from kaiwo_sandbox.addons.probes import is_ready
from kaiwo_sandbox.real_node import (
    certificates,
    cgroups,
    configuration,
    namespaces,
    network,
    volumes,
)
from kaiwo_sandbox.real_node.images import recipes, registry, store
from kaiwo_sandbox.real_node.init import NODE_DIRECTORY

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.api import ApiClient, Object
    from kaiwo_sandbox.control_plane import Layout
    from kaiwo_sandbox.state import SandboxState

PORT_NAMES = ("registry",)
TAINT = "kaiwo-sandbox/real-node"
"""Taint of a real node that is not alone, and label of every real node."""

GPUS = 8
_DIRECTORY = "node"
_REGISTRY_DIRECTORY = "registry"


def files_of(directory: Path) -> Path:
    """The node's files in the directory of a sandbox."""
    return directory / _DIRECTORY


def registry_root(directory: Path) -> Path:
    """The links to the images that the sandbox's registry serves."""
    return directory / _REGISTRY_DIRECTORY


def prepare(layout: Layout, state: SandboxState) -> int:
    """Start the namespaces and connect them with the machine, before anything listens on the link.

    Returns:
        The pid of the namespaces' init process.

    Raises:
        SandboxError: the kernel rejected a step.
    """
    certificates.write_api_server(layout.pki)
    files = files_of(layout.directory)
    shutil.rmtree(files, ignore_errors=True)
    init = namespaces.start(layout.directory, files)
    network.connect(init.pid)
    for command in network.commands_inside():
        namespaces.run(init.pid, command)
    network.add_routes()
    cgroups.create(cgroups.name(state.name))
    return init.pid


def start(api: ApiClient, layout: Layout, state: SandboxState, pid: int) -> None:
    """Start the node's programs in the namespaces of `pid`, and return when the node is Ready.

    Raises:
        SandboxError: a program exited or did not become ready.
    """
    directory, files = layout.directory, files_of(layout.directory)
    texts = configuration.files(registry_port=layout.ports["registry"], cgroup=cgroups.name(state.name))
    for name, text in texts.items():
        path = files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    certificates.write_node(layout.pki, files, name=state.name, url=layout.url)
    shutil.copytree(layout.pki, files / "pki", dirs_exist_ok=True)
    objects.create_all(api, [*_dns_objects(), _api_server_endpoints(layout.ports["apiserver"])])
    _start_registry(layout)
    _start_containerd(directory, pid)
    inside = NODE_DIRECTORY
    commands = {
        "kubelet": [
            state.programs["kubelet"],
            f"--config={inside}/kubelet.yaml",
            f"--kubeconfig={inside}/kubelet.kubeconfig",
            f"--hostname-override={certificates.NODE_NAME}",
            f"--node-ip={network.NODE}",
            f"--root-dir={inside}/kubelet",
            f"--cert-dir={inside}/kubelet/pki",
        ],
        "kube-proxy": [
            state.programs["kube-proxy"],
            f"--config={inside}/kube-proxy.yaml",
            f"--hostname-override={certificates.NODE_NAME}",
        ],
        "coredns": [state.programs["coredns"], "-conf", f"{inside}/Corefile"],
        "volumes": [
            sys.executable,
            "-m",
            volumes.__name__,
            layout.url,
            f"{inside}/pki",
            configuration.VOLUMES,
        ],
    }
    for name, command in commands.items():
        namespaces.start_program(name, pid, command, directory=directory)
    _wait_for_registration(api, directory)
    _describe(api, alone=not state.nodes)
    readiness.wait_for_nodes(api, [certificates.NODE_NAME])


def _start_registry(layout: Layout) -> None:
    root = registry_root(layout.directory)
    for image in recipes.standard():
        registry.add(root, image.name, store.ensure(image))
    port = layout.ports["registry"]
    started = process.start(
        "registry",
        [sys.executable, "-m", registry.__name__, str(root), network.HOST, str(port)],
        directory=layout.directory,
    )
    readiness.wait_until(
        "the image registry",
        lambda: is_ready(port, "/v2/", host=network.HOST),
        directory=layout.directory,
        program=started,
    )


def _start_containerd(directory: Path, pid: int) -> None:
    command = ["containerd", "--config", f"{NODE_DIRECTORY}/containerd.toml"]
    started = namespaces.start_program("containerd", pid, command, directory=directory)
    probe = ["ctr", "--address", configuration.CONTAINERD_SOCKET, "version"]
    readiness.wait_until(
        "containerd",
        lambda: namespaces.run(pid, probe, check=False).returncode == 0,
        directory=directory,
        program=started,
    )


def _dns_objects() -> list[Object]:
    """The Service of the cluster's DNS, and its endpoint, which is no pod."""
    ports = [("dns", "UDP"), ("dns-tcp", "TCP")]
    metadata = {"namespace": "kube-system", "labels": {"kubernetes.io/service-name": "kube-dns"}}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata, "name": "kube-dns"},
        "spec": {
            "clusterIP": network.DNS,
            "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in ports],
        },
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "name": "kube-dns"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [network.NODE], "conditions": {"ready": True}}],
        "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in ports],
    }
    return [service, endpoints]


def _api_server_endpoints(port: int) -> Object:
    """The endpoints of the Service `kubernetes`, at which pods reach the API server."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [network.HOST], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }


def _wait_for_registration(api: ApiClient, directory: Path) -> None:
    name = certificates.NODE_NAME
    readiness.wait_until(
        f'node "{name}"',
        lambda: any(item["metadata"]["name"] == name for item in api.get("/api/v1/nodes")["items"]),
        directory=directory,
        program=process.recorded(directory)["kubelet"],
    )


def _describe(api: ApiClient, *, alone: bool) -> None:
    """Give the node the labels and the count of GPUs that a device plugin would report, and its taint.

    Pods for the simulated nodes must not run on it, so it is tainted unless it is alone.
    """
    path = f"/api/v1/nodes/{certificates.NODE_NAME}"
    like = nodes.amd_node(certificates.NODE_NAME, gpus=GPUS)
    labels = {key: value for key, value in like["metadata"]["labels"].items() if "kubernetes.io" not in key}
    taints = [] if alone else [{"key": TAINT, "effect": "NoSchedule"}]
    body = {"metadata": {"labels": {**labels, TAINT: ""}}, "spec": {"taints": taints}}
    api.request("PATCH", path, body, content_type="application/strategic-merge-patch+json")
    gpus = {"amd.com/gpu": str(GPUS)}
    status = {"status": {"capacity": gpus, "allocatable": gpus}}
    api.request("PATCH", f"{path}/status", status, content_type="application/strategic-merge-patch+json")


def remove_remains(name: str) -> None:
    """Remove the cgroup of a sandbox's real node, whose processes have ended, and wait for the kernel.

    Raises:
        SandboxError: a cgroup or the link remains.
    """
    cgroups.remove(cgroups.name(name))
    network.wait_until_link_is_gone()
