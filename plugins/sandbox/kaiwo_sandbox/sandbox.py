"""The public face: bring a sandbox up, look at it, disturb it, and take it down."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo_sandbox import (
    addons as addons_module,
)
from kaiwo_sandbox import (
    binaries as binaries_module,
)
from kaiwo_sandbox import (
    certs,
    lifecycle,
    objects,
    process,
    readiness,
    template,
)
from kaiwo_sandbox import (
    nodes as nodes_module,
)
from kaiwo_sandbox import (
    state as state_module,
)
from kaiwo_sandbox.api import Api, ApiError
from kaiwo_sandbox.catalogue import NEWER
from kaiwo_sandbox.control_plane import PORT_NAMES
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import make_private, state_dir, state_root
from kaiwo_sandbox.ports import claim, free_ports, release

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kaiwo_sandbox.addons.base import Addon
    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.state import State

DEFAULT_NAME = "default"


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One program of a sandbox: its pid, whether it lives, and its resident memory in bytes."""

    name: str
    pid: int
    alive: bool
    memory: int


@dataclass(frozen=True, slots=True)
class Status:
    """A sandbox at one moment; `ready` means that all programs live and the API server says it is ready."""

    name: str
    ready: bool
    url: str
    kubeconfig: Path
    directory: Path
    addons: tuple[str, ...]
    generation: str
    processes: tuple[ProcessStatus, ...]


class Sandbox:
    """A running control plane. Made by `up` or `find`, never directly.

    Attributes:
        name: its name.
        directory: its files: data, ``logs/``, kubeconfig.
        kubeconfig: an administrator's kubeconfig.
        url: the API server, ``https://127.0.0.1:PORT``.
        ca_file: the authority that signed the server's certificate.
        client_certificate: the administrator's certificate.
        client_key: its key.
        token: a bearer token with the same rights.
        addons: the controllers that it has besides Kubernetes.
        generation: which releases of them.
        api: a small client for the test's own needs.
    """

    def __init__(self, directory: Path, state: State) -> None:
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
        self.api = Api(layout.url, layout.pki)

    @classmethod
    def up(
        cls,
        name: str = DEFAULT_NAME,
        *,
        nodes: str | Sequence[Object] = nodes_module.DEFAULT_PRESET,
        addons: Sequence[str] = (),
        binaries: Path | None = None,
        generation: str = NEWER.name,
        owned: bool = False,
        say: Callable[[str], None] = lambda _line: None,
    ) -> Sandbox:
        """Start a sandbox and return when its API server, nodes and addons are ready.

        Args:
            name: several sandboxes of different names can run at once.
            nodes: a preset (``none``, ``small``, ``amd-nvidia``, ``bench``), a YAML file, or Node objects.
            addons: any of ``kueue``, ``kuberay``, ``appwrapper``.
            binaries: a directory of binaries to use before any other source.
            generation: ``newer`` or ``older`` releases of the addons, on the same Kubernetes.
            owned: take it down when this process ends, even by SIGKILL.
            say: receives lines about long steps.

        Raises:
            SandboxError: the name is taken, a program is missing, or something did not start.
        """
        directory = state_dir(name)
        chosen = addons_module.load(addons)
        node_objects = nodes_module.resolve(nodes) if isinstance(nodes, str) else list(nodes)
        found = binaries_module.ensure(addons, directory=binaries, generation=generation, say=say)
        with locked(_lock_file(name)):
            if cls.find(name) is not None:
                raise SandboxError(
                    f"The sandbox {name!r} is already up.",
                    why=f"Its programs run, with files in {directory}.",
                    next_step=(
                        f'Use it: eval "$(kaiwo sandbox env --name {name})". Or stop it first: '
                        f"kaiwo sandbox down --name {name}. Or choose another --name."
                    ),
                )
            _remove(directory)
            make_private(directory)
            prepared = template.location(
                binaries_key=found.key,
                addons=[addon.name for addon in chosen],
                generation=generation,
                authority=certs.fingerprint(certs.ensure()),
            )
            state = state_module.State(
                name=name,
                ports=_choose_ports(chosen, template.ports(prepared)),
                addons=[addon.name for addon in chosen],
                programs={program: str(path) for program, path in found.programs.items()},
                manifests={addon: str(path) for addon, path in found.manifests.items()},
                template=str(prepared),
                nodes=node_objects,
                generation=generation,
            )
            pipe = _watch_over(name, directory) if owned else None
            try:
                lifecycle.write_files(directory, state)
                state.save(directory)
                lifecycle.start(directory, state)
                sandbox = cls(directory, state)
            except BaseException:
                _clear(name)
                if pipe is not None:
                    os.close(pipe)
                raise
        sandbox._owner_pipe = pipe
        return sandbox

    @classmethod
    def find(cls, name: str = DEFAULT_NAME) -> Sandbox | None:
        """The sandbox of that name if any of its programs runs, else None.

        Raises:
            SandboxError: `name` cannot be a name.
        """
        directory = state_dir(name)
        state = state_module.load(directory)
        running = any(
            each.alive() for each in process.recorded(directory).values() if each.name != lifecycle.WATCHDOG
        )
        return cls(directory, state) if state is not None and running else None

    @classmethod
    def names(cls) -> list[str]:
        """The names of the sandboxes that have a directory, running or not."""
        root = state_root()
        return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []

    def status(self) -> Status:
        """What runs, and whether the API server is ready."""
        processes = tuple(
            ProcessStatus(each.name, each.pid, each.alive(), each.memory())
            for each in process.recorded(self.directory).values()
        )
        return Status(
            name=self.name,
            ready=all(each.alive for each in processes) and readiness.api_is_ready(self.api),
            url=self.url,
            kubeconfig=self.kubeconfig,
            directory=self.directory,
            addons=self.addons,
            generation=self.generation,
            processes=processes,
        )

    def add_node(self, node: Object, *, wait: bool = True) -> None:
        """Let a node join (see `kaiwo_sandbox.nodes` for builders), by default until it is Ready.

        Raises:
            ApiError: a node of that name exists, or the object is refused.
            SandboxError: it did not become Ready.
        """
        self.api.create(objects.collection(node), node)
        if wait:
            readiness.wait_for_nodes(self.api, [node["metadata"]["name"]])

    def create_namespace(self, name: str) -> None:
        """Create a namespace and return when pods can be created in it.

        Raises:
            ApiError: it exists or its name is refused.
        """
        item = objects.namespace(name)
        self.api.create(objects.collection(item), item)
        readiness.wait_for_service_account(self.api, name)

    def delete_namespace(self, name: str) -> None:
        """Begin the deletion of a namespace and all that is in it; it goes on after this returns."""
        with contextlib.suppress(ApiError):
            self.api.request("DELETE", objects.path_of(objects.namespace(name)))

    def restart_api_server(self) -> None:
        """Kill the API server and start it again on the same port; clients see broken connections.

        Raises:
            SandboxError: it did not become ready again.
        """
        self.api.close()
        lifecycle.restart_api_server(self.directory, self._state)

    def reset(self) -> None:
        """Go back to the state right after `up`, in seconds.

        Raises:
            SandboxError: a program did not become ready.
        """
        self.api.close()
        with locked(_lock_file(self.name)):
            lifecycle.reset(self.directory, self._state)

    def down(self) -> None:
        """End all programs and remove all files of this sandbox; a second call does nothing.

        Raises:
            SandboxError: a program cannot be ended.
        """
        self.api.close()
        down(self.name)
        if self._owner_pipe is not None:
            os.close(self._owner_pipe)
            self._owner_pipe = None


