"""``kaiwo delete``: delete workloads and everything that was created for them."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, namespaces, options
from kaiwo.cli.deletion_targets import NOTHING, file_targets, find_targets, named_targets, selected
from kaiwo.cli.duration import SECONDS
from kaiwo.cli.failures import FAILED, Failure, translated
from kaiwo.cli.terminal import clean, counted
from kaiwo.client import deletion, user_config, workload_fields
from kaiwo.client.kinds import WORKLOADS
from kaiwo.client.lookup import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=kit.complete_names(WORKLOADS))
@click.option(
    "-f",
    "--filename",
    "--file",
    "sources",
    multiple=True,
    metavar="FILE|DIR|-",
    shell_complete=options.complete_files,
    cls=options.ShortOption,
    help="The workloads of a file, as submit reads it.",
)
@click.option(
    "-l",
    "--selector",
    metavar="SELECTOR",
    cls=options.ShortOption,
    help="Workloads with these labels, as kubectl selects them.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--ignore-not-found", is_flag=True, help="What does not exist counts as deleted.")
@click.option("--wait/--no-wait", default=True, help="Wait until it is gone (the default).")
@click.option("--timeout", type=SECONDS, default="2m", metavar="DURATION", help="Give up waiting after (2m).")
@options.config_option
def delete(
    *,
    names: Sequence[str],
    sources: Sequence[str],
    selector: str | None,
    yes: bool,
    ignore_not_found: bool,
    wait: bool,
    timeout: float,
    config: str | None,
) -> None:
    """Delete workloads and what was created for them.

    \b
      kaiwo delete train                    asks first, and waits until it is gone
      kaiwo delete train service/chat -y    several, without a question
      kaiwo delete -f job.yaml              what kaiwo submit -f job.yaml has sent
      kaiwo delete -l team=vision           those with a label
      kaiwo delete train --no-wait

    NAME is train, job/train or service/chat.
    Data volumes of the workload go with it. Asks first on a terminal.
    """
    options.one_namespace()
    if [bool(names), bool(sources), bool(selector)].count(True) != 1:
        raise click.UsageError("expected names of workloads, -f FILE or -l SELECTOR, and one of these only")
    flag = kit.settings().namespace
    options.use_configured_namespace(user_config.load(config))
    with kit.cluster() as cluster:
        if selector:
            chosen = selected(cluster, selector)
        else:
            targets = (
                file_targets(sources, flag, cluster.namespace)
                if sources
                else named_targets(names, cluster.namespace)
            )
            chosen = find_targets(cluster, targets, ignore_not_found=ignore_not_found)
        if selector and not chosen:
            namespaces.check_namespace(cluster)
            kit.say(f"no workloads match {selector} in namespace {cluster.namespace}; {NOTHING}")
        if chosen and not yes and on_terminal():
            _confirm(chosen)
        _delete(cluster, chosen, timeout if wait else None)


def on_terminal() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty()


def _delete(cluster: Cluster, chosen: Sequence[Object], timeout: float | None) -> None:
    """Delete all, whatever becomes of single ones; wait for those that go, unless without a time.

    Raises:
        Failure: one or several were not deleted.
    """
    from kaiwo.engine.errors import ApiError

    deleted, waited, refused = [], [], []
    for obj in chosen:
        try:
            if cluster.run(functools.partial(deletion.delete, obj=obj)):
                waited.append(obj)
        except ApiError as error:
            failure = translated(error)
            if failure is None or len(chosen) == 1:
                raise
            kit.say(f"error: {label(obj)} was not deleted: {failure.message}", level=-1)
            refused.append(failure)
        else:
            deleted.append(obj)
            kit.say(f"{label(obj)} deleted")
    if kit.settings().output in ("json", "yaml", "name"):
        kit.emit(deleted, one=True)
    if timeout is not None:
        with kit.progress("waiting until they are gone"):
            cluster.run(lambda api: deletion.wait_until_gone(api, waited, timeout))
    if refused:
        verb = "was" if len(refused) == 1 else "were"
        what = f"{len(refused)} of {len(chosen)} workloads {verb} not deleted"
        raise Failure(what, refused[0].next_step, code=FAILED)


def _confirm(objects: Sequence[Object]) -> None:
    place = ""
    for obj in sorted(objects, key=lambda obj: str(obj["metadata"]["namespace"])):
        if place != obj["metadata"]["namespace"]:
            place = obj["metadata"]["namespace"]
            click.echo(f"in namespace {place}:", err=True)
        word = workload_fields.word(obj) or "new"
        gpus = counted(int(workload_fields.gpus(obj)), "GPU")
        owner = workload_fields.user(obj)
        facts = [word, gpus, *([f"of {owner}"] if owner else [])]
        click.echo(clean(f"  {label(obj)} ({', '.join(facts)})"), err=True)
    what = "it and its data volumes" if len(objects) == 1 else f"these {len(objects)} and their data volumes"
    if not click.confirm(f"Delete {what}?", err=True):
        raise Failure(NOTHING, code=FAILED)
