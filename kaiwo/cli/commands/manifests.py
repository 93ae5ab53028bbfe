"""``kaiwo manifests``: what an administrator installs, rendered for the selected plugins."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kaiwo.cli import cluster_installation, kit
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.cli.input_files import crd_files
from kaiwo.cli.install_options import (
    allowed_plugins,
    api_server_ports_of,
    installation_options,
    monitoring_options,
    mounted_secrets,
    pod_options,
    shard_option,
    webhook_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.install.render import InstallOptions, Part
    from kaiwo.install.rendered_manifest import RenderedManifest
    from kaiwo.install.restrictions import Restriction
    from kaiwo.install.webhooks import Identity
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
@click.option("--plugins", "names", metavar="NAMES", help="Render for these plugins only, comma-separated.")
@click.option(
    "--plugins-allowed",
    "allowed_file",
    type=click.Path(dir_okay=False, exists=True),
    metavar="FILE",
    help="The operator imports no plugin that this list lacks; kaiwo plugins --allow-list prints one.",
)
@click.option("-n", "--namespace", metavar="NAME", help="Of operator and scheduler (default: kaiwo-system).")
@click.option(
    "--watch-namespace",
    "watch_namespaces",
    multiple=True,
    metavar="NAMES",
    help="The only namespaces whose workloads run, comma-separated; the operator has rights to namespaced "
    "objects there alone. May be given several times.",
)
@click.option(
    "--shard",
    metavar="NAME",
    help="One of several operators that share the namespaces: main, with rights for all of them; any other "
    "with the part operator alone.",
)
@click.option(
    "--pod-security",
    is_flag=True,
    help="Label the namespace so that it enforces the pod security standard restricted, for all its pods.",
)
@click.option("--image", metavar="IMAGE", help="Of the operator; it must hold the chosen plugins.")
@click.option(
    "--scheduler-image",
    metavar="IMAGE",
    help="A kube-scheduler of the cluster's version, or one minor version older.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 9),
    metavar="NUMBER",
    help="Pods of the operator, and of the scheduler (2); one of them leads.",
)
@click.option(
    "--priority-class",
    metavar="NAME",
    help="Of the pods of operator and scheduler (system-cluster-critical); '' for none.",
)
@click.option(
    "--image-pull-secret",
    "pull_secrets",
    multiple=True,
    metavar="NAME",
    help="Secret with credentials for the images; may be given several times.",
)
@click.option(
    "--network-policy",
    is_flag=True,
    help="Limit the traffic of operator and scheduler to their ports, the API server and DNS.",
)
@click.option(
    "--api-server-port",
    "api_server_ports",
    multiple=True,
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Where the API server listens (443 and 6443); with --network-policy; may be given several times.",
)
@click.option(
    "--restrict",
    "restricted",
    multiple=True,
    type=click.Choice(["queues", "priority-classes", "users", "dangerous"]),
    help="Let workloads in every namespace name these only with a right to them; may be given several times.",
)
@click.option(
    "--webhooks", is_flag=True, help="Let the operator serve admission webhooks, with their rights."
)
@click.option(
    "--enforce-gpu-workloads",
    is_flag=True,
    help="Put plain Jobs that request GPUs under Kaiwo's management; with --webhooks.",
)
@click.option(
    "--identity",
    type=click.Choice(["off", "set", "check"]),
    help="Set spec.user of workloads to the authenticated user, or refuse another (off); with --webhooks.",
)
@click.option(
    "--webhook-certificates",
    metavar="SECRET",
    help="With tls.crt, tls.key and ca.crt (default: the operator signs its own); with --webhooks.",
)
@click.option(
    "--monitoring-endpoint",
    metavar="URL",
    help="Read the use of GPUs from a Prometheus server, or from Prometheus text.",
)
@click.option(
    "--monitoring-interval",
    metavar="DURATION",
    help="How often it is read (30s); with --monitoring-endpoint.",
)
@click.option(
    "--monitoring-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Where its processes listen, for --network-policy (the port of the URL, or 9090).",
)
@click.option(
    "--monitoring-token-file",
    metavar="PATH",
    help="File of the operator's container with a bearer token for an https endpoint; see --mount-secret.",
)
@click.option(
    "--monitoring-ca-file",
    metavar="PATH",
    help="File of the operator's container with the CA certificates of the endpoint; see --mount-secret.",
)
@click.option(
    "--mount-secret",
    "secrets",
    multiple=True,
    metavar="NAME",
    help="Secret of the operator's namespace, mounted at /etc/kaiwo/NAME; may be given several times.",
)
@click.option(
    "--kaiwoconfig",
    type=click.Path(dir_okay=False, exists=True),
    metavar="FILE",
    help="Leave out rights of settings that are off in this KaiwoConfig.",
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
    *,
    parts: tuple[str, ...],
    names: str | None,
    allowed_file: str | None,
    namespace: str | None,
    watch_namespaces: tuple[str, ...],
    shard: str | None,
    pod_security: bool,
    image: str | None,
    scheduler_image: str | None,
    replicas: int | None,
    priority_class: str | None,
    pull_secrets: tuple[str, ...],
    network_policy: bool,
    api_server_ports: tuple[int, ...],
    restricted: tuple[Restriction, ...],
    webhooks: bool,
    enforce_gpu_workloads: bool,
    identity: Identity | None,
    webhook_certificates: str | None,
    monitoring_endpoint: str | None,
    monitoring_interval: str | None,
    monitoring_port: int | None,
    monitoring_token_file: str | None,
    monitoring_ca_file: str | None,
    secrets: tuple[str, ...],
    kaiwoconfig: str | None,
    previous: str | None,
    from_cluster: bool,
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
    from kaiwo.install.render import REPLICAS

    _require_alone(parts)
    chosen = set(PARTS[1:]) if not parts or "all" in parts else set(parts)
    _require_use(chosen, previous, from_cluster=from_cluster)
    installation = replace(
        installation_options(namespace or kit.settings().namespace, watch_namespaces, image, scheduler_image),
        replicas=replicas or REPLICAS,
        restrict_namespace=pod_security,
        restricted=restricted,
        pods=pod_options(priority_class, pull_secrets),
        network_policy=network_policy,
        api_server_ports=api_server_ports_of(network_policy, api_server_ports),
        webhooks=webhook_options(webhooks, enforce_gpu_workloads, identity, webhook_certificates),
        monitoring=monitoring_options(
            monitoring_endpoint,
            monitoring_interval,
            monitoring_port,
            monitoring_token_file,
            monitoring_ca_file,
        ),
        secrets=mounted_secrets(secrets),
        shard=shard_option(shard, chosen, watched=bool(watch_namespaces), webhooks=webhooks),
    )
    if MONITORING in parts:
        _print_monitoring(installation.namespace)
        return
    if UNINSTALL in parts:
        _print_uninstall(_plugins(names), installation)
        return
    before: Sequence[Object] = crd_files.read_crds(previous) if previous else ()
    config = crd_files.read_kaiwo_config(kaiwoconfig) if kaiwoconfig else None
    found = cluster_installation.read_installation(installation.namespace) if from_cluster else None
    if found:
        before = found.crds if "crds" in chosen else ()
        config = config or found.config
        if "scheduler" in chosen:
            cluster_installation.warn_of_version(installation.scheduler_image, found.version)
    installation = replace(installation, plugin_settings=cluster_installation.plugin_settings(config))
    loaded = _plugins(names)
    if allowed_file:
        installation = replace(installation, allowed_plugins=allowed_plugins(allowed_file, loaded))
    crds = loaded.crds(before) if "crds" in chosen else []
    cluster_installation.require_not_newer(before, crds)
    rest = _render([part for part in PARTS if part in chosen], loaded, installation)
    if found:
        cluster_installation.warn_of_left_out(found, loaded)
        if chosen >= set(RENDERED):
            cluster_installation.warn_of_leftovers(found, [manifest.obj for manifest in rest])
    match kit.settings().output:
        case None | "yaml":
            _print(crds, rest)
        case _:
            kit.emit([*crds, *(manifest.obj for manifest in rest)], _COLUMNS)


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


def _plugins(names: str | None) -> Plugins:
    """The selected plugins.

    Raises:
        Failure: one that was selected by name does not load; its fields and rights would be missing.
    """
    from kaiwo.plugin.selection import NAMES_VARIABLE

    loaded = kit.plugins(names)
    working = {plugin.name for plugin in loaded.loaded}
    broken = [
        f"{state.name}: {state.message}"
        for state in loaded.states
        if state.state in ("broken", "not-allowed") and state.name not in working
    ]
    if broken and (names is not None or NAMES_VARIABLE in os.environ):
        raise Failure(
            "selected plugins do not load:\n" + "\n".join(broken),
            "install them, or leave them out of the list; kaiwo plugins shows what is installed",
        )
    kit.warn_broken(loaded)
    return loaded


def _render(parts: Sequence[str], loaded: Plugins, installation: InstallOptions) -> list[RenderedManifest]:
    from kaiwo.install.render import PARTS as RENDERED
    from kaiwo.install.render import render

    known: list[Part] = [part for part in RENDERED if part in parts]
    return render(known, loaded, installation)


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
