"""The options that say what is installed, of ``kaiwo manifests`` and ``kaiwo install`` alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kaiwo.cli.options import ShortOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.install.restrictions import Restriction
    from kaiwo.install.webhooks import Identity

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderingOptions:
    """The options as they were given, by the names of click."""

    names: str | None
    allowed_file: str | None
    namespace: str | None
    watch_namespaces: tuple[str, ...]
    pod_security: bool
    image: str | None
    scheduler_image: str | None
    replicas: int | None
    priority_class: str | None
    pull_secrets: tuple[str, ...]
    network_policy: bool
    api_server_ports: tuple[int, ...]
    restricted: tuple[Restriction, ...]
    webhooks: bool
    enforce_gpu_workloads: bool
    identity: Identity | None
    webhook_certificates: str | None
    monitoring_endpoint: str | None
    monitoring_interval: str | None
    monitoring_port: int | None
    monitoring_token_file: str | None
    monitoring_ca_file: str | None
    secrets: tuple[str, ...]
    kaiwoconfig: str | None


_OPTIONS = (
    click.option(
        "--plugins", "names", metavar="NAMES", help="Render for these plugins only, comma-separated."
    ),
    click.option(
        "--plugins-allowed",
        "allowed_file",
        type=click.Path(dir_okay=False, exists=True),
        metavar="FILE",
        help="The operator imports no plugin that this list lacks; kaiwo plugins --allow-list prints one.",
    ),
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        cls=ShortOption,
        help="Of operator and scheduler (default: kaiwo-system).",
    ),
    click.option(
        "--watch-namespace",
        "watch_namespaces",
        multiple=True,
        metavar="NAMES",
        help="The only namespaces whose workloads run, comma-separated; the operator has rights to "
        "namespaced objects there alone. May be given several times.",
    ),
    click.option(
        "--pod-security",
        is_flag=True,
        help="Label the namespace so that it enforces the pod security standard restricted, for all its "
        "pods.",
    ),
    click.option("--image", metavar="IMAGE", help="Of the operator; it must hold the chosen plugins."),
    click.option(
        "--scheduler-image",
        metavar="IMAGE",
        help="A kube-scheduler of the cluster's version, or one minor version older.",
    ),
    click.option(
        "--replicas",
        type=click.IntRange(1, 9),
        metavar="NUMBER",
        help="Pods of the operator, and of the scheduler (2); one of them leads.",
    ),
    click.option(
        "--priority-class",
        metavar="NAME",
        help="Of the pods of operator and scheduler (system-cluster-critical); '' for none.",
    ),
    click.option(
        "--image-pull-secret",
        "pull_secrets",
        multiple=True,
        metavar="NAME",
        help="Secret with credentials for the images; may be given several times.",
    ),
    click.option(
        "--network-policy",
        is_flag=True,
        help="Limit the traffic of operator and scheduler to their ports, the API server and DNS.",
    ),
    click.option(
        "--api-server-port",
        "api_server_ports",
        multiple=True,
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="Where the API server listens (443 and 6443); with --network-policy; may be given several "
        "times.",
    ),
    click.option(
        "--restrict",
        "restricted",
        multiple=True,
        type=click.Choice(["queues", "priority-classes", "users", "dangerous"]),
        help="Let workloads in every namespace name these only with a right to them; may be given several "
        "times.",
    ),
    click.option(
        "--webhooks", is_flag=True, help="Let the operator serve admission webhooks, with their rights."
    ),
    click.option(
        "--enforce-gpu-workloads",
        is_flag=True,
        help="Put plain Jobs that request GPUs under Kaiwo's management; with --webhooks.",
    ),
    click.option(
        "--identity",
        type=click.Choice(["off", "set", "check"]),
        help="Set spec.user of workloads to the authenticated user, or refuse another (off); with "
        "--webhooks.",
    ),
    click.option(
        "--webhook-certificates",
        metavar="SECRET",
        help="With tls.crt, tls.key and ca.crt (default: the operator signs its own); with --webhooks.",
    ),
    click.option(
        "--monitoring-endpoint",
        metavar="URL",
        help="Read the use of GPUs from a Prometheus server, or from Prometheus text.",
    ),
    click.option(
        "--monitoring-interval",
        metavar="DURATION",
        help="How often it is read (30s); with --monitoring-endpoint.",
    ),
    click.option(
        "--monitoring-port",
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="Where its processes listen, for --network-policy (the port of the URL, or 9090).",
    ),
    click.option(
        "--monitoring-token-file",
        metavar="PATH",
        help="File of the operator's container with a bearer token for an https endpoint; see "
        "--mount-secret.",
    ),
    click.option(
        "--monitoring-ca-file",
        metavar="PATH",
        help="File of the operator's container with the CA certificates of the endpoint; see --mount-secret.",
    ),
    click.option(
        "--mount-secret",
        "secrets",
        multiple=True,
        metavar="NAME",
        help="Secret of the operator's namespace, mounted at /etc/kaiwo/NAME; may be given several times.",
    ),
    click.option(
        "--kaiwoconfig",
        type=click.Path(dir_okay=False, exists=True),
        metavar="FILE",
        help="Leave out rights of settings that are off in this KaiwoConfig.",
    ),
)


def rendering_options(command: F) -> F:
    """Give a command the options; it gets them as keyword arguments, for `RenderingOptions`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
