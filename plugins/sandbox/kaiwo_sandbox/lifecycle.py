"""Start the programs of a sandbox in order, stop them, and reset their data."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import closing
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from kaiwo_sandbox import (
    addons,
    certs,
    control_plane,
    etcd_template,
    kubeconfig,
    objects,
    process,
    readiness,
)
from kaiwo_sandbox.api import ApiClient
from kaiwo_sandbox.control_plane import Layout
from kaiwo_sandbox.ports import wait_until_free
from kaiwo_sandbox.real_node import node, volumes

if TYPE_CHECKING:
    from kaiwo_sandbox.addons.base import Addon
    from kaiwo_sandbox.process import Process
    from kaiwo_sandbox.state import SandboxState

_LOG_LINE = "2026-01-01T00:00:00.0Z stdout F This pod is simulated: nothing was computed.\n"
"""The log of every fake pod, in the format of container runtimes (CRI)."""

WATCHDOG = "watchdog"


def layout(directory: Path, state: SandboxState) -> Layout:
    """The files and ports of this sandbox."""
    return Layout(directory, state.ports, state.generation, state.real_node)


def write_files(directory: Path, state: SandboxState) -> None:
    """Write the keys, the kubeconfig and the configuration files of a new sandbox."""
    files = layout(directory, state)
    shutil.copytree(certs.ensure(), files.pki, dirs_exist_ok=True)
    kubeconfig.write(files.kubeconfig, name=state.name, url=files.url, pki=files.pki)
    token = secrets.token_urlsafe(32)
    for name, text in (("token", token), ("tokens.csv", control_plane.token_file(token))):
        path = directory / name
        path.touch(mode=0o600)
        path.write_text(text)
    (directory / "scheduler.yaml").write_text(control_plane.scheduler_configuration(files.kubeconfig))
    (directory / "pod.log").write_text(_LOG_LINE)
    stages = resources.files("kaiwo_sandbox").joinpath("stages.yaml").read_text(encoding="utf-8")
    logs = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": "simulated"},
        "spec": {"logs": [{"logsFile": str(directory / "pod.log"), "follow": False}]},
    }
    (directory / "kwok.yaml").write_text(f"{stages}---\n{yaml.safe_dump(logs)}")
    for addon in addons.load(state.addons):
        addon.write_files(files)


def start(directory: Path, state: SandboxState) -> None:
    """Start all programs. Restore etcd's data from the template, or create the template.

    Raises:
        SandboxError: a program exited or did not become ready.
    """
    files = layout(directory, state)
    template = Path(state.template)
    restored = etcd_template.restore(template, files.data)
    template_ports = etcd_template.ports(template)
    node_pid = node.prepare(files, state) if state.real_node else None
    etcd = process.start("etcd", control_plane.etcd(Path(state.programs["etcd"]), files), directory=directory)
    start_api_server(directory, state)
    selected = addons.load(state.addons)
    addon_ports = [name for addon in selected for name in addon.port_names]
    with closing(ApiClient(files.url, files.pki)) as api:
        if not restored:
            _create_initial_objects(api, directory, state, selected)
            _apply_webhook_objects(api, directory, state, selected)
            etcd_template.save(template, etcd, files.data, state.ports)
        elif any(template_ports.get(name) != state.ports[name] for name in addon_ports):
            _apply_webhook_objects(api, directory, state, selected)
        _start_controllers(directory, state)
        objects.create_all(api, state.nodes)
        if node_pid is not None:
            node.start(api, files, state, node_pid)
        _start_addons(directory, state, selected)
        readiness.wait_for_nodes(api, [item["metadata"]["name"] for item in state.nodes])
        readiness.wait_for_service_account(api, "default")


def _start_controllers(directory: Path, state: SandboxState) -> None:
    """Start the programs of Kubernetes that are clients of the API server, and the simulated nodes."""
    files = layout(directory, state)
    for name, command in (
        ("kube-controller-manager", control_plane.controller_manager),
        ("kube-scheduler", control_plane.scheduler),
        ("kwok", control_plane.kwok),
    ):
        process.start(name, command(Path(state.programs[name]), files), directory=directory)


def start_api_server(directory: Path, state: SandboxState) -> Process:
    """Start the API server and wait until it is ready.

    Raises:
        SandboxError: it exited or did not become ready.
    """
    files = layout(directory, state)
    command = control_plane.apiserver(Path(state.programs["kube-apiserver"]), files)
    server = process.start("kube-apiserver", command, directory=directory)
    with closing(ApiClient(files.url, files.pki)) as api:
        readiness.wait_until(
            "the API server",
            lambda: readiness.api_is_ready(api),
            directory=directory,
            program=server,
        )
    return server


def _create_initial_objects(
    api: ApiClient, directory: Path, state: SandboxState, selected: list[Addon]
) -> None:
    """Create the objects of every new sandbox with these addons."""
    items = volumes.storage_classes() if state.real_node else [objects.STORAGE_CLASS]
    for addon in selected:
        items += addon.static_objects(Path(state.manifests[addon.name]))
    objects.create_all(api, items)
    definitions = [item for item in items if item["kind"] == "CustomResourceDefinition"]
    readiness.wait_for_crds(api, definitions, directory=directory)


def _apply_webhook_objects(
    api: ApiClient, directory: Path, state: SandboxState, selected: list[Addon]
) -> None:
    """Apply the objects that contain ports of this sandbox."""
    files = layout(directory, state)
    items = []
    for addon in selected:
        items += addon.webhook_objects(Path(state.manifests[addon.name]), files)
    objects.apply_all(api, items)


def _start_addons(directory: Path, state: SandboxState, selected: list[Addon]) -> None:
    """Start all addons, then wait until all of them are ready."""
    files = layout(directory, state)
    for name, command in (each for addon in selected for each in addon.sidecars(files).items()):
        process.start(name, command, directory=directory)
    running = [
        process.start(
            addon.name,
            addon.command(Path(state.programs[addon.program]), files),
            directory=directory,
            environment={**addon.environment(files), "KUBECONFIG": str(files.kubeconfig)},
        )
        for addon in selected
    ]
    for addon, controller in zip(selected, running, strict=True):
        readiness.wait_until(
            addon.name,
            partial(addon.ready, Path(state.manifests[addon.name]), files),
            directory=directory,
            program=controller,
        )


def is_running(directory: Path) -> bool:
    """Whether any program of the sandbox runs, apart from its watchdog."""
    return any(each.alive() for each in process.recorded(directory).values() if each.name != WATCHDOG)


def stop(directory: Path, *, keep: tuple[str, ...] = ()) -> None:
    """Stop all processes of the sandbox except those in `keep`; the API server and etcd last.

    Raises:
        SandboxError: a process does not end.
    """
    running = process.recorded(directory)
    for name in sorted(running, key=lambda name: (name == "etcd", name == "kube-apiserver", name)):
        if name in keep:
            continue
        if running[name].pid != os.getpid():  # the watchdog runs this code too
            running[name].kill()
        (directory / "pids" / f"{name}.json").unlink(missing_ok=True)


def restart_api_server(directory: Path, state: SandboxState) -> None:
    """Kill the API server and start it again on the same port; the other programs keep running.

    Raises:
        SandboxError: it did not become ready again.
    """
    server = process.recorded(directory).get("kube-apiserver")
    if server is not None:
        server.kill()
    wait_until_free(state.ports["apiserver"])
    start_api_server(directory, state)


def start_etcd(directory: Path, state: SandboxState) -> None:
    """Start etcd with the data that it has; programs that wait for it go on by themselves."""
    for port in ("etcd", "etcd_peer"):
        wait_until_free(state.ports[port])
    command = control_plane.etcd(Path(state.programs["etcd"]), layout(directory, state))
    process.start("etcd", command, directory=directory)


def restore(directory: Path, state: SandboxState, data: Path) -> None:
    """Replace etcd's data by an older copy, and start all programs but those that others started.

    Raises:
        SandboxError: a program did not become ready.
    """
    stop(directory, keep=(WATCHDOG,))
    for port in state.ports.values():
        wait_until_free(port)
    shutil.rmtree(directory / "etcd", ignore_errors=True)
    shutil.copytree(data, directory / "etcd")
    start_etcd(directory, state)
    start_api_server(directory, state)
    _start_controllers(directory, state)
    _start_addons(directory, state, addons.load(state.addons))


def reset(directory: Path, state: SandboxState) -> None:
    """Restore the state right after `up`; objects created since then are deleted.

    Clients must be restarted, because resource versions go back.

    Raises:
        SandboxError: a program did not become ready.
    """
    stop(directory, keep=(WATCHDOG,))
    if state.real_node:
        node.remove_remains(state.name)
    for port in state.ports.values():
        wait_until_free(port)
    shutil.rmtree(directory / "etcd", ignore_errors=True)
    start(directory, state)
