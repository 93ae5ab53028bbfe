"""``kaiwo status``: everything that is to be known about one workload, on one page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.cli.output import detail_view, queue_place, watching
from kaiwo.cli.workload_details import created_kinds, read_details
from kaiwo.client import user_config
from kaiwo.client.kinds import WORKLOADS
from kaiwo.client.lookup import find_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.cli.workload_details import WorkloadDetails
    from kaiwo.client.queue_records import QueueWait
    from kaiwo.engine.resource import Object, Resource


@options.watchable
@click.command()
@click.argument("name", shell_complete=kit.complete_names(WORKLOADS))
@options.config_option
def status(*, name: str, config: str | None) -> None:
    """Show one workload: state, reason, objects, pods, conditions, events, and its place in a queue.

    NAME is train, job/train or service/chat. With -o json or yaml: the workload's object.

    The word queues instead shows all queues as kaiwo queue does, and a GPU vendor (amd, nvidia) its nodes as
    kaiwo nodes does; a workload of such a name is job/queues.
    """
    if (page := _other_page(name)) is not None:
        page(config)
        return
    options.one_namespace()
    options.use_configured_namespace(user_config.load(config))
    with kit.cluster() as cluster:
        kinds: list[Resource] = []

        def read() -> tuple[Object, WorkloadDetails | None, tuple[QueueWait, ...]]:
            _, workload = cluster.run(lambda api: find_one(api, cluster.namespace, name))
            if kit.settings().output not in (None, "table", "wide"):
                return workload, None, ()
            if not kinds:
                kinds.extend(created_kinds(workload, kit.plugins()))
            place = queue_place.read_place(cluster, workload)
            return workload, read_details(cluster, workload, kinds), place

        def write(found: tuple[Object, WorkloadDetails | None, tuple[QueueWait, ...]]) -> None:
            workload, details, place = found
            if details is None:
                kit.emit([workload], one=True)
            else:
                detail_view.write_details(workload, details, datetime.now(UTC))
                queue_place.write_place(place)

        if kit.settings().watch:
            watching.watch(read, write, watching.poll)
        else:
            write(read())


def _other_page(name: str) -> Callable[[str | None], None] | None:
    """The page that a word stands for which is no workload's name; None for a name."""
    if name == "queues":
        from kaiwo.cli.commands.queue import show_queues

        return lambda config: show_queues(None, config)
    if name.isalpha() and any(vendor.name == name for vendor in kit.plugins().vendors):
        from kaiwo.cli.commands.nodes import show_nodes

        return lambda config: show_nodes(name, "", config)
    return None