def down(name: str) -> bool:
    """Take down the sandbox of that name, also one that only started half; False if there was nothing.

    Raises:
        SandboxError: `name` cannot be a name, or a program cannot be ended.
    """
    directory = state_dir(name)
    with locked(_lock_file(name)):
        existed = directory.is_dir()
        _clear(name)
    return existed


def _clear(name: str) -> None:
    """End and remove everything, the lock that the caller holds included."""
    _remove(state_dir(name))
    _lock_file(name).unlink(missing_ok=True)
    for parent in (state_root(), state_root().parent):
        with contextlib.suppress(OSError):  # another sandbox is still in it
            parent.rmdir()


def _choose_ports(chosen: Sequence[Addon], earlier: Mapping[str, int]) -> dict[str, int]:
    """Free ports for all programs; for addons the earlier ones if free, which saves rewriting webhooks."""
    addon_ports = [port for addon in chosen for port in addon.port_names]
    again = {name: earlier[name] for name in addon_ports if name in earlier}
    if not claim(list(again.values())):
        again = {}
    names = [name for name in (*PORT_NAMES, *addon_ports) if name not in again]
    return again | dict(zip(names, free_ports(len(names)), strict=True))


def _lock_file(name: str) -> Path:
    return state_root() / f"{name}.lock"


def _remove(directory: Path) -> None:
    lifecycle.stop(directory)
    state = state_module.load(directory)
    if state is not None:
        release(state.ports.values())
    shutil.rmtree(directory, ignore_errors=True)


def _watch_over(name: str, directory: Path) -> int:
    """Start the watchdog and return the descriptor whose closing it waits for."""
    reading, writing = os.pipe()
    try:
        process.start(
            lifecycle.WATCHDOG,
            [sys.executable, "-m", "kaiwo_sandbox.watchdog", name],
            directory=directory,
            environment={key: value for key, value in os.environ.items() if key.startswith("XDG_")},
            stdin=reading,
        )
    finally:
        os.close(reading)
    return writing
