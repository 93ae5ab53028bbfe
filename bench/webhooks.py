"""Webhooks: 500 reviews a second beside an operator that makes Jobs, and what one costs.

The operator has the same work twice, without reviews and with them; the difference of its CPU time is what
reviews cost.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from bench.fanout import load_command
from bench.process import Program, until
from bench.report import Figure, Target
from bench.subjects import launched_operator
from kaiwo.admission.names import SECRET
from kaiwo_sandbox.ports import free_ports

if TYPE_CHECKING:
    from bench.server import Server

RATE = 500.0
_PAUSE_SECONDS = 0.05
"""Pause of the only client that gives the operator work: about 15 KaiwoJobs a second."""

_READY_SECONDS = 60.0
_SECRETS = "/api/v1/namespaces/default/secrets"


def run(server: Server, seconds: float) -> list[Figure]:
    """Measure for `seconds`, after as long without reviews."""
    server.clear()
    server.create(_SECRETS, {"metadata": {"name": SECRET}})
    address = f"127.0.0.1:{free_ports(1)[0]}"
    environment = {
        "KAIWO_WEBHOOKS": "true",
        "KAIWO_WEBHOOK_ADDRESS": address,
        "KAIWO_OPERATOR_NAMESPACE": "default",
    }
    with launched_operator(server, environment=environment) as (program, ready):
        until(ready, _READY_SECONDS, program, "ready")
        authorities = server.directory / "webhook-ca.crt"
        secret = server.request("GET", f"{_SECRETS}/{SECRET}")
        authorities.write_bytes(base64.b64decode(secret["data"]["ca.crt"]))
        without, _, _ = _measure(server, program, "alone", seconds, [])
        reviews = round(seconds * RATE)
        command = [sys.executable, "-m", "bench.reviews", "--url", f"https://{address}/validate/workloads"]
        command += ["--authorities", str(authorities), "--count", str(reviews), "--rate", str(RATE)]
        beside, waited, found = _measure(server, program, "beside", seconds, command)
    server.request("DELETE", f"{_SECRETS}/{SECRET}")
    server.clear()
    wrong = reviews - found["answers"].get("allowed", 0)
    label = "webhooks"
    return [
        Figure(f"{label}: rate", found["rate"], "reviews/s", None, Target(0.98 * RATE, "at least")),
        Figure(f"{label}: p50", found["p50"], "ms"),
        Figure(f"{label}: p99", found["p99"], "ms", None, Target(20)),
        Figure(f"{label}: CPU per review", (beside - without) / reviews * 1000, "ms", None, Target(1)),
        Figure(
            f"{label}: time that the operator waited for a core, per second of its CPU", waited / beside, "s"
        ),
        Figure(f"{label}: reviews without the right answer", wrong, "", None, Target(0)),
    ]


def _measure(
    server: Server, program: Program, prefix: str, seconds: float, command: list[str]
) -> tuple[float, float, dict[str, Any]]:
    """Seconds of CPU of the operator and of its waits for a core, and what the command printed last."""
    jobs = round(seconds / (_PAUSE_SECONDS + 0.015))
    before, waited, found = program.cpu_seconds(), program.waited_seconds(), {}
    work = load_command(server, jobs, prefix, clients=1, pause=_PAUSE_SECONDS)
    with Program(work, server.directory / "load.log") as load:
        if command:
            log = server.directory / "reviews.log"
            with Program(command, log) as reviews:
                reviews.wait(10 * seconds)
            found = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
        load.wait(10 * seconds)
    time.sleep(1.0)  # the last KaiwoJobs get their status
    return program.cpu_seconds() - before, program.waited_seconds() - waited, found
