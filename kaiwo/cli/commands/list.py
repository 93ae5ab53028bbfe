"""``kaiwo list``: workloads with their state, one's own first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kaiwo.api.status_words import TERMINAL
from kaiwo.cli import kit, namespaces, options
from kaiwo.cli.failures import NOT_FOUND, USAGE, Failure
from kaiwo.cli.kit import Column
from kaiwo.cli.output import watching, workload_times
from kaiwo.client import user_config, workload_fields
from kaiwo.client.kinds import KIND_NAMES, SHORT, WORKLOADS
from kaiwo.client.list_watch import ListScope, ListWatch
from kaiwo.client.workloads import STATUSES, wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object, Resource


class _StatusWords(click.ParamType[tuple[str, ...]]):
    """Status words in any case, with commas between them."""

    name = "status"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The words, as click shows those of a choice."""
        del param, ctx
        return f"[{'|'.join(STATUSES)}][,...]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The words as they are written in tables, in whatever case the last one begins."""
        from click.shell_completion import CompletionItem

        del ctx, param
        before, comma, last = incomplete.rpartition(",")
        taken = before.upper().split(",")
        return [
            CompletionItem(f"{before}{comma}{word}")
            for word in STATUSES
            if word.startswith(last.upper()) and word not in taken
        ]

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The words; a misspelt one is answered with the nearest one."""
        words = [word.strip() for word in value.split(",")]
        for word in words:
            if word.upper() not in STATUSES:
                from kaiwo.api.suggestion import did_you_mean

                hint = did_you_mean(word.upper(), STATUSES) or f"known: {', '.join(STATUSES)}"
                raise click.BadParameter(f'unknown status "{word}"; {hint}', ctx, param)
        return tuple(word.upper() for word in words)


def _complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    return [name for name in SHORT.values() if name.startswith(incomplete)]


def _kind(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[Resource, ...]:
    if value is None:
        return WORKLOADS
    if value.lower() not in KIND_NAMES:
        raise click.BadParameter(
            f'unknown kind "{value}" (known: job, service); kaiwo status NAME shows one workload', ctx, param
        )
    return (KIND_NAMES[value.lower()],)


@options.watchable
@click.command("list")
@click.argument(
    "kinds", metavar="[job|service]", required=False, callback=_kind, shell_complete=_complete_kind
)
@click.option("--user", metavar="NAME", help="Only this user's workloads.")
@click.option("--all-users", is_flag=True, help="Everybody's alike, with a column USER.")
@click.option("--queue", metavar="NAME", help="Only workloads of this queue.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=_StatusWords(),
    help="Only workloads in these states.",
)
@click.option(
    "-l",
    "--selector",
    metavar="SELECTOR",
    cls=options.ShortOption,
    help="Only workloads with these labels, as kubectl selects them.",
)
@options.config_option
def list_command(
    *,
    kinds: tuple[Resource, ...],
    user: str | None,
    all_users: bool,
    queue: str | None,
    statuses: Sequence[Sequence[str]],
    selector: str | None,
    config: str | None,
) -> None:
    """List workloads with their state, and the reason for it.

    \b
      kaiwo list                          of the context's namespace, your own first
      kaiwo list job --status RUNNING     running jobs
      kaiwo list --status FAILED,ERROR    what went wrong
      kaiwo list -A --user ada            one user's, in all namespaces
      kaiwo list -l team=vision           those with a label
      kaiwo list -w                       again at every change
      kaiwo list -o wide                  with users and messages

    Yours are those of the user in kaiwoconfig.yaml; the others come after them.
    """
    if user and all_users:
        raise Failure("--user and --all-users exclude each other", "give one of them", code=USAGE)
    settled = user_config.load(config)
    options.use_configured_namespace(settled)
    words = [word for group in statuses for word in group]
    own = None if all_users else settled.user
    filtered = bool(user or queue or words or selector or len(kinds) < len(WORKLOADS))
    with kit.cluster() as cluster:
        source = ListWatch(cluster.api, [ListScope(kind, cluster.scope, labels=selector) for kind in kinds])

        def read() -> list[Object]:
            found = cluster.run(lambda _: source.read(watch=kit.settings().watch))
            chosen = [obj for obj in found if wanted(obj, user=user, queue=queue, statuses=words)]
            chosen.sort(key=lambda obj: _rank(obj, own))
            if kit.settings().watch:
                # A screen shows the first ones; those that ended would hide the others.
                chosen.sort(key=lambda obj: workload_fields.word(obj) in TERMINAL)
            return chosen

        def write(chosen: list[Object]) -> None:
            if not chosen and kit.settings().output in (None, "table", "wide"):
                kit.say(_nothing(cluster, filtered=filtered))
            several = len({workload_fields.user(obj) for obj in chosen}) > 1
            kit.emit(chosen, columns(everywhere=cluster.everywhere, users=all_users or several))

        with kit.progress("listing workloads"):
            first = read()
        if not first:
            namespaces.check_namespace(cluster)
            check_queue(cluster, queue)
        if not kit.settings().watch:
            write(first)
            return
        try:
            watching.watch(read, write, lambda seconds: cluster.run(lambda _: source.changed(seconds)))
        finally:
            cluster.run(lambda _: source.close())


def _nothing(cluster: Cluster, *, filtered: bool) -> str:
    where = "any namespace" if cluster.everywhere else f"namespace {cluster.namespace}"
    elsewhere = "" if cluster.everywhere else ", or look in all namespaces with -A"
    if filtered:
        return f"no workloads match these filters in {where}; leave one out{elsewhere}"
    return f"no workloads in {where}; send one with kaiwo submit FILE{elsewhere}"


def check_queue(cluster: Cluster, queue: str | None) -> None:
    """Tell an unused queue from one that does not exist.

    Raises:
        Failure: the queue system has no queue of that name.
    """
    system = kit.plugins().queue_system if queue else None
    kinds = [kind for kind in system.reads if kind.kind.endswith("Queue")] if system else []
    if not queue or not kinds:
        return
    from kaiwo.api.suggestion import did_you_mean
    from kaiwo.engine.errors import Forbidden, NotFound

    names: set[str] = set()
    for kind in kinds:
        try:
            scope = cluster.scope if kind.namespaced else None
            names |= {obj["metadata"]["name"] for obj in cluster.list(kind, scope)}
        except (Forbidden, NotFound):
            # What may not be read may hold the queue.
            return
    if queue not in names:
        known = f"known: {', '.join(sorted(names)) or 'none'}"
        raise Failure(f'queue "{queue}" not found', did_you_mean(queue, names) or known, code=NOT_FOUND)


def _rank(obj: Object, own: str | None) -> tuple[bool, str, str, str]:
    """Own workloads first, then by namespace and name."""
    metadata = obj["metadata"]
    mine = own is not None and workload_fields.same_user(workload_fields.user(obj), own)
    return not mine, metadata["namespace"], metadata["name"], obj["kind"]


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
        Column("DURATION", lambda obj: workload_times.duration(obj, moment)),
        Column("AGE", lambda obj: workload_times.age(obj, moment)),
        Column("MESSAGE", workload_fields.message, wide=True, if_room=True),
    ]
