"""The place of one workload in its queue, on the page of ``kaiwo status``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit
from kaiwo.cli.output import queue_view
from kaiwo.client import workload_fields

if TYPE_CHECKING:
    from kaiwo.cli.kit import Cluster
    from kaiwo.client.queue_records import QueueWait
    from kaiwo.engine.resource import Object

_MAX_SHOWN = 3
"""Entries that are shown of a workload whose pods are queued one by one."""


def read_place(cluster: Cluster, workload: Object) -> tuple[QueueWait, ...]:
    """What a pending workload waits for in its queue; empty for any other, and without a queue system."""
    if workload_fields.word(workload) != "PENDING" or not workload_fields.queue(workload):
        return ()
    from kaiwo.client.errors import PluginFailed
    from kaiwo.client.queue import QueuesUnknown, waits_of
    from kaiwo.engine.errors import EngineError

    plugins = kit.plugins()
    try:
        return cluster.run(lambda api: waits_of(api, plugins, workload))
    except QueuesUnknown:
        return ()
    except (EngineError, PluginFailed) as error:
        kit.say(f"warning: the place in the queue is not shown: {error}")
        return ()


def write_place(waits: tuple[QueueWait, ...]) -> None:
    """Write a section of the page; nothing for a workload that does not wait."""
    if not waits:
        return
    click.echo("\nQueue:")
    now = datetime.now(UTC)
    for wait in waits[:_MAX_SHOWN]:
        queue_view.write_wait(wait, now)
    if len(waits) > _MAX_SHOWN:
        click.echo(f"  and {len(waits) - _MAX_SHOWN} more pods of it wait")
