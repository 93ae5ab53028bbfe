"""Runs the container of a download pod as a process on this machine.

The mounts of the pod (ConfigMaps, Secrets, volumes) become files below a directory. The process runs as the
current user and sees the whole file system. Paths of the container are therefore moved below the directory,
in arguments, variables and references to Secrets.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import yaml

from kaiwo.plugin.kit.downloads import SECRETS_PATH
from kaiwo.plugin.sources import secret_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kaiwo.plugin.kit.kinds import Object

TERMINATION_LOG = "/dev/termination-log"


class MountError(Exception):
    """A volume cannot be mounted; the message is that of a kubelet's event."""


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """The result of a container.

    Attributes:
        code: exit code of the program.
        out: standard output.
        err: standard error.
        message: termination message.
    """

    code: int
    out: str
    err: str
    message: str


class LocalDownload:
    """One download pod.

    Attributes:
        root: the directory that is ``/`` of the container.
    """

    def __init__(self, pod: Object, root: Path, read: Callable[[str, str], Object | None]) -> None:
        """Prepare the pod; nothing is written yet.

        Args:
            pod: the pod's ``spec``.
            root: an empty directory.
            read: returns a ConfigMap or Secret of the namespace by kind and name, None if there is none.
        """
        self.root = root
        self._pod = pod
        self._read = read
        [self._container] = pod["containers"]

    def path(self, container_path: str) -> Path:
        """The path on this machine of an absolute path of the container."""
        return self.root / container_path.lstrip("/")

    def mount(self) -> None:
        """Write the files of all mounts; a volume that exists keeps its content.

        Raises:
            MountError: a ConfigMap, a Secret, or a key of one does not exist.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        volumes = {volume["name"]: volume for volume in self._pod["volumes"]}
        for mount in self._container["volumeMounts"]:
            content = self._content(volumes[mount["name"]])
            target = self.path(mount["mountPath"])
            if mount.get("subPath"):
                _write(target, content[mount["subPath"]])
                continue
            target.mkdir(parents=True, exist_ok=True)
            for name, data in content.items():
                _write(target / name, data)
        _write(self.path(TERMINATION_LOG), b"")
        config = self.path("/config/config.yaml")
        document = yaml.safe_load(config.read_text(encoding="utf-8"))
        config.write_text(yaml.safe_dump(self._relocated(document)), encoding="utf-8")

    def run(self, program: Sequence[str] = ()) -> ContainerExit:
        """Run the container's command and return when it has ended.

        Args:
            program: replaces the first word of the command; by default the installed script of that name,
                run by this interpreter.

        Raises:
            FileNotFoundError: no such script is installed.
        """
        name: str = self._container["command"][0]
        words: list[str] = [*self._container["command"][1:], *self._container["args"]]
        executable = list(program) or _installed(name)
        options = ["--target-root", str(self.root), "--termination-log", str(self.path(TERMINATION_LOG))]
        done = subprocess.run(
            [*executable, *map(self._local_path, words), *options],
            env=self.environment(),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        message = self.path(TERMINATION_LOG).read_text(encoding="utf-8")
        return ContainerExit(done.returncode, done.stdout, done.stderr, message)

    def environment(self) -> dict[str, str]:
        """The environment variables of the container, with this machine's PATH.

        Raises:
            MountError: a Secret that a variable refers to, or its key, does not exist.
        """
        found = {"PATH": os.environ.get("PATH", os.defpath)}
        for entry in self._container.get("env", ()):
            reference = (entry.get("valueFrom") or {}).get("secretKeyRef")
            if reference is not None:
                found[entry["name"]] = self._keys("Secret", reference["name"])[reference["key"]].decode()
            else:
                found[entry["name"]] = self._local_path(entry.get("value") or "")
        return found

    def _local_path(self, text: str) -> str:
        """Move the text below the directory if it is a path under a mount."""
        mounts = [mount["mountPath"].rstrip("/") for mount in self._container["volumeMounts"]]
        mounted = any(text == mount or text.startswith(f"{mount}/") for mount in mounts)
        return str(self.path(text)) if mounted else text

    def _content(self, volume: Object) -> dict[str, bytes]:
        """The files of a volume; none for an empty volume."""
        if "configMap" in volume:
            return self._keys("ConfigMap", volume["configMap"]["name"])
        if "secret" not in volume:
            return {}
        name = volume["secret"]["secretName"]
        keys = self._keys("Secret", name)
        for item in volume["secret"]["items"]:
            if item["key"] not in keys:
                raise MountError(f'references non-existent secret key: "{item["key"]}" of secret "{name}"')
        return {item["path"]: keys[item["key"]] for item in volume["secret"]["items"]}

    def _keys(self, kind: str, name: str) -> dict[str, bytes]:
        found = self._read(kind, name)
        if found is None:
            raise MountError(f'{kind.lower()} "{name}" not found')
        data: dict[str, str] = found.get("data") or {}
        if kind == "Secret":
            return {key: base64.b64decode(value) for key, value in data.items()}
        return {key: value.encode() for key, value in data.items()}

    def _relocated(self, value: Any) -> Any:
        """Move all references to Secrets in the configuration below the directory."""
        if isinstance(value, dict):
            if reference := secret_reference(value):
                default = f"{SECRETS_PATH}/{reference.name}/{reference.key}"
                return {**value, "file": str(self.path(reference.file or default))}
            return {key: self._relocated(item) for key, item in value.items()}
        return [self._relocated(item) for item in value] if isinstance(value, list) else value


def _installed(name: str) -> list[str]:
    """The command line that runs an installed script; it does not need the script's file."""
    for script in entry_points(group="console_scripts", name=name):
        module, _, function = script.value.partition(":")
        return [sys.executable, "-c", f"import sys; from {module} import {function}; sys.exit({function}())"]
    raise FileNotFoundError(f"program {name} not found in the installed packages")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
