"""The hooks of the sandbox plugin."""

from __future__ import annotations

from kaiwo.plugin.commands import Command
from kaiwo.plugin.hookspecs import hookimpl

KAIWO_API = 1


@hookimpl
def kaiwo_commands() -> list[Command]:
    """Add the command group `kaiwo sandbox` and the command `kaiwo demo`."""
    return [
        Command(
            name="sandbox",
            load="kaiwo_sandbox.commands:sandbox",
            help="Run a Kubernetes control plane with fake GPU nodes on this machine.",
        ),
        Command(
            name="demo",
            load="kaiwo_sandbox.demo:demo",
            help="See workloads run, queue and fail in a guided demo.",
        ),
    ]
