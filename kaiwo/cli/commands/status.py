"""``kaiwo status``: everything that is to be known about one workload, on one page."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.cli.output import detail_view, queue_place, watching
from kaiwo.cli.workload_details import read_details
from kaiwo.client import user_config
from kaiwo.client.kinds import WORKLOADS
from kaiwo.client.list_watch import ListScope, ListWatch
from kaiwo.client.lookup import find_one
from kaiwo.client.pods import adopted_pods
from kaiwo.engine.resource import POD
from kaiwo.workload.labels import RUN_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.cli.kit import Cluster
    from kaiwo.cli.workload_details import WorkloadDetails
    from kaiwo.client.queue_records import QueueWait
    from kaiwo.engine.resource import Object, Resource


@options.watchable
@click.command()
@click.argument("name", shell_complete=kit.complete_names(WORKLOADS))
@options.config_option
def status(*, name: str, config: str | None) -> None:
    """Show one workload: state, reason, objects, pods, conditions, events, and its place in a queue.

    \b
      kaiwo status train              the job or service of that name
      kaiwo status service/chat       where a job has the same name
      kaiwo status train -w           again at every change
      kaiwo status train -o yaml      the workload's object

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
        watched = _Watched(cluster)

        def read() -> tuple[Object, WorkloadDetails | None, tuple[QueueWait, ...]]:
            kind, workload = cluster.run(lambda api: find_one(api, cluster.namespace, name))
            if kit.settings().watch:
                # The watches begin before the page is read, so that no change falls between both.
                watched.begin(kind, workload)
            if kit.settings().output not in (None, "table", "wide"):
                return workload, None, ()
            if not kinds:
                from kaiwo.client.created_kinds import created_kinds

                kinds.extend(created_kinds(workload, kit.plugins()))
            place = queue_place.read_place(cluster, workload)
            watched.waits = bool(place)
            return workload, read_details(cluster, workload, kinds), place

        def write(found: tuple[Object, WorkloadDetails | None, tuple[QueueWait, ...]]) -> None:
            workload, details, place = found
            if details is None:
                kit.emit([workload], one=True)
            else:
                detail_view.write_details(workload, details, datetime.now(UTC))
                queue_place.write_place(place)

        if kit.settings().watch:
            try:
                watching.watch(read, write, watched.changed)
            finally:
                watched.end()
        else:
            with kit.progress(f"reading {name}"):
                found = read()
            write(found)


def _other_page(name: str) -> Callable[[str | None], None] | None:
    """The page that a word stands for which is no workload's name; None for a name."""
    if name == "queues":
        from kaiwo.cli.commands.queue import show_queues

        return lambda config: show_queues(None, config)
    if name.isalpha() and any(vendor.name == name for vendor in kit.plugins().vendors):
        from kaiwo.cli.commands.nodes import show_nodes

        return lambda config: show_nodes(name, "", config)
    return None


_PLACE_SECONDS = 10.0
"""After which the place in the queue is read again; it changes with workloads of others."""


class _Watched:
    """Watches of one workload and its pods: what the page shows changes with one of them.

    Attributes:
        waits: whether the page shows a place in a queue.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._source: ListWatch | None = None
        self._began = 0.0
        self.waits = False

    def begin(self, kind: Resource, workload: Object) -> None:
        """Watch from now on; pods are left out for a user who may not list them."""
        from kaiwo.engine.errors import Forbidden

        self.end()
        self._began = time.monotonic()
        metadata = workload["metadata"]
        own = ListScope(kind, metadata["namespace"], metadata["name"])
        selector = adopted_pods(workload) or f"{RUN_ID}={metadata['uid']}"
        pods = ListScope(POD, metadata["namespace"], labels=selector)
        try:
            self._open([own, pods])
        except Forbidden:
            self._open([own])

    def _open(self, scopes: list[ListScope]) -> None:
        source = self._source = ListWatch(self._cluster.api, scopes)
        self._cluster.run(lambda _: source.read(watch=True))

    def changed(self, seconds: float) -> bool:
        """Wait for a change; False when the time is over."""
        source = self._source
        if source is None:
            return False
        old = self.waits and time.monotonic() - self._began >= _PLACE_SECONDS
        return self._cluster.run(lambda _: source.changed(seconds)) or old

    def end(self) -> None:
        """End the watches."""
        source, self._source = self._source, None
        if source is not None:
            self._cluster.run(lambda _: source.close())
