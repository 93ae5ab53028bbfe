"""The page of ``kaiwo nodes``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli.output.responsive import BAD, GOOD, WAITS, Cell, write_rows

if TYPE_CHECKING:
    from kaiwo.client.node_records import GpuTotal, NodeGpuUse, NodeList, NodeRecord, NodeUser

_COLORS = {"Ready": GOOD, "Cordoned": WAITS, "NotReady": BAD}
_SHOWN_USERS = 3
_TOTAL_TITLES = ("VENDOR", "MODEL", "NODES", "GPUS", "USED", "FREE", "UNAVAILABLE")
_NODE_TITLES = ("NODE", "POOL", "GPUS", "USED", "FREE", "STATE", "TAINTS", "USED BY")


def write_nodes(found: NodeList, *, wide: bool = False) -> None:
    """Write totals, nodes and expected nodes.

    Args:
        found: what is known.
        wide: with flavors, CPU and memory, nodes without GPUs, and all users of a node.
    """
    if found.totals:
        write_rows(_TOTAL_TITLES, [_total(item) for item in found.totals])
        click.echo()
    shown = [item for item in found.items if wide or item.gpus] or list(found.items)
    titles = (*_NODE_TITLES, "FLAVORS", "CPU", "MEMORY") if wide else _NODE_TITLES
    write_rows(titles, [_node(item, wide=wide) for item in shown])
    if len(shown) < len(found.items):
        hidden = len(found.items) - len(shown)
        noun = "node" if hidden == 1 else "nodes"
        click.echo(f"\nand {hidden} {noun} without GPUs (kaiwo nodes -o wide)")
    if found.expected:
        click.echo("\nExpected (nodes.expectedGpus of KaiwoConfig):")
        rows = [
            (item.vendor, item.model or "any", str(item.nodes), str(item.gpus_per_node))
            for item in found.expected
        ]
        write_rows(("VENDOR", "MODEL", "NODES", "GPUS PER NODE"), rows, indent="  ")


def _total(item: GpuTotal) -> tuple[Cell | str, ...]:
    model = item.model if item.resource.endswith("/gpu") else f"{item.model} {item.resource}"
    return (
        item.vendor,
        model,
        str(item.nodes),
        str(item.allocatable),
        str(item.used),
        Cell(str(item.free), GOOD if item.free else WAITS),
        Cell(str(item.unavailable), BAD if item.unavailable else ""),
    )


def _node(item: NodeRecord, *, wide: bool) -> tuple[Cell | str, ...]:
    state = f"{item.state}: {item.reason}" if item.reason else item.state
    users = item.used_by if wide else item.used_by[:_SHOWN_USERS]
    names = [_user(user) for user in users]
    if len(users) < len(item.used_by):
        names.append(f"and {len(item.used_by) - len(users)} more")
    amounts = [f"{amount.used} of {amount.allocatable}" for amount in item.amounts] if wide else []
    return (
        item.name,
        item.pool,
        ", ".join(f"{_usable(gpu)} {gpu.vendor} {gpu.model}" for gpu in item.gpus),
        "+".join(str(gpu.used) for gpu in item.gpus),
        "+".join(str(gpu.free) for gpu in item.gpus),
        Cell(state, _COLORS.get(item.state, "")),
        ", ".join(item.taints),
        ", ".join(names),
        *([", ".join(item.flavors), *amounts, *[""] * (2 - len(amounts))] if wide else []),
    )


def _usable(gpu: NodeGpuUse) -> str:
    count = str(gpu.allocatable)
    return f"{count} of {gpu.allocatable + gpu.unhealthy}" if gpu.unhealthy else count


def _user(user: NodeUser) -> str:
    who = f" of {user.user}" if user.user else ""
    return f"{user.kind} {user.namespace}/{user.name}{who}: {user.gpus}"
