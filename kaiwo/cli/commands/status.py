"""``kaiwo status``: everything that is to be known about one workload, on one page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.cli.output import detail_view, watching
from kaiwo.cli.workload_details import created_kinds, read_details
from kaiwo.client import user_config
from kaiwo.client.kinds import WORKLOADS
from kaiwo.client.lookup import find_one

if TYPE_CHECKING:
    from kaiwo.cli.workload_details import WorkloadDetails
    from kaiwo.engine.resource import Object, Resource


@options.watchable
@click.command()
@click.argument("name", shell_complete=kit.complete_names(WORKLOADS))
@options.config_option
def status(*, name: str, config: str | None) -> None:
    """Show one workload: state, reason, objects, pods, conditions, events.

    NAME is train, job/train or service/chat. With -o json or yaml: the workload's object.
    """
    options.one_namespace()
    options.use_configured_namespace(user_config.load(config))
    with kit.cluster() as cluster:
        kinds: list[Resource] = []

        def read() -> tuple[Object, WorkloadDetails | None]:
            _, workload = cluster.run(lambda api: find_one(api, cluster.namespace, name))
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
            watching.watch(read, write, watching.poll)
        else:
            write(read())
