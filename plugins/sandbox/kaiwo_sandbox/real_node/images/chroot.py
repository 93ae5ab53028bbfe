"""Running programs in the files of an image, in a mount namespace of their own; needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_STEP: Final = """\
set -e
root=$1; host=$2; cache=$3; shift 3
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
cp -r "$host" "$root/run/host"
mkdir "$root/run/cache"
mount --bind "$cache" "$root/run/cache"
if [ -f "$host/resolv.conf" ]; then mount --bind "$root/run/host/resolv.conf" "$root/etc/resolv.conf"; fi
exec chroot "$root" "$@"
"""
"""In /run are the machine's name servers and settings of pip, and a cache of downloads; no layer has them."""

_CONTAINER: Final = """\
set -e
root=$1; user=$2; mounts=$3; shift 3
mount --bind "$root" "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
IFS=:
for pair in $mounts; do
    source=${pair%%=*}
    target=$root${pair##*=}
    if [ -d "$source" ]; then mkdir -p "$target"; else mkdir -p "$(dirname "$target")"; touch "$target"; fi
    mount --bind "$source" "$target"
done
unset IFS
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid \\
    chroot --userspec="$user" --groups= "$root" "$@"
"""
"""As a kubelet starts a container: read-only files but /tmp, an ordinary user, no way to gain rights."""


def obstacle() -> str:
    """Why this machine cannot run programs in the files of an image; empty if it can."""
    if os.geteuid() != 0:
        return "it needs root"
    missing = [name for name in ("unshare", "mount", "chroot", "setpriv") if shutil.which(name) is None]
    return f"{missing[0]} is not installed" if missing else ""


def run_step(
    root: Path, words: Sequence[str], environment: Mapping[str, str], *, host: Path, cache: Path
) -> None:
    """Run one step of a recipe with the machine's network.

    Args:
        root: the files of the stage.
        words: the command.
        environment: its environment, in which nothing of this process is.
        host: files for ``/run/host``.
        cache: a directory for ``/run/cache``, which is kept.

    Raises:
        SandboxError: it failed, with its last output.
    """
    command = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "/bin/sh",
        "-c",
    ]
    done = subprocess.run(
        [*command, _STEP, "sh", str(root), str(host), str(cache), *words],
        env={"PATH": os.environ["PATH"], **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SandboxError(
            f"a step of the recipe failed with exit code {done.returncode}: {words[-1]}",
            detail="\n".join(done.stdout.splitlines()[-30:]),
            hint="run the recipe with a container engine to compare",
        )


def container(root: Path, user: str, words: Sequence[str], mounts: Mapping[str, Path]) -> list[str]:
    """The command that starts a program of the image as a user without rights; only ``/tmp`` can be written.

    The process replaces the command, so signals reach it. It shares the machine's network and processes.

    Args:
        root: the files of the image.
        user: ``UID:GID``.
        words: the program with its arguments.
        mounts: files and directories of the machine, by their path in the image; these can be written.
    """
    pairs = ":".join(f"{source}={name}" for name, source in mounts.items())
    prefix = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", _CONTAINER, "sh"]
    return [*prefix, str(root), user, pairs, *words]
