"""The download program as a process of its own, and what it left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from campaign.violation import ViolationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TARGET: Final = "t"
"""Folder of the data volume that the items of all cases write to."""

CANARY: Final = "CANARY"
"""Part of each secret value; it must be in nothing that the program shows."""

_STATE: Final = ".kaiwo-download"
_PROGRAM: Final = Path(sys.executable).parent / "kaiwo-download"
_RESOLVER: Final = """
import json, os, socket
_hosts = json.loads(os.environ["CAMPAIGN_HOSTS"])
_resolve, _connect = socket.getaddrinfo, socket.socket.connect
def getaddrinfo(host, *rest, **more):
    answers = _hosts.get(host)
    if not answers:
        return _resolve(host, *rest, **more)
    answer = answers.pop(0) if len(answers) > 1 else answers[0]
    with open(os.environ["CAMPAIGN_ANSWERS"], "a") as log:
        log.write(answer + "\\n")
    return _resolve(answer, *rest, **more)
def connect(self, place):
    # The public address stands for a server that is on loopback here.
    public = isinstance(place, tuple) and place[0] == os.environ["CAMPAIGN_PUBLIC"]
    return _connect(self, ("127.0.0.1", *place[1:]) if public else place)
socket.getaddrinfo, socket.socket.connect = getaddrinfo, connect
"""
PUBLIC: Final = "203.0.113.9"
"""The address of a public server; connections to it go to loopback."""


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """How a run ended.

    Attributes:
        code: its exit code.
        out: what it wrote to both outputs.
        termination: the termination message.
        arguments: command lines of it and of the programs that it started.
    """

    code: int
    out: str
    termination: dict[str, Any]
    arguments: str

    @property
    def line(self) -> str:
        """The error that a person reads."""
        found = [line for line in self.out.splitlines() if line.startswith("error: ")]
        return found[-1].removeprefix("error: ") if found else ""


class DownloadPod:
    """What a download pod has: volumes, mounted secrets, a scratch space. A folder beside is none of it.

    Attributes:
        environment: more variables.
        limits: of the document.
        outside: a folder with a file, into which nothing may be written.
        volume: the data volume.
        hub: the volume of the Hugging Face cache.
        seconds: that one run may take.
    """

    def __init__(self, directory: Path) -> None:
        """Make the folders.

        Args:
            directory: an empty one.
        """
        self._root = directory
        self.environment: dict[str, str] = {}
        self.limits: dict[str, int] = {"retrySeconds": 0, "partSize": 65536, "stallSeconds": 60}
        self.outside, self.volume, self.hub = (directory / name for name in ("outside", "volume", "hub"))
        self._scratch, self._secrets = directory / "scratch", directory / "secrets"
        for folder in (self.outside, self.volume, self.hub, self._scratch, self._secrets):
            folder.mkdir()
        (self.outside / "keep").write_text("not to be touched", encoding="utf-8")
        self._log, self._config = directory / "termination-log", directory / "config.yaml"
        self._answers = directory / "answers"
        self.seconds = 200.0

    def secret(self, name: str, value: str) -> dict[str, str]:
        """A reference to a mounted value."""
        file = self._secrets / name
        file.write_text(value + "\n", encoding="utf-8")
        return {"secretName": "creds", "secretKey": name, "file": str(file)}

    def resolve(self, host: str, *answers: str) -> None:
        """Have a name resolve to another address each time; the last one stays."""
        (self._root / "site").mkdir(exist_ok=True)
        (self._root / "site" / "sitecustomize.py").write_text(_RESOLVER, encoding="utf-8")
        self.environment |= {
            "PYTHONPATH": str(self._root / "site"),
            "CAMPAIGN_HOSTS": json.dumps({host: answers}),
            "CAMPAIGN_ANSWERS": str(self._answers),
            "CAMPAIGN_PUBLIC": PUBLIC,
        }

    def answers(self) -> list[str]:
        """The addresses that names resolved to, in order."""
        return self._answers.read_text(encoding="utf-8").split() if self._answers.exists() else []

    @contextlib.contextmanager
    def small_volume(self, size: int, volume: Path | None = None) -> Iterator[None]:
        """Give a volume, by default that of data, a small file system for as long as the block lasts.

        Raises:
            ViolationError: this user may not mount.
        """
        place = str(volume or self.volume)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            raise ViolationError("fault", "a small file system cannot be mounted; run as root")
        try:
            yield
        finally:
            subprocess.run([shutil.which("umount") or "umount", "--lazy", place], check=True)

    def run(
        self, items: Mapping[str, Any], *flags: str, kill_when: Callable[[], bool] | None = None
    ) -> ProgramRun:
        """Run the program.

        Args:
            items: as users write them, by source.
            flags: more arguments.
            kill_when: when to kill it with SIGKILL.

        Raises:
            ViolationError: it does not end.
        """
        document = {
            "version": 1, "dataMountPath": str(self.volume), "hfMountPath": str(self.hub),
            "items": items, "limits": self.limits,
        }  # fmt: skip
        self._config.write_text(json.dumps(document), encoding="utf-8")
        self._log.write_text("", encoding="utf-8")
        home = {"HOME": str(self._scratch), "TMPDIR": str(self._scratch), "HF_HOME": str(self.hub)}
        command = [str(_PROGRAM), str(self._config), *flags, "--termination-log", str(self._log)]
        with subprocess.Popen(
            command, env={**os.environ, **home, **self.environment}, cwd=self._scratch, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            watch = _Watch(process, kill_when)
            try:
                out, _ = process.communicate(timeout=self.seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise ViolationError("O6", f"the program did not end within {self.seconds:g} s") from None
            finally:
                watch.end()
        text = self._log.read_text(encoding="utf-8")
        return ProgramRun(process.returncode, out, json.loads(text) if text else {}, watch.arguments)

    def files(self) -> dict[str, bytes]:
        """Everything under a final name in the volumes."""
        return {
            path.relative_to(self._root).as_posix(): path.read_bytes()
            for volume in (self.volume, self.hub)
            for path in volume.rglob("*")
            if path.is_file() and _STATE not in path.parts and path.suffix != ".part"
        }

    def check_contained(self) -> None:
        """No byte is outside the target.

        Raises:
            ViolationError: there is one.
        """
        found = {path.name: path.read_text(encoding="utf-8") for path in self.outside.rglob("*")}
        if found != {"keep": "not to be touched"}:
            raise ViolationError("contained", f"written outside the volume: {sorted(found)}")
        allowed = {"volume": {TARGET, _STATE, "real", "others"}, "hub": {"hub", "xet", _STATE}}
        for volume, names in allowed.items():
            if more := {path.name for path in (self._root / volume).iterdir()} - names:
                raise ViolationError("contained", f"written beside the target: {sorted(more)}")

    def check_secret(self, run: ProgramRun) -> None:
        """No secret is in the output, an argument, the termination message or a file.

        Raises:
            ViolationError: there is one.
        """
        if "kaiwo-download" not in run.arguments:
            raise ViolationError("fault", "the arguments of the program were not seen")
        for what, text in (
            ("output", run.out),
            ("arguments", run.arguments),
            ("termination message", str(run.termination)),
        ):
            if CANARY in text:
                raise ViolationError("O7", f"a secret is in the {what}")
        for path in self._root.rglob("*"):
            inside = self._secrets not in path.parents and path.is_file() and not path.is_symlink()
            if inside and CANARY.encode() in path.read_bytes():
                raise ViolationError("O7", f"a secret is in {path.relative_to(self._root)}")


class _Watch:
    """Notes the command lines of a process and its children, and may kill it."""

    def __init__(self, process: subprocess.Popen[str], kill_when: Callable[[], bool] | None) -> None:
        self._process, self._kill_when = process, kill_when
        self._seen: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    @property
    def arguments(self) -> str:
        return "\n".join(sorted(self._seen))

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.wait(0.01):
            if self._kill_when is not None and self._kill_when():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, 9)
                return
            pending = [self._process.pid]
            while pending:
                place = Path("/proc", str(pending.pop()))
                with contextlib.suppress(OSError):
                    self._seen.add((place / "cmdline").read_text(encoding="utf-8").replace("\0", " "))
                    for children in place.glob("task/*/children"):
                        pending += map(int, children.read_text(encoding="utf-8").split())
