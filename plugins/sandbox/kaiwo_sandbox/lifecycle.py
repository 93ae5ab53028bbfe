"""Starting a sandbox's programs in order, and stopping them."""

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

from kaiwo_sandbox import addons, certs, control_plane, kubeconfig, objects, process, readiness, template
from kaiwo_sandbox.api import Api
from kaiwo_sandbox.control_plane import Layout
from kaiwo_sandbox.ports import wait_until_free

if TYPE_CHECKING:
    from kaiwo_sandbox.addons.base import Addon
    from kaiwo_sandbox.process import Process
    from kaiwo_sandbox.state import State

_LOG_LINE = "2026-01-01T00:00:00.0Z stdout F This pod is simulated: nothing was computed.\n"
"""What `kubectl logs` shows of every fake pod, in the format that container runtimes write."""

WATCHDOG = "watchdog"


def layout(directory: Path, state: State) -> Layout:
    """Where the files and ports of this sandbox are."""
    return Layout(directory, state.ports, state.generation)


def write_files(directory: Path, state: State) -> None:
    """Write keys, kubeconfig and configuration files of a new sandbox."""
    place = layout(directory, state)
    shutil.copytree(certs.ensure(), place.pki, dirs_exist_ok=True)
    kubeconfig.write(place.kubeconfig, name=state.name, url=place.url, pki=place.pki)
    token = secrets.token_urlsafe(32)
    for name, text in (("token", token), ("tokens.csv", control_plane.token_file(token))):
        path = directory / name
        path.touch(mode=0o600)
        path.write_text(text)
    (directory / "scheduler.yaml").write_text(control_plane.scheduler_configuration(place.kubeconfig))
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
        addon.configure(place)


def start(directory: Path, state: State) -> None:
    """Start everything; etcd's data come from the template when there is one, else the template is made.

    Raises:
        SandboxError: a program ended or did not become ready.
    """
    place = layout(directory, state)
    restored = template.restore(Path(state.template), place.data)
    etcd = process.start("etcd", control_plane.etcd(Path(state.programs["etcd"]), place), directory=directory)
    start_api_server(directory, state)
    chosen = addons.load(state.addons)
    addon_ports = [name for addon in chosen for name in addon.port_names]
    with closing(Api(place.url, place.pki)) as api:
        if not restored:
            _fill(api, directory, state, chosen)
            _wire(api, directory, state, chosen)
            template.save(Path(state.template), etcd, place.data, state.ports)
        elif any(template.ports(Path(state.template)).get(name) != state.ports[name] for name in addon_ports):
            _wire(api, directory, state, chosen)
        for name, command in (
            ("kube-controller-manager", control_plane.controller_manager),
            ("kube-scheduler", control_plane.scheduler),
            ("kwok", control_plane.kwok),
        ):
            process.start(name, command(Path(state.programs[name]), place), directory=directory)
        objects.create_all(api, state.nodes)
        _start_addons(directory, state, chosen)
        readiness.wait_for_nodes(api, [item["metadata"]["name"] for item in state.nodes])
        readiness.wait_for_service_account(api, "default")


def start_api_server(directory: Path, state: State) -> Process:
    """Start the API server and wait until it is ready.

    Raises:
        SandboxError: it ended or did not become ready.
    """
    place = layout(directory, state)
    command = control_plane.apiserver(Path(state.programs["kube-apiserver"]), place)
    server = process.start("kube-apiserver", command, directory=directory)
    with closing(Api(place.url, place.pki)) as api:
        readiness.wait_until(
            "the API server is ready",
            lambda: readiness.api_is_ready(api),
            directory=directory,
            watched=server,
        )
    return server


def _fill(api: Api, directory: Path, state: State, chosen: list[Addon]) -> None:
    """Create what every fresh sandbox with these addons has."""
    items = [objects.STORAGE_CLASS]
    for addon in chosen:
        items += addon.objects(Path(state.manifests[addon.name]))
    objects.create_all(api, items)
    definitions = [item for item in items if item["kind"] == "CustomResourceDefinition"]
    server = process.recorded(directory)["kube-apiserver"]
    readiness.wait_until(
        "the addons' kinds are served",
        lambda: readiness.served(api, definitions),
        directory=directory,
        watched=server,
    )


def _wire(api: Api, directory: Path, state: State, chosen: list[Addon]) -> None:
    """Write this sandbox's ports into the objects that hold them."""
    place = layout(directory, state)
    objects.apply_all(
        api, [item for addon in chosen for item in addon.wiring(Path(state.manifests[addon.name]), place)]
    )


def _start_addons(directory: Path, state: State, chosen: list[Addon]) -> None:
    """Start all of them, then wait for each; they need not wait for each other's kinds."""
    place = layout(directory, state)
    for name, command in (each for addon in chosen for each in addon.companions(place).items()):
        process.start(name, command, directory=directory)
    running = [
        process.start(
            addon.name,
            addon.command(Path(state.programs[addon.program]), place),
            directory=directory,
            environment={**addon.environment(place), "KUBECONFIG": str(place.kubeconfig)},
        )
        for addon in chosen
    ]
    for addon, controller in zip(chosen, running, strict=True):
        readiness.wait_until(
            f"{addon.name} is ready",
            partial(addon.ready, Path(state.manifests[addon.name]), place),
            directory=directory,
            watched=controller,
        )


def stop(directory: Path, *, keep: tuple[str, ...] = ()) -> None:
    """End every process of the sandbox but those in `keep`: first the programs, etcd last.

    Raises:
        SandboxError: one of them cannot be ended.
    """
    running = process.recorded(directory)
    for name in sorted(running, key=lambda name: (name == "etcd", name == "kube-apiserver", name)):
        if name in keep:
            continue
        if running[name].pid != os.getpid():  # the watchdog takes down what it belongs to
            running[name].kill()
        (directory / "pids" / f"{name}.json").unlink(missing_ok=True)


def restart_api_server(directory: Path, state: State) -> None:
    """Kill the API server and start it again on the same port, while everything else goes on.

    Raises:
        SandboxError: it did not become ready again.
    """
    server = process.recorded(directory).get("kube-apiserver")
    if server is not None:
        server.kill()
    wait_until_free(state.ports["apiserver"])
    start_api_server(directory, state)


def reset(directory: Path, state: State) -> None:
    """Go back to the state right after `up`: all objects that were made since are gone.

    Programs under test must be started again, because time goes back for them.

    Raises:
        SandboxError: a program did not become ready.
    """
    stop(directory, keep=(WATCHDOG,))
    for port in state.ports.values():
        wait_until_free(port)
    shutil.rmtree(directory / "etcd", ignore_errors=True)
    start(directory, state)
