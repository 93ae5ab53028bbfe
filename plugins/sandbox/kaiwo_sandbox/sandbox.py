"""The Python interface of the sandbox: start, find, change and delete control planes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox import addons as addons_module
from kaiwo_sandbox import binaries as binaries_module
from kaiwo_sandbox import certs, etcd_template, lifecycle, objects, process, readiness, teardown, watchdog
from kaiwo_sandbox import nodes as nodes_module
from kaiwo_sandbox import state as state_module
from kaiwo_sandbox.api import ApiClient, SandboxApiError
from kaiwo_sandbox.binaries import sources
from kaiwo_sandbox.control_plane import PORT_NAMES
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.generations import NEWER
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import make_private, state_dir, state_root
from kaiwo_sandbox.ports import LOOPBACK, allocate
from kaiwo_sandbox.real_node import network, node, requirements
from kaiwo_sandbox.real_node.images import recipes, registry, store
from kaiwo_sandbox.state import SandboxState
from kaiwo_sandbox.status import ProcessStatus, SandboxStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo_sandbox.addons.base import Addon
    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.binaries import Binaries
    from kaiwo_sandbox.process import Process
    from kaiwo_sandbox.real_node.images.store import Image

DEFAULT_NAME = "default"


class Sandbox:
    """A running control plane. `up` and `find` create instances.

    Attributes:
        name: its name.
        directory: its files: data, ``logs/``, kubeconfig.
        kubeconfig: the administrator's kubeconfig.
        url: the URL of the API server, ``https://127.0.0.1:PORT``.
        ca_file: the certificate of the authority that signed the server's certificate.
        client_certificate: the administrator's certificate.
        client_key: the administrator's key.
        token: a bearer token with the rights of the administrator.
        addons: names of its addons.
        generation: generation of its addons.
        has_real_node: whether containers really run on one of its nodes.
        api: a client for the API server.
    """

    def __init__(self, directory: Path, state: SandboxState) -> None:
        layout = lifecycle.layout(directory, state)
        self._state = state
        self._owner_pipe: int | None = None
        self.name = state.name
        self.directory = directory
        self.kubeconfig = layout.kubeconfig
        self.url = layout.url
        self.ca_file = layout.pki / "ca.crt"
        self.client_certificate = layout.pki / "admin.crt"
        self.client_key = layout.pki / "admin.key"
        self.token = (directory / "token").read_text()
        self.addons = tuple(state.addons)
        self.generation = state.generation
        self.has_real_node = state.real_node
        self.api = ApiClient(layout.url, layout.pki)

    @classmethod
    def up(
        cls,
        name: str = DEFAULT_NAME,
        *,
        nodes: str | Sequence[Object] = nodes_module.DEFAULT_PRESET,
        addons: Sequence[str] = (),
        binaries: Path | None = None,
        generation: str = NEWER.name,
        real_node: bool = False,
        owned: bool = False,
        progress: Callable[[str], None] = lambda _line: None,
    ) -> Sandbox:
        """Start a sandbox and return when its API server, nodes and addons are ready.

        Args:
            name: the name, unique among running sandboxes.
            nodes: a preset (``none``, ``small``, ``amd-nvidia``, ``bench``), a YAML file, or Node objects.
            addons: any of ``kueue``, ``kuberay``, ``appwrapper``.
            binaries: a directory of binaries, used before all other sources.
            generation: ``newer`` or ``older`` releases of the addons, on the same Kubernetes.
            real_node: add a node on which containers really run; it needs root.
            owned: delete the sandbox when this process ends, even by SIGKILL.
            progress: receives lines about long steps.

        Raises:
            SandboxError: the name is taken, a program is missing, or something did not start.
        """
        directory = state_dir(name)
        selected = addons_module.load(addons)
        node_objects = nodes_module.load(nodes) if isinstance(nodes, str) else list(nodes)
        if real_node:
            requirements.check()
        programs = binaries_module.ensure(
            addons, directory=binaries, generation=generation, real_node=real_node, progress=progress
        )
        with locked(teardown.lock_file(name)):
            if cls.find(name) is not None:
                raise SandboxError(
                    f'sandbox "{name}" is already running (directory {directory})',
                    hint=(
                        f'use it with eval "$(kaiwo sandbox env --name {name})", '
                        f"stop it with kaiwo sandbox down --name {name}, or choose another --name"
                    ),
                )
            teardown.remove(directory)
            if real_node:
                network.check()
            make_private(directory)
            state = _new_state(name, selected, programs, node_objects, generation, real_node=real_node)
            pipe = watchdog.start(name, directory) if owned else None
            try:
                lifecycle.write_files(directory, state)
                state.save(directory)
                lifecycle.start(directory, state)
                sandbox = cls(directory, state)
            except BaseException:
                teardown.clear(name)
                if pipe is not None:
                    os.close(pipe)
                raise
        sandbox._owner_pipe = pipe
        return sandbox

    @classmethod
    def find(cls, name: str = DEFAULT_NAME) -> Sandbox | None:
        """Return the sandbox of that name if any of its programs runs, else None.

        Raises:
            SandboxError: the name is invalid.
        """
        directory = state_dir(name)
        state = state_module.load(directory)
        return cls(directory, state) if state is not None and lifecycle.is_running(directory) else None

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all sandboxes with a directory, running or not."""
        root = state_root()
        return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []

    def status(self) -> SandboxStatus:
        """Read the status of the processes and of the API server."""
        processes = tuple(
            ProcessStatus(each.name, each.pid, each.alive(), each.memory())
            for each in process.recorded(self.directory).values()
        )
        return SandboxStatus(
            name=self.name,
            ready=all(each.alive for each in processes) and readiness.api_is_ready(self.api),
            url=self.url,
            kubeconfig=self.kubeconfig,
            directory=self.directory,
            addons=self.addons,
            generation=self.generation,
            processes=processes,
            sources={
                program: sources.describe(program, Path(path))
                for program, path in sorted(self._state.programs.items())
            },
        )

    def add_node(self, node: Object, *, wait: bool = True) -> None:
        """Add a node (see `kaiwo_sandbox.nodes` for builders) and by default wait until it is Ready.

        Raises:
            SandboxApiError: the API server rejected the node, or the node exists.
            SandboxError: the node did not become Ready.
        """
        self.api.create(objects.collection(node), node)
        if wait:
            readiness.wait_for_nodes(self.api, [node["metadata"]["name"]])

    def add_image(self, image: Image) -> str:
        """Make an image if it is not in the cache, serve it to the real node, and return its reference.

        The reference has the digest, because a node does not pull a tag again that it has.

        Raises:
            SandboxError: a program that the image needs is not installed.
        """
        made = store.ensure(image)
        registry.add(node.registry_root(self.directory), image.name, made)
        return f"{recipes.REGISTRY}/{image.name}@{store.digest(made)}"

    def create_crds(self, definitions: Sequence[Object]) -> None:
        """Create CRDs and return when the API server serves them.

        Raises:
            SandboxApiError: the API server rejected a CRD.
            SandboxError: it does not serve them in time.
        """
        objects.create_all(self.api, definitions)
        readiness.wait_for_crds(self.api, definitions, directory=self.directory)

    def create_namespace(self, name: str) -> None:
        """Create a namespace and return when pods can be created in it.

        Raises:
            SandboxApiError: the API server rejected the namespace, or the namespace exists.
        """
        item = objects.namespace(name)
        self.api.create(objects.collection(item), item)
        readiness.wait_for_service_account(self.api, name)

    def delete_namespace(self, name: str) -> None:
        """Request the deletion of a namespace, without waiting for its end."""
        with contextlib.suppress(SandboxApiError):
            self.api.request("DELETE", objects.path_of(objects.namespace(name)))

    def restart_api_server(self) -> None:
        """Kill the API server and start it again on the same port. Clients lose their connections.

        Raises:
            SandboxError: it did not become ready again.
        """
        self.api.close()
        lifecycle.restart_api_server(self.directory, self._state)

    def program(self, name: str) -> Process:
        """A program of this sandbox, for example ``etcd`` or ``kueue``; it can be stopped and killed.

        Raises:
            KeyError: it was not started.
        """
        return process.recorded(self.directory)[name]

    @property
    def etcd_url(self) -> str:
        """The URL of etcd, which takes requests of anybody on this machine."""
        return f"http://{LOOPBACK}:{self._state.ports['etcd']}"

    def start_etcd(self) -> None:
        """Start etcd again after it was killed, with the data that it had."""
        lifecycle.start_etcd(self.directory, self._state)

    def back_up(self, target: Path) -> None:
        """Copy etcd's data, as of now, to a directory that does not exist yet."""
        etcd_template.copy(self.program("etcd"), self.directory / "etcd", target)

    def restore(self, backup: Path) -> None:
        """Replace etcd's data by a backup, and restart all programs. Resource versions go back.

        Raises:
            SandboxError: a program did not become ready.
        """
        self.api.close()
        lifecycle.restore(self.directory, self._state, backup)

    def reset(self) -> None:
        """Restore the state right after `up`, which takes seconds.

        Raises:
            SandboxError: a program exited or did not become ready.
        """
        self.api.close()
        with locked(teardown.lock_file(self.name)):
            lifecycle.reset(self.directory, self._state)

    def down(self) -> None:
        """Stop all programs and remove all files of this sandbox; a second call does nothing.

        Raises:
            SandboxError: a program does not end.
        """
        self.api.close()
        teardown.down(self.name)
        if self._owner_pipe is not None:
            os.close(self._owner_pipe)
            self._owner_pipe = None


def _new_state(
    name: str,
    addons: Sequence[Addon],
    programs: Binaries,
    nodes: list[Object],
    generation: str,
    *,
    real_node: bool,
) -> SandboxState:
    """Choose the etcd template and the ports of a new sandbox.

    The addons get the ports of the template if these are free, because its webhooks need no update then.
    """
    addon_names = [addon.name for addon in addons]
    template = etcd_template.location(
        binaries_key=programs.key,
        addons=[*addon_names, *(["real-node"] if real_node else [])],
        generation=generation,
        authority=certs.fingerprint(certs.ensure()),
    )
    addon_ports = [port for addon in addons for port in addon.port_names]
    node_ports = node.PORT_NAMES if real_node else ()
    template_ports = etcd_template.ports(template)
    preferred = {port: template_ports[port] for port in addon_ports if port in template_ports}
    return SandboxState(
        name=name,
        ports=allocate((*PORT_NAMES, *addon_ports, *node_ports), preferred=preferred),
        addons=addon_names,
        programs={program: str(path) for program, path in programs.programs.items()},
        manifests={addon: str(path) for addon, path in programs.manifests.items()},
        template=str(template),
        nodes=nodes,
        generation=generation,
        real_node=real_node,
    )
