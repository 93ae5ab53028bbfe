"""``kaiwo status``: everything that is to be known about one workload, on one page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.cli.output import detail_view, watching
from kaiwo.cli.workload_details import RUN_ID, created_kinds, read_details
from kaiwo.client import user_config
from kaiwo.client.kinds import WORKLOADS
from kaiwo.client.list_watch import ListScope, ListWatch
from kaiwo.client.lookup import find_one
from kaiwo.engine.resource import POD

if TYPE_CHECKING:
    from kaiwo.cli.kit import Cluster
    from kaiwo.cli.workload_details import WorkloadDetails
    from kaiwo.engine.resource import Object, Resource


@options.watchable
@click.command()
@click.argument("name", shell_complete=kit.complete_names(WORKLOADS))
@options.config_option
def status(*, name: str, config: str | None) -> None:
    """Show one workload: state, reason, objects, pods, conditions, events.

    \b
      kaiwo status train              the job or service of that name
      kaiwo status service/chat       where a job has the same name
      kaiwo status train -w           again at every change
      kaiwo status train -o yaml      the workload's object

    NAME is train, job/train or service/chat. With -o json or yaml: the workload's object.
    """
    options.one_namespace()
    options.use_configured_namespace(user_config.load(config))
    with kit.cluster() as cluster:
        kinds: list[Resource] = []
        watched = _Watched(cluster)

        def read() -> tuple[Object, WorkloadDetails | None]:
            kind, workload = cluster.run(lambda api: find_one(api, cluster.namespace, name))
            if kit.settings().watch:
                # The watches begin before the page is read, so that no change falls between both.
                watched.begin(kind, workload)
            if kit.settings().output not in (None, "table", "wide"):
                return workload, None
            if not kinds:
                kinds.extend(created_kinds(workload, kit.plugins()))
            return workload, read_details(cluster, workload, kinds)

        def write(found: tuple[Object, WorkloadDetails | None]) -> None:
            workload, details = found
            if details is None:
                kit.emit([workload], one=True)
            else:
                detail_view.write_details(workload, details, datetime.now(UTC))

        if kit.settings().watch:
            try:
                watching.watch(read, write, watched.changed)
            finally:
                watched.end()
        else:
            write(read())


class _Watched:
    """Watches of one workload and its pods: what the page shows changes with one of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._source: ListWatch | None = None

    def begin(self, kind: Resource, workload: Object) -> None:
        """Watch from now on; pods are left out for a user who may not list them."""
        from kaiwo.engine.errors import Forbidden

        self.end()
        metadata = workload["metadata"]
        own = ListScope(kind, metadata["namespace"], metadata["name"])
        pods = ListScope(POD, metadata["namespace"], labels=f"{RUN_ID}={metadata['uid']}")
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
        return source is not None and self._cluster.run(lambda _: source.changed(seconds))

    def end(self) -> None:
        """End the watches."""
        source, self._source = self._source, None
        if source is not None:
            self._cluster.run(lambda _: source.close())
