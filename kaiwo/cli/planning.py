"""Planning workloads as the operator would, with a cluster or without one."""

from __future__ import annotations

import signal
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaiwo.cli import kit
from kaiwo.cli.failures import plain
from kaiwo.client.kinds import BY_KIND, SHORT
from kaiwo.client.lookup import not_installed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaiwo.api.workload import Workload
    from kaiwo.cli.cluster_context import ClusterContext
    from kaiwo.cli.input_files.workload_file import WorkloadFile
    from kaiwo.cli.kit import Cluster
    from kaiwo.cli.quota_check import QuotaCheck
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.model import Plan, Registry

BLOCKED_STATES = frozenset({"ERROR", "FAILED"})
"""Statuses of a workload that does not run."""


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """One workload's plan.

    Attributes:
        manifest: what was read.
        plan: what the operator would do.
        objects: the objects it would create, with their origins.
        downloads: what would be downloaded before the start, a line for each item.
        patches: changes to objects that exist.
        rejections: why the API server rejects objects or their pods, one problem each, with its reason.
        reported: the status that the operator wrote last, empty for a new workload.
        missing: what its pods and volumes name and does not exist, a sentence each.
        trial_warnings: what the API server leaves out of objects, and why it may refuse pods for now.
        never: why its queue can never start it; empty where it can or that is not known.
    """

    manifest: WorkloadFile
    plan: Plan
    objects: tuple[tuple[Object, Mapping[str, tuple[str, str]]], ...]
    downloads: tuple[str, ...]
    patches: tuple[Object, ...]
    rejections: tuple[str, ...]
    reported: Object
    missing: tuple[str, ...] = ()
    trial_warnings: tuple[str, ...] = ()
    never: str = ""

    @property
    def runs(self) -> bool:
        """Whether nothing keeps it, or its change, from running."""
        return not self.rejections and not self.unapplied and self.status.get("status") not in BLOCKED_STATES

    @property
    def unapplied(self) -> str:
        """Why a change of the spec would not be applied to what runs; empty when it would."""
        conditions = self.status.get("conditions") or ()
        return next(
            (c["message"] for c in conditions if c["type"] == "SpecApplied" and c["status"] == "False"), ""
        )

    @property
    def blocked(self) -> str:
        """Why it would not run, with the reason in front; empty when it would."""
        if self.status.get("status") in BLOCKED_STATES:
            return f"{self.status.get('reason')}: {self.status.get('message')}"
        return "; ".join(self.rejections)

    @property
    def waits(self) -> str:
        """What nothing is created for now; empty when objects are created, changed or there already."""
        status = self.status
        if self.objects or self.reported or status.get("status") != "PENDING":
            return ""
        return f"{status.get('reason')}: {status.get('message')}"

    @property
    def label(self) -> str:
        """``job/train``."""
        return f"{SHORT[self.manifest.kind]}/{self.manifest.name}"

    @property
    def warnings(self) -> list[str]:
        """Those that were not printed, with line and column, when the manifest was validated."""
        printed = tuple(self.manifest.warned)
        found = [warning for warning in self.plan.warnings if not warning.startswith(printed)]
        never = (self.never,) if self.never else ()
        return [*found, *self.missing, *self.trial_warnings, *never]

    @property
    def status(self) -> Object:
        """The status that the operator would write last, or wrote when it would write none."""
        return self.plan.statuses[-1] if self.plan.statuses else self.reported


_MANY = 50
"""Workloads of one submission for each of which the cluster is asked."""

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


