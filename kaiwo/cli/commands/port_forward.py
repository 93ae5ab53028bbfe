"""``kaiwo port-forward``: local ports that lead to a pod of a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.cli.failures import until_interrupted
from kaiwo.client.kinds import WORKLOADS
from kaiwo.client.user_config import load as load_user_config

if TYPE_CHECKING:
    from kaiwo.engine.client import Client


@click.command("port-forward")
@click.argument("name", shell_complete=kit.complete_names(WORKLOADS))
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]PORT...")
@click.option(
    "--address",
    metavar="ADDRESS,...",
    default="localhost",
    help="Local addresses to listen on (default: localhost, for this machine only).",
)
@click.option("--pod", metavar="NAME", help="Only this pod (default: one that is ready).")
@options.config_option
def port_forward(
    *, name: str, ports: tuple[str, ...], address: str, pod: str | None, config: str | None
) -> None:
    """Forward local ports to a pod of a workload, until Ctrl-C.

    \b
      kaiwo port-forward chat 8000          localhost:8000 to port 8000
      kaiwo port-forward chat 8080:8000     localhost:8080 to port 8000
      kaiwo port-forward chat :8000         any free local port
      kaiwo port-forward train 8265 6006    several

    NAME is train, job/train or service/chat. When the pod goes away, new connections lead to the
    next one that is ready.
    """
    from kaiwo.client.lookup import find_one
    from kaiwo.client.port_forward import LOOPBACK, PortForward, parse_ports

    options.one_namespace()
    options.use_configured_namespace(load_user_config(config))
    pairs = [parse_ports(text) for text in ports]
    addresses = [
        each
        for part in address.split(",")
        for each in (LOOPBACK if part.strip() == "localhost" else (part.strip(),))
    ]
    with kit.cluster() as cluster:

        async def forward(api: Client) -> None:
            _, workload = await find_one(api, cluster.namespace, name)
            async with PortForward(
                api, workload, pairs, addresses=addresses, pod=pod, notify=kit.say
            ) as forwarded:
                if kit.settings().output in ("json", "yaml"):
                    kit.dump({"items": forwarded.ports}, str(kit.settings().output))
                else:
                    for port in forwarded.ports:
                        host = f"[{port.address}]" if ":" in port.address else port.address
                        click.echo(f"Forwarding from {host}:{port.local} -> {port.remote}")
                await forwarded.wait()

        with until_interrupted():
            cluster.run(forward)
        kit.say(f"{name} has ended")
