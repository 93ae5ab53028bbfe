"""``kaiwo manifests``: what an administrator installs, rendered for the selected plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import cluster_installation, kit, rendering
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.cli.input_files import crd_files
from kaiwo.cli.rendering_options import RenderingOptions, rendering_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.install.render import InstallOptions
    from kaiwo.install.rendered_manifest import RenderedManifest
    from kaiwo.plugin.registry import Plugins

PARTS = ("all", "crds", "rbac", "operator", "scheduler")

UNINSTALL = "uninstall"
"""Prints what an uninstallation deletes, in place of parts."""

MONITORING = "monitoring"
"""Prints what the Prometheus operator and Grafana read, in place of parts: most clusters lack its CRDs."""

_COLUMNS = [
    kit.Column("KIND", lambda obj: str(obj["kind"])),
    kit.Column("NAMESPACE", lambda obj: str(obj["metadata"].get("namespace", ""))),
    kit.Column("NAME", lambda obj: str(obj["metadata"]["name"])),
]

_UNINSTALL_NOTE = """\
# What kaiwo uninstall deletes of this installation, in this order. It also removes the queues, labels and
# taints that Kaiwo wrote, and the CRDs with all their objects: kaiwo uninstall --dry-run shows these.
"""


@click.command()
@click.argument(
    "parts",
    nargs=-1,
    type=click.Choice([*PARTS, MONITORING, UNINSTALL]),
    metavar="[all|crds|rbac|operator|scheduler]... | monitoring | uninstall",
)
@rendering_options
@click.option(
    "--shard",
    metavar="NAME",
    help="One of several operators that share the namespaces: main, with rights for all of them; any other "
    "with the part operator alone.",
)
@click.option(
    "--previous",
    type=click.Path(dir_okay=False, exists=True),
    metavar="FILE",
    help="Keep every field that these CRDs have.",
)
@click.option(
    "--from-cluster",
    is_flag=True,
    help="Keep every field of the cluster's CRDs, use its KaiwoConfig, check the scheduler's version.",
)
def manifests(
    *, parts: tuple[str, ...], shard: str | None, previous: str | None, from_cluster: bool, **given: Any
) -> None:
    """Print what an administrator installs: CRDs, roles, the operator, the scheduler.

    \b
      kaiwo manifests --from-cluster | kubectl apply --server-side -f -
      kaiwo manifests crds rbac --plugins batch_job,gpu_amd
      kaiwo manifests --restrict queues --restrict users --pod-security

    Roles hold what the chosen plugins need and nothing else, and the operator loads those plugins. Without
    names of parts everything is printed. The part uninstall prints the objects that kaiwo uninstall deletes
    of such an installation, in that order. The part monitoring prints a PodMonitor and a PrometheusRule for
    the Prometheus operator, and a ConfigMap with a Grafana dashboard.

    A field that was once installed must stay, or the API server drops its values from live objects: on an
    upgrade, or with other plugins than before, give --from-cluster or --previous.
    """
    from kaiwo.install.render import PARTS as RENDERED

    _require_alone(parts)
    chosen = set(PARTS[1:]) if not parts or "all" in parts else set(parts)
    _require_use(chosen, previous, from_cluster=from_cluster)
    options = RenderingOptions(**given)
    installation = rendering.installation(options, shard=shard, parts=chosen)
    if MONITORING in parts:
        _print_monitoring(installation.namespace)
        return
    if UNINSTALL in parts:
        _print_uninstall(rendering.plugins(options.names), installation)
        return
    before: Sequence[Object] = crd_files.read_crds(previous) if previous else ()
    found = cluster_installation.read_installation(installation.namespace) if from_cluster else None
    if found:
        before = found.crds if "crds" in chosen else ()
        if "scheduler" in chosen:
            cluster_installation.warn_of_version(installation.scheduler_image, found.version)
    made = rendering.render(options, installation, chosen, before, found.config if found else None)
    if found:
        cluster_installation.warn_of_left_out(found, made.plugins)
        if chosen >= set(RENDERED):
            cluster_installation.warn_of_leftovers(found, [manifest.obj for manifest in made.rest])
    match kit.settings().output:
        case None | "yaml":
            _print(made.crds, made.rest)
        case _:
            kit.emit(made.objects, _COLUMNS)


def _require_alone(parts: Sequence[str]) -> None:
    """Parts that are printed in place of all others.

    Raises:
        Failure: one of them stands beside another part.
    """
    for alone in (UNINSTALL, MONITORING):
        if alone in parts and len(set(parts)) > 1:
            raise Failure(f"the part {alone} is printed alone", f"kaiwo manifests {alone}", code=USAGE)


def _require_use(chosen: set[str], previous: str | None, *, from_cluster: bool) -> None:
    """Options that change nothing are mistakes.

    Raises:
        Failure: --previous or --from-cluster has no use here.
    """
    if previous and from_cluster:
        raise Failure("--previous and --from-cluster exclude each other", "give one of them", code=USAGE)
    if previous and "crds" not in chosen:
        raise Failure("--previous needs the part crds", "add crds, or leave --previous out", code=USAGE)
    if from_cluster and chosen == {"operator"}:
        raise Failure(
            "--from-cluster changes nothing of the part operator", "leave --from-cluster out", code=USAGE
        )


def _print_monitoring(namespace: str) -> None:
    from kaiwo.cli.output.serialization import to_yaml
    from kaiwo.install.monitoring.objects import monitoring_objects

    found = monitoring_objects(namespace)
    if kit.settings().output not in (None, "yaml"):
        kit.emit(found, _COLUMNS)
        return
    click.echo(to_yaml(found, documents=True), nl=False)


def _print_uninstall(loaded: Plugins, installation: InstallOptions) -> None:
    """The head of each object that an uninstallation deletes, as ``kubectl delete -f -`` takes it."""
    from kaiwo.cli.output.serialization import to_yaml
    from kaiwo.install.inventory import installed_objects

    found = []
    objects = installed_objects(
        loaded, installation.namespace, installation.workload_namespaces, installation.webhooks
    )
    for item in objects:
        metadata = {"name": item.name, **({"namespace": item.namespace} if item.namespace else {})}
        resource = item.resource
        found.append({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata})
    if kit.settings().output not in (None, "yaml"):
        kit.emit(found, _COLUMNS)
        return
    click.echo(_UNINSTALL_NOTE + to_yaml(found, documents=True), nl=False)


def _print(crds: Sequence[Object], rest: Sequence[RenderedManifest]) -> None:
    from kaiwo.api.crds import dump

    click.echo(dump(crds) + "".join(_text(manifest) for manifest in rest), nl=False)


def _text(manifest: RenderedManifest) -> str:
    """One YAML document; each rule of a role below the reasons for it."""
    from kaiwo.cli.output.serialization import to_yaml

    if not manifest.whys:
        return to_yaml([manifest.obj], documents=True)
    text = to_yaml([{key: value for key, value in manifest.obj.items() if key != "rules"}], documents=True)
    text += "rules:\n"
    for rule, reasons in zip(manifest.obj["rules"], manifest.whys, strict=True):
        text += "".join(f"# {' '.join(reason.split())}\n" for reason in reasons) + to_yaml([rule])
    return text
