"""The two programs that are compared: the floor and the operator, started the same way."""

from __future__ import annotations

import contextlib
import os
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bench import following
from bench.access import FLOOR, OPERATOR
from bench.process import Program, until
from bench.subject import PLUGINS
from kaiwo_sandbox.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.server import Server

Subject = Literal["floor", "operator"]
USER: dict[Subject, str] = {"floor": FLOOR, "operator": OPERATOR}
_READY_SECONDS = 60.0


@contextlib.contextmanager
def started(server: Server, subject: Subject, plugins: Sequence[str] = PLUGINS) -> Iterator[Program]:
    """Run the floor or the operator, ready to take work; it is stopped when the block ends."""
    run = _floor(server) if subject == "floor" else launched_operator(server, plugins)
    with run as (program, ready):
        until(ready, _READY_SECONDS, program, "ready")
        yield program


@contextlib.contextmanager
def _floor(server: Server) -> Iterator[tuple[Program, Callable[[], bool]]]:
    log = server.directory / "floor.log"
    command = [sys.executable, "-m", "bench.floor", "--access", str(server.access_file(FLOOR))]
    with Program(command, log) as program:
        yield program, lambda: following.READY.encode() in log.read_bytes()


@contextlib.contextmanager
def launched_operator(
    server: Server,
    plugins: Sequence[str] = PLUGINS,
    environment: Mapping[str, str] | None = None,
    log: str = "operator.log",
    address: str = "",
) -> Iterator[tuple[Program, Callable[[], bool]]]:
    """Start the operator and yield it at once, with a function that returns whether it is ready.

    Args:
        server: what it works on.
        plugins: what it runs with.
        environment: more variables.
        log: name of the file for its output.
        address: of its probes and metrics; empty for a free port.
    """
    address = address or f"127.0.0.1:{free_ports(1)[0]}"
    kaiwo = Path(sys.executable).with_name("kaiwo")
    command = [str(kaiwo), "operator", "run", "--metrics-address", address]
    variables = {
        **os.environ,
        **(environment or {}),
        "KUBECONFIG": str(server.kubeconfig(OPERATOR)),
        "KAIWO_PLUGINS": ",".join(plugins),
    }

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{address}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    with Program(command, server.directory / log, variables) as program:
        yield program, ready
