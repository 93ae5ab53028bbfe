"""``kaiwo nodes``: nodes with their GPUs, and who uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, live_completion, options
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.cli.output import watching
from kaiwo.client import user_config

if TYPE_CHECKING:
    from kaiwo.client.node_records import NodeList


@options.watchable
@click.command()
@click.option(
    "--vendor",
    metavar="NAME",
    default="",
    shell_complete=live_completion.gpu_vendors,
    help="Only nodes with GPUs of this vendor.",
)
@click.option(
    "--pool",
    metavar="NAME",
    default="",
    shell_complete=live_completion.node_pools,
    help="Only nodes of this pool.",
)
@options.config_option
def nodes(*, vendor: str, pool: str, config: str | None) -> None:
    """Show nodes: GPUs, who uses them, and what is cordoned, not ready or tainted.

    \b
      kaiwo nodes                totals by vendor and model, and the nodes with GPUs
      kaiwo nodes --vendor amd   only these
      kaiwo nodes -o wide        with CPU and memory, and nodes without GPUs

    A GPU counts as used when a pod on the node requests it, of whichever namespace and tool. With -o json or
    yaml: the record that kaiwo.client.nodes returns.
    """
    show_nodes(vendor, pool, config)


def show_nodes(vendor: str, pool: str, config: str | None) -> None:
    """Show the nodes; the arguments are those of the command.

    Raises:
        Failure: no loaded plugin knows the vendor.
    """
    options.use_configured_namespace(user_config.load(config))
    plugins = kit.plugins()
    vendors = sorted(item.name for item in plugins.vendors)
    if vendor and vendor not in vendors:
        known = ", ".join(vendors) or "none; kaiwo plugins shows why"
        raise Failure(f'unknown GPU vendor "{vendor}"', f"known: {known}", code=USAGE)
    with kit.cluster() as cluster:
        from kaiwo.client.nodes import list_nodes

        def read() -> NodeList:
            return cluster.run(
                lambda api: list_nodes(api, plugins, cluster.namespace, vendor=vendor, pool=pool)
            )

        if kit.settings().watch:
            watching.watch(read, write, watching.poll)
        else:
            write(read())


def write(found: NodeList) -> None:
    """Write what was read in the form given with ``-o``."""
    form = kit.settings().output
    if form in ("json", "yaml"):
        import msgspec

        kit.dump(msgspec.to_builtins(found), form)
    elif form == "name":
        for item in found.items:
            click.echo(kit.clean(f"node/{item.name}"))
    elif found.items or found.expected:
        from kaiwo.cli.output import node_view

        node_view.write_nodes(found, wide=form == "wide")
    else:
        kit.say("no nodes match; kaiwo nodes shows all, kaiwo plugins the GPU vendors that are recognised")
    for text in found.unseen:
        kit.say(f"warning: not shown: {text}")
