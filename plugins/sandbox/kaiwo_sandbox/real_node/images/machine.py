"""Programs of this machine as files of an image, each with the libraries that the dynamic linker loads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.real_node.images.layers import Copy, Directory, Link, Text, Tree, copy_tree
from kaiwo_sandbox.real_node.requirements import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_BUSYBOX = Path("/bin/busybox")
_SKIPPED = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "__pycache__", "idlelib", "lib2to3", "turtledemo"}
)
_MERGED = ("bin", "lib", "lib64", "sbin")

USER_ID = 1000
"""The user that generated pods run as."""


def _place(path: Path) -> str:
    """The path in the image, which has no symbolic link among its directories but those of `system`."""
    return str(Path(os.path.realpath(path.parent), path.name)).lstrip("/")


def programs(paths: Iterable[str | Path]) -> Tree:
    """Programs and shared libraries of this machine at their own paths, with all libraries they need.

    Raises:
        SandboxError: one of them does not exist.
    """
    found: Tree = {}
    for path in map(Path, paths):
        if not path.exists():
            raise SandboxError(
                f"{path} does not exist; the image needs it", hint=f"install the package of {path.name}"
            )
        for file in (path, *_libraries(path)):
            found[_place(file)] = Copy(Path(os.path.realpath(file)))
    return found


def _libraries(path: Path) -> list[Path]:
    completed = subprocess.run(["/usr/bin/ldd", str(path)], capture_output=True, text=True, check=False)
    return [Path(library) for library in _LIBRARY.findall(completed.stdout)]


def system() -> Tree:
    """The directories and files that programs expect everywhere, as on a merged-/usr system."""
    users = f"root:x:0:0:root:/root:/bin/sh\nuser:x:{USER_ID}:{USER_ID}:user:/tmp:/bin/sh\n"
    tree: Tree = {
        "tmp": Directory(0o1777),
        "var/tmp": Directory(0o1777),
        "root": Directory(0o755),
        "etc/passwd": Text(users.encode()),
        "etc/group": Text(f"root:x:0:\nuser:x:{USER_ID}:\n".encode()),
        "etc/nsswitch.conf": Text(b"passwd: files\ngroup: files\nhosts: files dns\n"),
    }
    for name in _MERGED:
        tree[name] = Link(f"usr/{name}")
        tree[f"usr/{name}"] = Directory()
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():
        tree["etc/ssl/certs/ca-certificates.crt"] = Copy(certificates)
    return tree


def busybox() -> Tree:
    """Debian's static busybox under the names of all its programs, `sh` and `env` among them."""
    listed = subprocess.run([str(_BUSYBOX), "--list-full"], capture_output=True, text=True, check=True)
    tree: Tree = {"usr/bin/busybox": Copy(_BUSYBOX)}
    for path in listed.stdout.split():
        place = path if path.startswith("usr/") else f"usr/{path}"
        tree.setdefault(place, Link("/usr/bin/busybox"))
    return tree


def python() -> Tree:
    """The interpreter that runs this and its standard library at their own paths, and `/usr/bin/python3`."""
    interpreter = Path(os.path.realpath(sys.executable))
    library = Path(sysconfig.get_path("stdlib"))
    tree = copy_tree(library, str(library).lstrip("/"), skip=_SKIPPED | {f"config-{_platform_tag()}"})
    extensions = sorted((library / "lib-dynload").glob("*.so"))
    tree |= programs([interpreter, *extensions])
    for name in ("python3", "python"):
        tree.setdefault(f"usr/bin/{name}", Link(str(interpreter)))
    return tree


def git() -> Tree:
    """Git with its programs for http and https."""
    listed = subprocess.run(
        [path_of("git"), "--exec-path"], capture_output=True, text=True, check=True
    ).stdout.strip()
    core = Path(listed)
    remote = [core / name for name in ("git-remote-http", "git-remote-https")]
    tree = copy_tree(core, str(core).lstrip("/"))
    return tree | programs([path_of("git"), *remote])


def environment(directory: Path, target: str) -> Tree:
    """A Python environment (venv) of this machine at another path, with the libraries that its modules load.

    Its programs name the path of their interpreter in the first line, which becomes the one in the image.
    Files in an image have no times, so Python uses bytecode only if it was compiled as `unchecked-hash`.
    """
    tree = copy_tree(directory, target)
    for module in directory.rglob("*.so"):
        for library in _libraries(module):
            if not library.is_relative_to(directory):
                tree[_place(library)] = Copy(Path(os.path.realpath(library)))
    old, new = str(directory).encode(), f"/{target}".encode()
    for script in (directory / "bin").iterdir():
        if script.is_file() and not script.is_symlink():
            content = script.read_bytes()
            if old in content:
                tree[f"{target}/bin/{script.name}"] = Text(content.replace(old, new), 0o755)
    return tree


def _platform_tag() -> str:
    major, minor = sys.version_info[:2]
    return f"{major}.{minor}-{sysconfig.get_config_var('MULTIARCH')}"
