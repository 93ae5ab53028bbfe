"""``kaiwo delete``: delete workloads and everything that was created for them."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options, user_config
from kaiwo.cli.duration import SECONDS
from kaiwo.cli.failures import FAILED, NOT_FOUND, TIMED_OUT, USAGE, Failure
from kaiwo.cli.output import workload_fields
from kaiwo.cli.terminal import clean
from kaiwo.cli.workload_kinds import SHORT, WORKLOADS
from kaiwo.cli.workload_lookup import find_all, parse_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object, Resource

_INTERVAL = 1.0  # seconds between two checks of what still exists


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
    """Delete workloads, named like train, job/train or service/chat, and what was created for them.

    Data volumes of the workload go with it. Asks first on a terminal.
    """
    options.one_namespace()
    user_config.use_configured_namespace(user_config.load(config))
    with kit.cluster() as cluster:
        chosen = _resolve(cluster, names, ignore_not_found=ignore_not_found)
        if chosen and not yes and on_terminal():
            _confirm(cluster, [obj for _, obj in chosen])
        deleted: list[tuple[Resource, Object]] = []
        for resource, obj in chosen:
            if _delete(cluster, resource, obj):
                deleted.append((resource, obj))
            kit.say(f"{_label(obj)} deleted")
        if wait:
            _wait(cluster, deleted, timeout)


def on_terminal() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty()


def _resolve(
    cluster: Cluster, names: Sequence[str], *, ignore_not_found: bool
) -> list[tuple[Resource, Object]]:
    """The live workloads of all names, before anything is deleted."""
    found: dict[str, tuple[Resource, Object]] = {}
    missing, both = [], []
    for name in names:
        kinds, plain = parse_name(name)
        here = find_all(cluster, kinds, plain)
        missing += [name] if not here else []
        both += [name] if len(here) > 1 else []
        found |= {obj["metadata"]["uid"]: (resource, obj) for resource, obj in here}
    if both:
        named = ", ".join(both)
        what = f"{named} is both a job and a service; nothing was deleted"
        raise Failure(what, f"write job/{both[0]} or service/{both[0]}", code=USAGE)
    if missing and not ignore_not_found:
        named = ", ".join(missing)
        what = f"{named} not found in namespace {cluster.namespace}; nothing was deleted"
        raise Failure(what, "kaiwo list -A", code=NOT_FOUND)
    return list(found.values())


def _confirm(cluster: Cluster, objects: Sequence[Object]) -> None:
    click.echo(f"in namespace {cluster.namespace}:", err=True)
    for obj in objects:
        word = workload_fields.word(obj) or "new"
        click.echo(clean(f"  {_label(obj)} ({word}, {workload_fields.gpus(obj)} GPUs)"), err=True)
    what = "it and its data volumes" if len(objects) == 1 else f"these {len(objects)} and their data volumes"
    if not click.confirm(f"Delete {what}?", err=True):
        raise Failure("nothing was deleted", code=FAILED)


def _delete(cluster: Cluster, resource: Resource, obj: Object) -> bool:
    """Delete exactly the object that was shown; True when it may take a while."""
    from kaiwo.engine.errors import Conflict, NotFound

    metadata = obj["metadata"]
    try:
        answer = cluster.delete(
            resource, metadata["namespace"], metadata["name"], uid=metadata["uid"], propagation="Background"
        )
    except (NotFound, Conflict):
        # Deleted meanwhile, perhaps replaced by another workload of that name, which stays.
        return False
    return answer.get("kind") == resource.kind


def _wait(cluster: Cluster, deleted: Sequence[tuple[Resource, Object]], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while left := [obj for resource, obj in deleted if _exists(cluster, resource, obj)]:
        if time.monotonic() >= deadline:
            names = ", ".join(_label(obj) for obj in left)
            finalizers = sorted({f for obj in left for f in obj["metadata"].get("finalizers") or ()})
            why = f" (finalizers: {', '.join(finalizers)})" if finalizers else ""
            raise Failure(
                f"timed out after {timeout:g} s; still being deleted: {names}{why}",
                "kaiwo list",
                code=TIMED_OUT,
            )
        time.sleep(_INTERVAL)


def _exists(cluster: Cluster, resource: Resource, obj: Object) -> bool:
    from kaiwo.engine.errors import NotFound

    metadata = obj["metadata"]
    try:
        live = cluster.get(resource, metadata["namespace"], metadata["name"])
    except NotFound:
        return False
    return bool(live["metadata"]["uid"] == metadata["uid"])


def _label(obj: Object) -> str:
    return f"{SHORT[obj['kind']]}/{obj['metadata']['name']}"