def plan_workloads(
    manifests: Sequence[WorkloadFile], plugins: Plugins, *, offline: bool, nodes: str | None
) -> list[PlannedWorkload]:
    """Plan all workloads, against the cluster unless ``offline``, or there is none, or it does not answer.

    Args:
        manifests: valid workloads.
        plugins: what is loaded.
        offline: ask no cluster.
        nodes: a file of nodes or ``none``, in place of the cluster's.

    Raises:
        CredentialsError: no such context or kubeconfig as was named with ``--context`` or ``--kubeconfig``.
    """
    from kaiwo.cli import cluster_context
    from kaiwo.cli.quota_check import QuotaCheck
    from kaiwo.engine.errors import ConnectionBroken, CredentialsError, Forbidden

    def around(base: ClusterContext) -> ClusterContext:
        return base if nodes is None else cluster_context.with_nodes(base, nodes, plugins)

    if not offline:
        try:
            with kit.cluster(timeout=10.0) as cluster, kit.progress("planning workloads"):
                found = around(cluster_context.read_context(cluster, plugins))
                quota = QuotaCheck(cluster, plugins)
                with _registry(plugins) as registry:
                    return [
                        _plan(
                            manifest,
                            _as_stored(cluster, manifest, plugins),
                            plugins,
                            registry,
                            found,
                            cluster=cluster,
                            quota=quota,
                        )
                        for manifest in manifests
                    ]
        except (CredentialsError, ConnectionBroken, Forbidden) as error:
            named = kit.settings().context or kit.settings().kubeconfig
            if named and isinstance(error, CredentialsError):
                # A plan for no cluster would pass for one for the cluster that is meant.
                raise
            kit.say(f"warning: no cluster: {plain(error)}")
    if nodes is None:
        kit.say("planned without a cluster: defaults are assumed, GPU capacity is not checked (--nodes FILE)")
    else:
        kit.say("planned without a cluster: defaults are assumed")
    found = around(cluster_context.assumed_context(plugins))
    _warn_of_privileges(manifests, plugins)
    with kit.progress("planning workloads"), _registry(plugins) as registry:
        return [_plan(manifest, manifest.obj, plugins, registry, found) for manifest in manifests]


@dataclass(frozen=True, slots=True)
class Submission:
    """A workload that is being submitted.

    Attributes:
        manifest: as written.
        stored: as the API server answered to a dry run, or as written.
        anew: what exists under its name is deleted first.
    """

    manifest: WorkloadFile
    stored: Object
    anew: bool = False


def plan_submitted(
    submissions: Sequence[Submission], plugins: Plugins, cluster: Cluster | None
) -> list[PlannedWorkload]:
    """Plan what is being submitted, as `plan_workloads` does, without what takes long.

    Args:
        submissions: valid workloads.
        plugins: what is loaded.
        cluster: what is asked; None to assume the documented defaults. Of more than `_MANY` workloads only
            what all share is read from it.
    """
    from kaiwo.cli import cluster_context
    from kaiwo.cli.quota_check import QuotaCheck

    if cluster is None:
        found = cluster_context.assumed_context(plugins)
    else:
        found = cluster_context.read_context(cluster, plugins, level=1)
    asked = cluster if len(submissions) <= _MANY else None
    quota = QuotaCheck(cluster, plugins) if cluster is not None else None
    with _registry(plugins) as registry:
        return [
            _plan(
                one.manifest,
                one.stored,
                plugins,
                registry,
                found,
                cluster=asked,
                quota=quota,
                trial=False,
                anew=one.anew,
            )
            for one in submissions
        ]


def never_starts(obj: Object, plugins: Plugins, cluster: Cluster) -> str:
    """Why the queue of a new workload can never start it; empty where it can or that is not known.

    Args:
        obj: the workload.
        plugins: what is loaded.
        cluster: where it would be created.

    Raises:
        InvalidWorkload: it is none.
        EngineError: the cluster does not answer.
    """
    from kaiwo.cli import cluster_context
    from kaiwo.cli.input_files.workload_file import WorkloadFile
    from kaiwo.cli.quota_check import QuotaCheck
    from kaiwo.engine.yaml_reader import Document

    found = cluster_context.read_context(cluster, plugins, level=1)
    manifest = WorkloadFile("", Document(obj), obj)
    with _registry(plugins) as registry:
        return _plan(manifest, obj, plugins, registry, found, quota=QuotaCheck(cluster, plugins)).never


def _warn_of_privileges(manifests: Sequence[WorkloadFile], plugins: Plugins) -> None:
    """Print what the admission policy refuses, unless the namespace, which is not known, has the label."""
    from kaiwo.admission.template_rules import broken_rules

    for manifest in manifests:
        for message in broken_rules(manifest.kind, manifest.obj.get("spec"), plugins.backends):
            kit.say(f"warning: {SHORT[manifest.kind]}/{manifest.name}: {message}")


