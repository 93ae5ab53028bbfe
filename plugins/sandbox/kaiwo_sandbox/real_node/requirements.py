"""What the real node needs of the machine: Linux, root, and programs from Debian packages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CNI_DIRECTORY = Path("/usr/lib/cni")
"""Where Debian installs the CNI plugins."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "containerd": ("containerd", "ctr", "containerd-shim-runc-v2"),
    "runc": ("runc",),
    "containernetworking-plugins": tuple(
        f"{CNI_DIRECTORY}/{name}" for name in ("bridge", "host-local", "loopback", "portmap")
    ),
    "iptables": ("iptables", "iptables-restore"),
    "iproute2": ("ip",),
    "util-linux": ("unshare", "nsenter"),
    "mount": ("mount", "umount"),
    "procps": ("sysctl",),
    "busybox-static": ("/bin/busybox",),
    "git": ("git",),
}
"""The programs that each Debian package provides."""


def find(program: str) -> str | None:
    """The path of a program. The directories of system programs count even if they are not in PATH."""
    if program.startswith("/"):
        return program if os.access(program, os.X_OK) else None
    return shutil.which(program, path=PATH)


def path_of(program: str) -> str:
    """The path of an installed program.

    Raises:
        SandboxError: it is not installed.
    """
    found = find(program)
    if found is None:
        package = next(package for package, programs in PACKAGES.items() if program in programs)
        raise SandboxError(
            f"{program} is not installed", hint=f"apt-get install --no-install-recommends {package}"
        )
    return found


def missing(find_program: Callable[[str], str | None]) -> dict[str, list[str]]:
    """The programs that are not installed, by Debian package."""
    absent = {
        package: [program for program in programs if find_program(program) is None]
        for package, programs in PACKAGES.items()
    }
    return {package: programs for package, programs in absent.items() if programs}


def check() -> None:
    """Check that this machine can run a real node.

    Raises:
        SandboxError: the user is not root, or programs are not installed.
    """
    if os.geteuid() != 0:
        raise SandboxError(
            "the real node needs root; kubelet and containerd create namespaces, mounts and cgroups",
            hint="run the command as root, or leave out --real-node",
        )
    absent = missing(find)
    if absent:
        programs = ", ".join(program for names in absent.values() for program in names)
        raise SandboxError(
            f"the real node needs programs that are not installed: {programs}",
            hint=f"apt-get install --no-install-recommends {' '.join(sorted(absent))}",
        )
    if not Path("/dev/kmsg").exists():
        raise SandboxError(
            "/dev/kmsg does not exist; the kubelet reads it",
            hint="run the sandbox on a virtual or physical machine, or in a container that has /dev/kmsg",
        )
