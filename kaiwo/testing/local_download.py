"""A download pod run on the local file system: its mounts, its environment, the real program, its exit code.

The nodes of a sandbox are fake and run no container. This does for one pod what a kubelet would: it puts
ConfigMaps, Secrets and volumes below a directory, at the paths that the pod asks for, and runs the
container's command there as a process. What a container runtime adds (another root, other users) is left
out: paths of the container are moved below the directory, in arguments, variables and references to Secrets.
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

from kaiwo.api.download import SECRETS_PATH
from kaiwo.plugin.sources import secret_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kaiwo.engine.resource import Object

TERMINATION_LOG = "/dev/termination-log"


class MountError(Exception):
    """What a kubelet would say in an event about a volume that cannot be mounted."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the container ended.

    Attributes:
        code: exit code of the program.
        out: its standard output.
        err: its standard error.
        message: what it left as its termination message.
    """

    code: int
    out: str
    err: str
    message: str


class LocalDownload:
    """One download pod.

    Attributes:
        root: what is ``/`` for the container.
    """

    def __init__(self, pod: Object, root: Path, read: Callable[[str, str], Object | None]) -> None:
        """Prepare; nothing is written yet.

        Args:
            pod: the pod's ``spec``.
            root: an empty directory.
            read: gives a ConfigMap or Secret of the pod's namespace by kind and name, None for none.
        """
        self.root = root
        self._pod = pod
        self._read = read
        [self._container] = pod["containers"]

    def path(self, place: str) -> Path:
        """Where an absolute path of the container is."""
        return self.root / place.lstrip("/")

    def mount(self) -> None:
        """Put everything where the pod asks for it; a volume that is there already keeps its content.

        Raises:
            MountError: a ConfigMap, a Secret, or a key of one does not exist.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        volumes = {volume["name"]: volume for volume in self._pod["volumes"]}
        for mount in self._container["volumeMounts"]:
            content = self._content(volumes[mount["name"]])
            place = self.path(mount["mountPath"])
            if mount.get("subPath"):
                _write(place, content[mount["subPath"]])
                continue
            place.mkdir(parents=True, exist_ok=True)
            for name, data in content.items():
                _write(place / name, data)
        _write(self.path(TERMINATION_LOG), b"")
        config = self.path("/config/config.yaml")
        document = yaml.safe_load(config.read_text(encoding="utf-8"))
        config.write_text(yaml.safe_dump(self._moved(document)), encoding="utf-8")

    def run(self, program: Sequence[str] = ()) -> Ended:
        """Run the container's command to its end.

        Args:
            program: what stands for the command's first word; by default the installed script of that name,
                run by this interpreter.

        Raises:
            FileNotFoundError: no such script is installed.
        """
        name: str = self._container["command"][0]
        words: list[str] = [*self._container["command"][1:], *self._container["args"]]
        first = list(program) or _installed(name)
        places = ["--target-root", str(self.root), "--termination-log", str(self.path(TERMINATION_LOG))]
        done = subprocess.run(
            [*first, *map(self._place, words), *places],
            env=self.environment(),
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        message = self.path(TERMINATION_LOG).read_text(encoding="utf-8")
        return Ended(done.returncode, done.stdout, done.stderr, message)

    def environment(self) -> dict[str, str]:
        """The container's variables, and where programs are found.

        Raises:
            MountError: a Secret that a variable refers to, or its key, does not exist.
        """
        found = {"PATH": os.environ.get("PATH", os.defpath)}
        for entry in self._container.get("env", ()):
            reference = (entry.get("valueFrom") or {}).get("secretKeyRef")
            if reference is not None:
                found[entry["name"]] = self._keys("Secret", reference["name"])[reference["key"]].decode()
            else:
                found[entry["name"]] = self._place(entry.get("value") or "")
        return found

    def _place(self, text: str) -> str:
        """A text, below the directory if it is a path at which something is mounted."""
        places = [mount["mountPath"].rstrip("/") for mount in self._container["volumeMounts"]]
        mounted = any(text == place or text.startswith(f"{place}/") for place in places)
        return str(self.path(text)) if mounted else text

    def _content(self, volume: Object) -> dict[str, bytes]:
        """The files of a volume; none for those that begin empty."""
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

    def _moved(self, value: Any) -> Any:
        """The configuration with every reference to a Secret at its place below the directory."""
        if isinstance(value, dict):
            if reference := secret_reference(value):
                usual = f"{SECRETS_PATH}/{reference.name}/{reference.key}"
                return {**value, "file": str(self.path(reference.file or usual))}
            return {key: self._moved(item) for key, item in value.items()}
        return [self._moved(item) for item in value] if isinstance(value, list) else value


def _installed(name: str) -> list[str]:
    """The command line that runs an installed script, also where its file was not made."""
    for script in entry_points(group="console_scripts", name=name):
        module, _, function = script.value.partition(":")
        return [sys.executable, "-c", f"import sys; from {module} import {function}; sys.exit({function}())"]
    raise FileNotFoundError(f"no installed package has the program {name}")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