def _plan(
    manifest: WorkloadFile,
    stored: Object,
    plugins: Plugins,
    registry: Registry,
    found: ClusterContext,
    *,
    cluster: Cluster | None = None,
    quota: QuotaCheck | None = None,
    trial: bool = True,
    anew: bool = False,
) -> PlannedWorkload:
    """Plan one workload.

    Args:
        manifest: as written.
        stored: as the API server would store it.
        plugins: what is loaded.
        registry: their declarations.
        found: what all workloads share.
        cluster: where what exists of the workload is read; None for nothing.
        quota: compares it with the quota of its queue; None for no comparison.
        trial: whether the API server is asked to check the objects.
        anew: leave out what exists of the workload.
    """
    from kaiwo.api.workload import Workload
    from kaiwo.cli.cluster_context import ExistingObjects, read_existing, read_namespace_defaults
    from kaiwo.cli.output.download_lines import downloads
    from kaiwo.cli.pod_references import missing_objects
    from kaiwo.cli.server_trial import TrialResult, try_objects
    from kaiwo.workload.backend_selection import select_backend
    from kaiwo.workload.errors import PluginError
    from kaiwo.workload.model import Apply, Create, Patch
    from kaiwo.workload.plan import plan_object

    workload = Workload.from_object(stored)
    exists = ExistingObjects()
    if cluster is not None and not anew:
        with suppress(PluginError):
            backend = select_backend(workload, registry).backend
            if backend is not None:
                exists = read_existing(cluster, workload, backend.child)
    if exists.hidden:
        # With its status but without its child it would look as if the child was lost.
        stored = {key: value for key, value in stored.items() if key != "status"}
        workload = Workload.from_object(stored)
    if cluster is not None and plugins.namespace_defaults:
        defaults = read_namespace_defaults(cluster, workload.namespace, plugins)
        exists = replace(exists, namespace_defaults=defaults)
    outcome = plan_object(stored, registry, found.facts(workload, plugins, exists))
    rendered = [(dict(r.child), dict(r.origins)) for r in outcome.rendered]
    known = {object_key(obj) for obj, _ in rendered}
    rendered += [
        (write.obj, {})
        for write in outcome.writes
        if isinstance(write, Create | Apply) and object_key(write.obj) not in known
    ]
    patches = tuple(
        {"kind": write.resource.kind, "name": write.name, "patch": write.body}
        for write in outcome.writes
        if isinstance(write, Patch)
    )
    answer = try_objects(cluster, outcome) if cluster is not None and trial else TrialResult()
    missing = _missing_class(workload, found)
    if cluster is not None:
        missing += missing_objects(cluster, workload, stored.get("spec"))
    reported = stored.get("status")
    return PlannedWorkload(
        manifest,
        outcome,
        tuple(rendered),
        tuple(downloads(workload)) if outcome.writes and outcome.later else (),
        patches,
        answer.rejections,
        reported if isinstance(reported, dict) else {},
        missing,
        answer.warnings,
        quota.warning(outcome, workload.namespace) if quota is not None else "",
    )


def _missing_class(workload: Workload, found: ClusterContext) -> tuple[str, ...]:
    """A sentence about a StorageClass that does not exist; its volumes would wait for it."""
    from kaiwo.api.suggestion import did_you_mean
    from kaiwo.workload.storage.volumes import enabled

    storage, classes = enabled(workload), found.storage_classes
    name = storage.storage_class_name if storage else None
    if not name or classes is None or name in classes:
        return ()
    hint = did_you_mean(name, classes) or f"known: {', '.join(sorted(classes)) or 'none'}"
    return (f'StorageClass "{name}" not found; its volumes wait for it: {hint} (kubectl get storageclasses)',)


def _as_stored(cluster: Cluster, manifest: WorkloadFile, plugins: Plugins) -> Object:
    """The workload as the API server would store it, with its defaults and, if it exists, its identity."""
    from kaiwo.cli.api_rejections import denied_by_policy, exit_code, rejections
    from kaiwo.engine import errors

    resource = BY_KIND[manifest.kind]
    try:
        return cluster.apply(resource, manifest.obj, dry_run=True)
    except errors.ApiError as error:
        no_namespace = isinstance(error, errors.NotFound) and error.details.get("kind") == "namespaces"
        unchecked = isinstance(error, errors.NotFound | errors.Forbidden) and not no_namespace
        if unchecked and not denied_by_policy(error):
            missing = isinstance(error, errors.NotFound) and not error.details.get("name")
            why = not_installed(resource).message if missing else error
            kit.say(f"warning: {manifest.kind} {manifest.name} not checked by the cluster: {why}")
            return manifest.obj
        from kaiwo.cli.input_files.problems import InvalidInput

        found = rejections(manifest, error, plugins)
        raise InvalidInput(found, "nothing was planned", code=exit_code(error)) from error


def object_key(obj: Object) -> tuple[str, str, str]:
    """By which an object is found again: API version, kind and name."""
    return str(obj.get("apiVersion")), str(obj.get("kind")), str(obj["metadata"].get("name"))
