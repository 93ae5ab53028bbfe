"""``kaiwo list``: workloads with their state, one's own first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options, user_config
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.cli.kinds import SHORT, WORDS, WORKLOADS, not_installed
from kaiwo.cli.kit import Column
from kaiwo.cli.output import watching, workload_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object, Resource

STATUSES = (
    "PENDING",
    "STARTING",
    "RUNNING",
    "READY",
    "COMPLETE",
    "FAILED",
    "ERROR",
    "TERMINATING",
    "TERMINATED",
)
"""Every status word that the operator writes."""


def _kind(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[Resource, ...]:
    if value is None:
        return WORKLOADS
    if value.lower() not in WORDS:
        raise click.BadParameter(f'"{value}" is no kind of workload; write job or service', ctx, param)
    return (WORDS[value.lower()],)


@options.watchable
@click.command("list")
@click.argument("kinds", metavar="[job|service]", required=False, callback=_kind)
@click.option("--user", metavar="NAME", help="Only this user's workloads.")
@click.option("--all-users", is_flag=True, help="Everybody's alike, with a column USER.")
@click.option("--queue", metavar="NAME", help="Only workloads of this queue.")
@click.option(
    "--status",
    "words",
    multiple=True,
    type=click.Choice(STATUSES, case_sensitive=False),
    help="Only workloads in this state; may be given several times.",
)
@click.option(
    "--config",
    metavar="FILE",
    shell_complete=options.complete_files,
    help="kaiwoconfig.yaml, which says who you are.",
)
def list_command(
    *,
    kinds: tuple[Resource, ...],
    user: str | None,
    all_users: bool,
    queue: str | None,
    words: Sequence[str],
    config: str | None,
) -> None:
    """List workloads. Those of the user in kaiwoconfig.yaml come first, the others after them."""
    if user and all_users:
        raise Failure("--user and --all-users exclude each other", "leave one out", code=USAGE)
    settled = user_config.load(config)
    user_config.in_own_namespace(settled)
    own = None if all_users else settled.user
    with kit.cluster() as cluster:

        def show() -> None:
            chosen = [obj for obj in fetch(cluster, kinds) if _wanted(obj, user, queue, words)]
            chosen.sort(key=lambda obj: _rank(obj, own))
            if not chosen and kit.settings().output in (None, "table", "wide"):
                filtered = " like that" if user or queue or words or len(kinds) < len(WORKLOADS) else ""
                place = "any namespace" if cluster.everywhere else f"namespace {cluster.namespace}"
                kit.say(f"no workloads{filtered} in {place}")
            several = len({workload_fields.user(obj) for obj in chosen}) > 1
            kit.emit(chosen, columns(everywhere=cluster.everywhere, users=all_users or several))

        if kit.settings().watch:
            watching.watch(show)
        else:
            show()


def _rank(obj: Object, own: str | None) -> tuple[bool, str, str, str]:
    """Own workloads first, then by namespace and name."""
    metadata = obj["metadata"]
    mine = own is not None and workload_fields.same_user(workload_fields.user(obj), own)
    return not mine, metadata["namespace"], metadata["name"], obj["kind"]


def fetch(cluster: Cluster, kinds: Sequence[Resource]) -> list[Object]:
    """All workloads of these kinds in the cluster's scope.

    Raises:
        Failure: the cluster does not know the kind.
    """
    from kaiwo.engine.errors import NotFound

    found: list[Object] = []
    for kind in kinds:
        try:
            found += cluster.list(kind, cluster.scope)
        except NotFound as error:
            raise not_installed(kind) from error
    return found


def columns(*, everywhere: bool = False, users: bool = False, now: datetime | None = None) -> list[Column]:
    """The table's columns.

    Args:
        everywhere: with a column for the namespace.
        users: with the user also in the normal table.
        now: when ages and durations are counted to.
    """
    moment = now or datetime.now(UTC)
    first = [Column("NAMESPACE", lambda obj: str(obj["metadata"]["namespace"]))] if everywhere else []
    return [
        *first,
        Column("NAME", lambda obj: str(obj["metadata"]["name"])),
        Column("KIND", lambda obj: SHORT[obj["kind"]]),
        Column("STATUS", workload_fields.word, status=True),
        Column("REASON", workload_fields.reason),
        Column("GPUS", workload_fields.gpus),
        Column("QUEUE", workload_fields.queue),
        Column("USER", workload_fields.user, wide=not users),
        Column("DURATION", lambda obj: workload_fields.duration(obj, moment)),
        Column("AGE", lambda obj: workload_fields.age(obj, moment)),
        Column("MESSAGE", workload_fields.message, wide=True),
    ]


def _wanted(obj: Object, user: str | None, queue: str | None, words: Sequence[str]) -> bool:
    return (
        (user is None or workload_fields.same_user(workload_fields.user(obj), user))
        and (queue is None or workload_fields.queue(obj) == queue)
        and (not words or workload_fields.word(obj) in words)
    )
