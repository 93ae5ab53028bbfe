"""``kaiwo plan``: what the operator would create for a workload, and whether it would run."""

from __future__ import annotations

import functools
import signal
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import kit, options
from kaiwo.cli.failures import FAILED, USAGE, Failure, plain
from kaiwo.cli.input_files import collect
from kaiwo.cli.kinds import BY_KIND, SHORT, not_installed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaiwo.cli.cluster_context import ClusterContext
    from kaiwo.cli.input_files.workload_files import WorkloadFile
    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.model import Plan, Registry

_STATES = {"ERROR", "FAILED"}


@dataclass(frozen=True, slots=True)
class _Planned:
    """One workload's plan.

    Attributes:
        manifest: what was read.
        plan: what the operator would do.
        objects: the objects it would create, with their origins.
        downloads: what would be downloaded before the start, a line for each item.
        patches: changes to objects that exist.
        refusals: what the API server would say to the objects.
        reported: the status that the operator wrote last, empty for a new workload.
    """

    manifest: WorkloadFile
    plan: Plan
    objects: tuple[tuple[Object, Mapping[str, tuple[str, str]]], ...]
    downloads: tuple[str, ...]
    patches: tuple[Object, ...]
    refusals: tuple[str, ...]
    reported: Object

    @property
    def runs(self) -> bool:
        """Whether nothing keeps it, or its change, from running."""
        return not self.refusals and not self.unapplied and self.status.get("status") not in _STATES

    @property
    def unapplied(self) -> str:
        """Why a change of the spec would not be applied to what runs; empty when it would."""
        conditions = self.status.get("conditions") or ()
        return next(
            (c["message"] for c in conditions if c["type"] == "SpecApplied" and c["status"] == "False"), ""
        )

    @property
    def label(self) -> str:
        """``job/train``."""
        return f"{SHORT[self.manifest.kind]}/{self.manifest.name}"

    @property
    def warnings(self) -> list[str]:
        """Those that were not said, with line and column, when the manifest was checked."""
        told = tuple(self.manifest.told)
        return [warning for warning in self.plan.warnings if not warning.startswith(told)]

    @property
    def status(self) -> Object:
        """The status that the operator would write last, or wrote when it would write none."""
        return self.plan.statuses[-1] if self.plan.statuses else self.reported


@click.command()
@collect.options
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

    Asks the cluster of the kubeconfig for its nodes, configuration and present objects; without one, the
    documented defaults count and GPU capacity is not checked.

    \b
      kaiwo plan -f job.yaml --explain
      kaiwo plan -f job.yaml --offline --nodes nodes.yaml
    """
    plugins = kit.plugins(names)
    if kit.settings().output in ("wide", "name") and explain:
        raise Failure("--explain goes with -o yaml or -o json", "leave -o out", code=USAGE)
    from kaiwo.api.metadata_checks import GENERATED

    manifests = collect.take(
        collect.InputRequest(**request), plugins, _context_namespace, "nothing was planned", lambda: GENERATED
    )
    planned = _plan_all(manifests, plugins, offline=offline, nodes=nodes)
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


_PLUGIN_SECONDS = 10.0
"""How long a plugin's code may take for one decision; generous, for this process imports it on the way."""


@contextmanager
def _registry(plugins: Plugins) -> Iterator[Registry]:
    """The plugins' declarations, their code under a time limit where the system can interrupt it."""
    from kaiwo.host.plugin_timeout import (
        TimeLimit,
        guarded_registry,
    )

    limit = TimeLimit(_PLUGIN_SECONDS)
    with limit if hasattr(signal, "SIGALRM") else nullcontext():
        yield guarded_registry(plugins, limit)


def _plan_all(
    manifests: Sequence[WorkloadFile], plugins: Plugins, *, offline: bool, nodes: str | None
) -> list[_Planned]:
    from kaiwo.cli import cluster_context
    from kaiwo.engine.errors import ConnectionBroken, CredentialsError, Forbidden

    def around(base: ClusterContext) -> ClusterContext:
        return base if nodes is None else cluster_context.with_nodes(base, nodes, plugins)

    if not offline:
        try:
            with kit.cluster(timeout=10.0) as cluster:
                found = around(cluster_context.online(cluster, plugins))
                with _registry(plugins) as registry:
                    return [_plan(manifest, plugins, registry, found, cluster) for manifest in manifests]
        except (CredentialsError, ConnectionBroken, Forbidden) as error:
            kit.say(f"no cluster: {plain(error)}")
    if nodes is None:
        kit.say("planned without a cluster: documented defaults, GPU capacity is not checked (--nodes FILE)")
    else:
        kit.say("planned without a cluster: documented defaults")
    found = around(cluster_context.offline(plugins))
    with _registry(plugins) as registry:
        return [_plan(manifest, plugins, registry, found, None) for manifest in manifests]


