"""The real operator as a child process, for tests against a control plane.

Nothing here polls: the process logs when it is ready, and objects are waited for with a watch.

Example::

    with OperatorProcess(kubeconfig=control_plane.kubeconfig, plugins="batch_job") as operator:
        operator.wait_ready()
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, Any, Self

from kaiwo.engine import errors
from kaiwo.engine.resource import EVENT
from kaiwo.testing.assertions import require

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

_START = "import sys; sys.argv[0] = 'kaiwo'; from kaiwo.cli.main import main; main()"
COMMAND = (sys.executable, "-c", _START)
"""What starts ``kaiwo`` of this environment."""


class OperatorProcess:
    """``kaiwo operator run`` with an own port and an own Lease.

    Attributes:
        lines: log lines so far.
    """

    def __init__(
        self,
        *,
        kubeconfig: Path | str,
        plugins: str | None = None,
        lease_name: str = "kaiwo-operator",
        leader_election: bool = True,
        env: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
        command: Sequence[str] = COMMAND,
    ) -> None:
        """Describe the process; `start` starts it.

        Args:
            kubeconfig: how to reach the API server (or a proxy in front of it).
            plugins: value of ``--plugins``, None for everything installed.
            lease_name: Lease to compete for; give tests that run beside each other different ones.
            leader_election: False runs without a Lease.
            env: more environment variables.
            args: more arguments.
            command: what starts ``kaiwo``, for one that is not of this environment.
        """
        self.lines: list[str] = []
        self._env = {**os.environ, **(env or {}), "KAIWO_LEASE_NAME": lease_name}
        self._args = [*command, "operator", "run", "--kubeconfig", str(kubeconfig)]
        self._args += ["--metrics-address", "127.0.0.1:0", "--log-format", "text"]
        self._args += ["--plugins", plugins] if plugins is not None else []
        self._args += [] if leader_election else ["--no-leader-election"]
        self._args += list(args)
        self._news = threading.Condition()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *exc: object) -> None:
        """Stop; kill if that takes too long."""
        self.close()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._started().pid

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("the operator was not started; call start()")
        return self._process

    @property
    def log(self) -> str:
        """The log so far."""
        return "\n".join(self.lines)

    def start(self) -> Self:
        """Start, or start again after the end; the log continues."""
        self._process = subprocess.Popen(  # the fixture's whole purpose; ended in close()
            self._args, env=self._env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        with process:  # closes the pipe and reaps the process
            for line in process.stderr or ():
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait_log(self, pattern: str, timeout: float = 90.0, *, since: int = 0) -> re.Match[str]:
        """Wait for a log line.

        Args:
            pattern: regular expression, searched in each line.
            timeout: seconds.
            since: index into `lines` to begin at.

        Raises:
            AssertionError: the line did not come, or the process ended before; with the log.
        """
        end = time.monotonic() + timeout
        with self._news:
            while True:
                for line in self.lines[since:]:
                    found = re.search(pattern, line)
                    if found:
                        return found
                since = len(self.lines)
                left = end - time.monotonic()
                if left <= 0 or (self._reader is not None and not self._reader.is_alive()):
                    raise AssertionError(f"the operator never logged {pattern!r}:\n" + "\n".join(self.lines))
                self._news.wait(left)

    def require_not_logged(self, message: str, source: ModuleType) -> None:
        """Fail if a message was logged, or if the module that logs it no longer has these words.

        Args:
            message: part of a log message, as it stands in the source code.
            source: the module that would log it.

        Raises:
            AssertionError: it was logged, or could not have been.
        """
        require(message in inspect.getsource(source), f"{source.__name__} does not log {message!r}")
        require(message not in self.log, f"the operator logged {message!r}:\n{self.log}")

    def wait_ready(self, timeout: float = 90.0) -> Self:
        """Wait until this start works on KaiwoJobs; caches of other kinds may still be filled."""
        self.wait_log(r"controller kaiwojob starts", timeout, since=self._begin())
        return self

    def _begin(self) -> int:
        starts = [index for index, line in enumerate(self.lines) if "kaiwo operator" in line]
        return starts[-1] if starts else 0

    @property
    def url(self) -> str:
        """Address of the probes and metrics."""
        return self.wait_log(r"serving probes and metrics on (http://\S+)", since=self._begin())[1]

    def readyz(self) -> tuple[int, Any]:
        """Status code and JSON of /readyz."""
        return self._http("/readyz", json.loads)

    def readyz_when_up(self, timeout: float = 90.0) -> tuple[int, Any]:
        """The answer of /readyz once all checks succeed, leader or not; the last one after the timeout."""
        end = time.monotonic() + timeout
        while (answer := self.readyz())[0] != 200 and time.monotonic() < end:  # noqa: PLR2004  HTTP's OK
            time.sleep(0.1)
        return answer

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics, as ``name{labels}`` to its value."""
        _, text = self._http("/metrics", str)
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def _http(self, path: str, read: Callable[[str], Any]) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:  # noqa: S310  own loopback URL
                return answer.status, read(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, read(error.read().decode())

    def stop(self, timeout: float = 60.0) -> int:
        """SIGTERM, and wait.

        Returns:
            The exit code.
        """
        self._started().terminate()
        return self.wait(timeout)

    def wait(self, timeout: float = 60.0) -> int:
        """Wait for the end; the exit code."""
        code = self._started().wait(timeout)
        if self._reader is not None:
            self._reader.join(timeout)
        return code

    def kill(self) -> None:
        """SIGKILL, and wait: a crash."""
        self._started().kill()
        self.wait()

    def freeze(self) -> None:
        """SIGSTOP: a process that stands still, as on a suspended machine."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End the process whatever its state."""
        if self._process is None or self._process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.thaw()
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()


async def until(
    client: Client,
    resource: Resource,
    namespace: str | None,
    name: str,
    holds: Callable[[Object | None], bool],
    *,
    timeout: float = 90.0,
) -> Object | None:
    """Wait, with a watch, until something holds for one object.

    Args:
        client: the client that reads.
        resource: the kind.
        namespace: of the object.
        name: of the object.
        holds: called with the object, or None while it does not exist.
        timeout: seconds.

    Returns:
        The object for which it held.

    Raises:
        AssertionError: it never held; with the last state.
    """
    import asyncio

    import msgspec

    last: Object | None = None

    async def follow() -> Object | None:
        nonlocal last
        while True:
            version, named = "0", f'"name":"{name}"'.encode()
            async for page in client.pages(resource, namespace, field_selector=f"metadata.name={name}"):
                last = msgspec.json.decode(page.items[0]) if page.items else None
                version = page.resource_version
            if holds(last):
                return last
            changes = client.watch(resource, namespace, resource_version=version)
            async with contextlib.aclosing(changes):
                with contextlib.suppress(errors.Gone, errors.ConnectionBroken):
                    async for kind, raw in changes:
                        if named not in bytes(raw):  # another object, which may be too deep to decode
                            continue
                        seen = msgspec.json.decode(raw)
                        if kind not in {"BOOKMARK", "ERROR"} and seen["metadata"]["name"] == name:
                            last = None if kind == "DELETED" else seen
                            if holds(last):
                                return last

    try:
        return await asyncio.wait_for(follow(), timeout)
    except TimeoutError:
        raise AssertionError(f"{resource} {name}: not so within {timeout} s; last: {last}") from None


async def event_reasons(client: Client, namespace: str, name: str) -> list[str]:
    """Reasons of the Events about an object.

    Args:
        client: the client that reads.
        namespace: of the object.
        name: of the object.
    """
    return [
        event["reason"]
        async for event in client.list(EVENT, namespace)
        if event["involvedObject"].get("name") == name
    ]
