"""``kaiwo queue``: quota of the queues, who holds it, and who waits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, live_completion, options
from kaiwo.cli.output import watching
from kaiwo.client import user_config

if TYPE_CHECKING:
    from kaiwo.cli.kit import Cluster
    from kaiwo.client.queue_records import QueueDetails, QueueList
    from kaiwo.plugin.registry import Plugins


@options.watchable
@click.command()
@click.argument("name", required=False, shell_complete=live_completion.queues)
@options.config_option
def queue(*, name: str | None, config: str | None) -> None:
    """Show quotas, who holds them and who waits.

    \b
      kaiwo queue               every queue: quota, used, borrowed, lent, pending
      kaiwo queue kaiwo         one queue: its workloads, in their order, and why
      kaiwo queue kaiwo -o wide explain every pending workload, up to fifty

    NAME is a queue as in clusterQueue, or as it is called in your namespace. A place in the queue of a single
    workload is also on the page of kaiwo status NAME. With -o json or yaml: the records that
    kaiwo.client.queue returns.
    """
    show_queues(name, config)


def show_queues(name: str | None, config: str | None) -> None:
    """Show all queues, or the one of a name; the arguments are those of the command."""
    options.use_configured_namespace(user_config.load(config))
    plugins = kit.plugins()
    with kit.cluster() as cluster:

        def read() -> QueueList | QueueDetails:
            return _read(cluster, plugins, name)

        if kit.settings().watch:
            watching.watch(read, write, watching.poll)
        else:
            write(read())


def _read(cluster: Cluster, plugins: Plugins, name: str | None) -> QueueList | QueueDetails:
    from kaiwo.client.queue import describe_queue, list_queues

    namespace = cluster.namespace
    if name is None:
        return cluster.run(lambda api: list_queues(api, plugins, namespace))
    return cluster.run(lambda api: describe_queue(api, plugins, namespace, name))


def write(found: QueueList | QueueDetails) -> None:
    """Write what was read in the form given with ``-o``."""
    from kaiwo.cli.output import queue_view
    from kaiwo.client.queue_records import QueueDetails

    form = kit.settings().output
    if form in ("json", "yaml"):
        import msgspec

        kit.dump(msgspec.to_builtins(found), form)
        return
    if form == "name":
        names = [found.queue.name] if isinstance(found, QueueDetails) else [item.name for item in found.items]
        for name in names:
            click.echo(kit.clean(name))
        return
    if isinstance(found, QueueDetails):
        queue_view.write_queue(found, datetime.now(UTC), wide=form == "wide")
    elif found.items or found.unplaced:
        queue_view.write_queues(found)
    elif not found.unseen:
        kit.say(
            "no queues; an administrator makes one with a KaiwoQueueConfig (kaiwo init shows a default one)"
        )
    for text in found.unseen:
        kit.say(f"warning: not shown: {text}")