def _plan(
    manifest: WorkloadFile,
    plugins: Plugins,
    registry: Registry,
    found: ClusterContext,
    cluster: Cluster | None,
) -> _Planned:
    from kaiwo.api.workload import Workload
    from kaiwo.cli.cluster_context import Present, present
    from kaiwo.cli.output.download_lines import downloads
    from kaiwo.workload.backend_selection import select_backend
    from kaiwo.workload.errors import PluginError
    from kaiwo.workload.model import Apply, Create, Patch
    from kaiwo.workload.plan import plan as decide

    stored = manifest.obj if cluster is None else _as_stored(cluster, manifest)
    workload = Workload.from_object(stored)
    exists = Present()
    if cluster is not None:
        with suppress(PluginError):
            backend = select_backend(workload, registry).backend
            if backend is not None:
                exists = present(cluster, workload, backend.child)
    outcome = decide(workload, registry, found.facts(workload, plugins, exists))
    rendered = [(dict(r.child), dict(r.origins)) for r in outcome.rendered]
    known = {_key(obj) for obj, _ in rendered}
    rendered += [
        (write.obj, {})
        for write in outcome.writes
        if isinstance(write, Create | Apply) and _key(write.obj) not in known
    ]
    patches = tuple(
        {"kind": write.resource.kind, "name": write.name, "patch": write.body}
        for write in outcome.writes
        if isinstance(write, Patch)
    )
    refusals = () if cluster is None else _refusals(cluster, outcome)
    reported = stored.get("status")
    return _Planned(
        manifest,
        outcome,
        tuple(rendered),
        tuple(downloads(workload)) if outcome.writes and outcome.later else (),
        patches,
        refusals,
        reported if isinstance(reported, dict) else {},
    )


def _refusals(cluster: Cluster, outcome: Plan) -> tuple[str, ...]:
    """What the API server says against the objects; nothing is created.

    The operator is who creates them: that the user may not is no refusal, only nothing is checked then.
    """
    from kaiwo.engine.errors import Forbidden, Invalid
    from kaiwo.workload.model import Apply, Create

    found = []
    for write in (*outcome.writes, *outcome.later):
        if isinstance(write, Create | Apply):
            resource, obj = write.resource, write.obj
            try:
                cluster.run(functools.partial(_try, resource, obj))
            except Invalid as error:
                found.append(str(error))
            except Forbidden as error:
                kit.say(
                    f"warning: the cluster cannot check {resource.kind} {obj['metadata']['name']}: {error}"
                )
    return tuple(found)


async def _try(resource: Resource, obj: Object, client: Client) -> Object:
    return await client.create(resource, obj, dry_run=True)


def _as_stored(cluster: Cluster, manifest: WorkloadFile) -> Object:
    """The workload as the API server would store it, with its defaults and, if it exists, its identity."""
    from kaiwo.engine import errors

    resource = BY_KIND[manifest.kind]
    try:
        return cluster.apply(resource, manifest.obj, dry_run=True)
    except (errors.NotFound, errors.Forbidden) as error:
        missing = isinstance(error, errors.NotFound) and not error.details.get("name")
        why = not_installed(resource).message if missing else error
        kit.say(f"warning: the cluster cannot check {manifest.kind} {manifest.name} itself: {why}")
        return manifest.obj
    except errors.ApiError as error:
        from kaiwo.cli.commands.submit import refusals
        from kaiwo.cli.input_files.workload_files import InvalidInput

        raise InvalidInput(refusals(manifest, error), "nothing was planned") from error


def _key(obj: Object) -> tuple[str, str, str]:
    return str(obj.get("apiVersion")), str(obj.get("kind")), str(obj["metadata"].get("name"))


def _data(planned: Sequence[_Planned], *, explain: bool) -> None:
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


def _creates(one: _Planned) -> str:
    """The objects by name, those apart that wait for a download."""
    from kaiwo.workload.model import Apply, Create

    later = {_key(write.obj) for write in one.plan.later if isinstance(write, Create | Apply)}
    named = [(f"{obj['kind']} {obj['metadata']['name']}", _key(obj) in later) for obj, _ in one.objects]
    text = ", ".join(name for name, waits in named if not waits)
    then = ", ".join(name for name, waits in named if waits)
    return f"{text}; when the download has succeeded, {then}" if then else text


def _verdict(one: _Planned) -> None:
    """One sentence about what would happen, on standard error."""
    for warning in one.warnings:
        kit.say(f"warning: {one.label}: {warning}")
    status = one.status
    if one.unapplied:
        kit.say(f"{one.label}: would not be applied: {one.unapplied}")
    if status.get("status") in _STATES:
        kit.say(f"{one.label}: would not run: {status.get('reason')}: {status.get('message')}")
        return
    for refusal in one.refusals:
        kit.say(f"{one.label}: would not run: InvalidSpec: {refusal}")
    if one.refusals:
        return
    if one.plan.writes and one.objects:
        kit.say(f"{one.label}: would create {_creates(one)}")
    for line in one.downloads:
        kit.say(f"{one.label}: would download {line}")
    for patch in one.patches:
        kit.say(f"{one.label}: would change {patch['kind']} {patch['name']}: {patch['patch']}")
    if not one.plan.writes and not one.unapplied:
        what = f": {status['status']}: {status.get('message')}" if status.get("status") else ""
        kit.say(f"{one.label}: nothing to do{what}")
