"""``kaiwo delete``: delete workloads and everything that was created for them."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.cli.duration import SECONDS
from kaiwo.cli.failures import FAILED, NOT_FOUND, USAGE, Failure
from kaiwo.cli.terminal import clean, counted
from kaiwo.client import deletion, user_config, workload_fields
from kaiwo.client.kinds import KIND_NAMES, WORKLOADS
from kaiwo.client.lookup import find_all, label, parse_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object


@click.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=kit.complete_names(WORKLOADS)
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--ignore-not-found", is_flag=True, help="What does not exist counts as deleted.")
@click.option("--wait/--no-wait", default=True, help="Wait until it is gone (the default).")
@click.option("--timeout", type=SECONDS, default="2m", metavar="DURATION", help="Give up waiting after (2m).")
@options.config_option
def delete(
    *,
    names: Sequence[str],
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
      kaiwo delete train --no-wait

    NAME is train, job/train or service/chat.
    Data volumes of the workload go with it. Asks first on a terminal.
    """
    options.one_namespace()
    options.use_configured_namespace(user_config.load(config))
    with kit.cluster() as cluster:
        chosen = _resolve(cluster, names, ignore_not_found=ignore_not_found)
        if chosen and not yes and on_terminal():
            _confirm(cluster, chosen)
        deleted = []
        for obj in chosen:
            if cluster.run(functools.partial(deletion.delete, obj=obj)):
                deleted.append(obj)
            kit.say(f"{label(obj)} deleted")
        if wait:
            with kit.progress("waiting until they are gone"):
                cluster.run(lambda api: deletion.wait_until_gone(api, deleted, timeout))


def on_terminal() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty()


def _resolve(cluster: Cluster, names: Sequence[str], *, ignore_not_found: bool) -> list[Object]:
    """The live workloads of all names, before anything is deleted."""
    found: dict[str, Object] = {}
    missing, both = [], []
    for name in names:
        kinds, plain = parse_name(name)
        here = cluster.run(functools.partial(find_all, namespace=cluster.namespace, kinds=kinds, name=plain))
        missing += [name] if not here else []
        both += [name] if len(here) > 1 else []
        found |= {obj["metadata"]["uid"]: obj for _, obj in here}
    if both:
        named = ", ".join(both)
        what = f"{named} is both a job and a service; nothing was deleted"
        raise Failure(what, f"write job/{both[0]} or service/{both[0]}", code=USAGE)
    if missing and not ignore_not_found:
        named = ", ".join(missing)
        what = f"{named} not found in namespace {cluster.namespace}; nothing was deleted"
        kind = next((name for name in missing if name.lower() in KIND_NAMES), "")
        raise Failure(what, f"write {kind}/NAME as one word" if kind else "kaiwo list -A", code=NOT_FOUND)
    return list(found.values())


def _confirm(cluster: Cluster, objects: Sequence[Object]) -> None:
    click.echo(f"in namespace {cluster.namespace}:", err=True)
    for obj in objects:
        word = workload_fields.word(obj) or "new"
        gpus = counted(int(workload_fields.gpus(obj)), "GPU")
        click.echo(clean(f"  {label(obj)} ({word}, {gpus})"), err=True)
    what = "it and its data volumes" if len(objects) == 1 else f"these {len(objects)} and their data volumes"
    if not click.confirm(f"Delete {what}?", err=True):
        raise Failure("nothing was deleted", code=FAILED)
