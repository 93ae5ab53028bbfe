"""``kaiwo plan``: what the operator would create for a workload, and whether it would run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import kit, options
from kaiwo.cli.failures import FAILED, USAGE, Failure
from kaiwo.cli.input_files import collect
from kaiwo.cli.planning import object_key, plan_workloads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.planning import PlannedWorkload


@click.command()
@collect.input_options
@click.option("--explain", is_flag=True, help="Say at each value where it comes from.")
@click.option("--offline", is_flag=True, help="Do not ask a cluster.")
@click.option(
    "--nodes",
    metavar="FILE|none",
    shell_complete=options.complete_files,
    help="Plan for these nodes (kubectl get nodes -o yaml).",
)
@click.option("--plugins", "names", metavar="NAMES", help="Plan with these plugins only, comma-separated.")
def plan(*, explain: bool, offline: bool, nodes: str | None, names: str | None, **request: Any) -> None:
    """Show the objects that workloads would create, and whether they would run. Changes nothing.

    \b
      kaiwo plan job.yaml --explain                       where each value comes from
      kaiwo plan job.yaml -o name                         the names, and whether it would run
      kaiwo plan job.yaml --offline --nodes nodes.yaml    for other nodes

    Asks the cluster of the kubeconfig for its nodes, configuration and present objects; without one, the
    documented defaults count and GPU capacity is not checked.
    """
    plugins = kit.plugins(names)
    if kit.settings().output in ("wide", "name") and explain:
        raise Failure("--explain needs -o yaml or -o json", "leave -o out", code=USAGE)
    from kaiwo.api.metadata_checks import GENERATED

    manifests = collect.read_workloads(
        collect.InputOptions(**request), plugins, _context_namespace, "nothing was planned", lambda: GENERATED
    )
    planned = plan_workloads(manifests, plugins, offline=offline, nodes=nodes)
    _data(planned, explain=explain)
    for one in planned:
        _verdict(one)
    if not all(one.runs for one in planned):
        raise click.exceptions.Exit(FAILED)


def _context_namespace() -> str:
    from kaiwo.engine.errors import CredentialsError

    try:
        return kit.connection().namespace
    except CredentialsError:
        return "default"


def _data(planned: Sequence[PlannedWorkload], *, explain: bool) -> None:
    """The objects, and only they, on standard output."""
    from kaiwo.cli.output.annotate import annotated

    pairs = [pair for one in planned for pair in one.objects]
    form = kit.settings().output
    if explain and form == "json":
        kit.dump([{"object": obj, "origins": origins} for obj, origins in pairs], "json")
    elif form in (None, "yaml"):
        for obj, origins in pairs:
            click.echo(annotated(obj, origins if explain else {}), nl=False)
    else:
        columns = [
            kit.Column("KIND", lambda obj: str(obj["kind"])),
            kit.Column("NAME", lambda obj: str(obj["metadata"]["name"])),
            kit.Column("NAMESPACE", lambda obj: str(obj["metadata"].get("namespace", "")), wide=True),
        ]
        kit.emit([obj for obj, _ in pairs], columns)


def _creates(one: PlannedWorkload) -> str:
    """The objects by name, first those that wait for no download."""
    from kaiwo.workload.model import Apply, Create

    later = {object_key(write.obj) for write in one.plan.later if isinstance(write, Create | Apply)}
    named = [(f"{obj['kind']} {obj['metadata']['name']}", object_key(obj) in later) for obj, _ in one.objects]
    text = ", ".join(name for name, waits in named if not waits)
    then = ", ".join(name for name, waits in named if waits)
    return f"{text}; when the download has succeeded, {then}" if then else text


def _verdict(one: PlannedWorkload) -> None:
    """What would happen, in one sentence, on standard error."""
    for warning in one.warnings:
        kit.say(f"warning: {one.label}: {warning}")
    if one.unapplied:
        kit.say(f"{one.label}: would not be applied: {one.unapplied}")
    if one.blocked:
        kit.say(f"{one.label}: would not run: {one.blocked}")
        return
    if one.plan.writes and one.objects:
        kit.say(f"{one.label}: would create {_creates(one)}")
    for line in one.downloads:
        kit.say(f"{one.label}: would download {line}")
    for patch in one.patches:
        kit.say(f"{one.label}: would change {patch['kind']} {patch['name']}: {patch['patch']}")
    if not one.plan.writes and not one.unapplied:
        # The operator has seen more than what this command asks for, such as events and a queue's words.
        known = one.reported if one.reported.get("status") else one.status
        what = f": {known['status']}: {known.get('message')}" if known.get("status") else ""
        kit.say(f"{one.label}: nothing to do{what}")
