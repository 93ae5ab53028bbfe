"""The init process of the real node's namespaces: ``python -m kaiwo_sandbox.real_node.init DIRECTORY``.

It prepares the mounts and then collects ended processes until it is killed. The kernel then kills all other
processes of the namespaces.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from kaiwo_sandbox.real_node.requirements import path_of

NODE_DIRECTORY = "/run/kaiwo-node"
"""The node's files as its processes see them. The path is short, because those of sockets are limited."""

READY_FILE = "namespaces-ready"

_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""The values that a kubelet writes at its start (k8s.io/component-helpers/node/util/sysctl)."""


def _mount(*arguments: str) -> None:
    subprocess.run([path_of("mount"), *arguments], check=True)


def prepare_mounts(directory: Path) -> None:
    """Replace the directories that node programs write to at fixed paths. The machine sees no such mount.

    Files with the values that the kubelet wants take the place of system-wide settings, so it changes none.
    """
    settings = directory / "sysctl"
    for name, value in _KERNEL_SETTINGS.items():
        file = settings / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
        if Path("/proc/sys", name).exists():
            _mount("--bind", str(file), f"/proc/sys/{name}")
    for name in ("log", "lib", "lib-work"):
        (directory / name).mkdir(exist_ok=True)
    _mount("--bind", str(directory / "log"), "/var/log")
    kept = directory / "run"  # /run is about to be replaced, and may contain the directory itself
    kept.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=755", "kaiwo-node", str(kept))
    inside = kept / Path(NODE_DIRECTORY).name
    inside.mkdir()
    _mount("--bind", str(directory), str(inside))
    layers = f"lowerdir=/var/lib,upperdir={directory / 'lib'},workdir={directory / 'lib-work'}"
    _mount("-t", "overlay", "-o", layers, "kaiwo-node", "/var/lib")
    _mount("--rbind", str(kept), "/run")
    # The kubelet and container mounts need shared mounts; these are shared among the node's processes only.
    _mount("--make-rshared", "/")


def main(directory: Path) -> None:
    """Prepare the namespaces and wait for the end."""
    prepare_mounts(directory)
    Path(NODE_DIRECTORY, READY_FILE).touch()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then collects ended processes
    while True:
        signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
