"""Reads the options of ``kaiwo manifests`` that say how Kaiwo is installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kaiwo.cli.failures import USAGE, Failure

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kaiwo.install.monitoring_options import MonitoringOptions
    from kaiwo.install.pod_options import PodOptions
    from kaiwo.install.render import InstallOptions
    from kaiwo.install.webhooks import Identity, WebhookOptions
    from kaiwo.plugin.registry import Plugins

_LONGEST_NAME = 253  # characters of an object's name

_IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]*", re.ASCII)


def installation_options(
    namespace: str | None, watch_namespaces: Sequence[str], image: str | None, scheduler_image: str | None
) -> InstallOptions:
    """Where Kaiwo is installed and from what.

    Raises:
        Failure: a name is none, or a namespace cannot be watched.
    """
    from kaiwo.api.config_names import watched_namespaces
    from kaiwo.api.installation import DEFAULT_NAMESPACE, SYSTEM_NAMESPACE
    from kaiwo.api.name_rules import PLAIN
    from kaiwo.host.settings import MOST_NAMESPACES
    from kaiwo.install.render import OPERATOR_IMAGE, SCHEDULER_IMAGE, InstallOptions

    watched = watched_namespaces(",".join(watch_namespaces))
    # Of an empty variable of a shell, for example: it would give rights in all namespaces.
    if watch_namespaces and not watched:
        raise Failure(
            "--watch-namespace: expected names of namespaces, got none",
            "name the namespaces in which users work, or leave the option out to watch all",
            code=USAGE,
        )
    for option, name in (("--namespace", namespace), *(("--watch-namespace", name) for name in watched)):
        if name and (problem := PLAIN.problem(name)):
            raise Failure(f"{option}: {problem}", "give the name of a namespace", code=USAGE)
    if len(watched) > MOST_NAMESPACES:
        raise Failure(
            f"--watch-namespace: at most {MOST_NAMESPACES} namespaces can be watched one by one, got "
            f"{len(watched)}",
            "leave the option out to watch all",
            code=USAGE,
        )
    own = namespace or DEFAULT_NAMESPACE
    if reserved := sorted({SYSTEM_NAMESPACE, own}.intersection(watched)):
        raise Failure(
            f"--watch-namespace: the operator writes nothing to {reserved[0]}",
            "name the namespaces in which users work",
            code=USAGE,
        )
    for option, value in (("--image", image), ("--scheduler-image", scheduler_image)):
        if value is not None and not _IMAGE.fullmatch(value):
            raise Failure(
                f"{option}: expected the name of an image, got {value!r}",
                "write for example registry.example.com/kaiwo/operator:1.0",
                code=USAGE,
            )
    return InstallOptions(
        own,
        image or OPERATOR_IMAGE,
        scheduler_image or SCHEDULER_IMAGE,
        watched,
    )


def shard_option(shard: str | None, parts: Collection[str], *, watched: bool, webhooks: bool) -> str:
    """Which of several operators is rendered; empty for the only one.

    Args:
        shard: what was given.
        parts: that are rendered.
        watched: whether namespaces were chosen by name.
        webhooks: whether webhooks are rendered.

    Raises:
        Failure: the name is none, or other options do not go with it.
    """
    from kaiwo.api.name_rules import PLAIN
    from kaiwo.engine.shard import MAIN

    if not shard:
        return ""
    if problem := PLAIN.problem(shard):
        raise Failure(f"--shard: {problem}", "give main, or the value of a label", code=USAGE)
    if watched:
        raise Failure("--shard and --watch-namespace exclude each other", "leave one of them out", code=USAGE)
    if shard != MAIN and (set(parts) != {"operator"} or webhooks):
        raise Failure(
            f"--shard {shard}: all but the Deployment, and the webhooks, come with the shard {MAIN}",
            f"kaiwo manifests operator --shard {shard}, without --webhooks",
            code=USAGE,
        )
    return shard


def allowed_plugins(file: str, plugins: Plugins) -> tuple[str, ...]:
    """The entries of a list of allowed plugins, as ``kaiwo plugins --allow-list`` prints it.

    Raises:
        Failure: the file has no such list, or it lacks a plugin that the operator is to load.
    """
    from pathlib import Path

    from kaiwo.engine.yaml_reader import parse_value
    from kaiwo.engine.yaml_scalars import DocumentError
    from kaiwo.install.operator import operator_plugins
    from kaiwo.plugin.selection import PluginSelection, SelectionError

    how = "kaiwo plugins --allow-list prints such a list"
    try:
        content = parse_value(Path(file).read_text(encoding="utf-8"))
        selection = PluginSelection.of(settings=content if isinstance(content, dict) else {}, where=file)
        entries = selection.allowed_plugins()
    except (OSError, UnicodeDecodeError, DocumentError, SelectionError) as error:
        raise Failure(f"{file}: {error}", how, code=USAGE) from error
    if entries is None:
        raise Failure(f"{file}: expected a mapping with the list pluginsAllowed", how, code=USAGE)
    needed = [name.partition("@")[0] for name in operator_plugins(plugins)]
    lacking = [
        f"{plugin.name}@{plugin.distribution}"
        for plugin in plugins.loaded
        if plugin.name in needed
        and not any(one.name == plugin.name and one.names(plugin.distribution) for one in entries)
    ]
    if lacking:
        raise Failure(
            f"{file}: pluginsAllowed lacks {', '.join(lacking)}, which the operator is to load",
            "add them, or leave them out of --plugins",
            code=USAGE,
        )
    return tuple(map(str, entries))


def pod_options(priority_class: str | None, pull_secrets: tuple[str, ...]) -> PodOptions:
    """Options of the pods; names are those of Kubernetes objects."""
    from kaiwo.install.deployment import PRIORITY_CLASS
    from kaiwo.install.pod_options import PodOptions

    named = [("--image-pull-secret", name) for name in pull_secrets]
    named += [("--priority-class", priority_class)] if priority_class else []
    for option, name in named:
        if problem := _problem(name):
            raise Failure(f"{option}: {problem}", "give the name of an object", code=USAGE)
    # A server-side apply refuses a list that has a name twice.
    distinct = tuple(dict.fromkeys(pull_secrets))
    return PodOptions(PRIORITY_CLASS if priority_class is None else priority_class, distinct)


def api_server_ports_of(network_policy: bool, ports: tuple[int, ...]) -> tuple[int, ...]:
    """Ports of the API server for NetworkPolicies; the usual ones when none is given."""
    from kaiwo.install.network_policy import API_SERVER_PORTS

    if ports and not network_policy:
        raise Failure("--api-server-port needs --network-policy", "add --network-policy", code=USAGE)
    return tuple(dict.fromkeys(ports)) or API_SERVER_PORTS


def webhook_options(
    on: bool,
    enforce: bool,
    identity: Identity | None,
    certificates: str | None,
) -> WebhookOptions | None:
    """What the webhooks do; None for none."""
    from kaiwo.install.webhooks import WebhookOptions

    given = {
        "--enforce-gpu-workloads": enforce,
        "--identity": identity not in (None, "off"),
        "--webhook-certificates": certificates is not None,
    }
    if not on:
        for option, used in given.items():
            if used:
                raise Failure(f"{option} needs --webhooks", "add --webhooks", code=USAGE)
        return None
    if certificates is not None and (problem := _problem(certificates)):
        raise Failure(f"--webhook-certificates: {problem}", "give the name of a Secret", code=USAGE)
    return WebhookOptions(enforce, identity or "off", certificates or "")


def mounted_secrets(names: tuple[str, ...]) -> tuple[str, ...]:
    """Secrets that are mounted into the operator; their names are those of volumes, too.

    Raises:
        Failure: a name cannot be used.
    """
    from kaiwo.api.name_rules import PLAIN
    from kaiwo.install.operator import VOLUME

    for name in names:
        problem = f'the name "{name}" is taken by another volume' if name == VOLUME else PLAIN.problem(name)
        if problem:
            raise Failure(f"--mount-secret: {problem}", "give the name of a Secret", code=USAGE)
    return tuple(dict.fromkeys(names))


def monitoring_options(
    endpoint: str | None,
    interval: str | None,
    port: int | None,
    token_file: str | None,
    ca_file: str | None,
) -> MonitoringOptions | None:
    """Where the operator reads the use of GPUs; None for not at all.

    Raises:
        Failure: a value cannot be used, or has no use.
    """
    from kaiwo.host import settings
    from kaiwo.install.monitoring_options import INTERVAL, PORT, MonitoringOptions

    if endpoint is None:
        others = {
            "--monitoring-interval": interval, "--monitoring-port": port,
            "--monitoring-token-file": token_file, "--monitoring-ca-file": ca_file,
        }  # fmt: skip
        for option, value in others.items():
            if value is not None:
                raise Failure(
                    f"{option} needs --monitoring-endpoint", "add --monitoring-endpoint", code=USAGE
                )
        return None
    given = {
        "--monitoring-endpoint": ("RESOURCE_MONITORING_METRICS_ENDPOINT", endpoint),
        "--monitoring-interval": ("RESOURCE_MONITORING_POLLING_INTERVAL", interval or INTERVAL),
    }
    found = None
    for option, (variable, value) in given.items():
        try:
            settings.load(environ={variable: value})
            found = found or urlsplit(endpoint).port
        except ValueError as error:
            text = f"{option}: {str(error).removeprefix(f'environment: {variable}: ')}"
            raise Failure(text, "write for example http://prometheus:9090 and 30s", code=USAGE) from None
    for option, file in (("--monitoring-token-file", token_file), ("--monitoring-ca-file", ca_file)):
        if file is None:
            continue
        if not file.startswith("/"):
            text = f"{option}: expected an absolute path in the container, got {file!r}"
            raise Failure(text, "--mount-secret NAME makes /etc/kaiwo/NAME", code=USAGE)
        if not endpoint.startswith("https://"):
            raise Failure(f"{option} needs an https:// endpoint", "write https, or leave it out", code=USAGE)
    return MonitoringOptions(
        endpoint, interval or INTERVAL, port or found or PORT, token_file or "", ca_file or ""
    )


def _problem(name: str) -> str | None:
    """Why a name is none of a Kubernetes object; None when it is one."""
    from kaiwo.api.name_rules import NameRule
    from kaiwo.api.scalars import PATTERN_WORDS, SUBDOMAIN

    return NameRule(_LONGEST_NAME, SUBDOMAIN, PATTERN_WORDS[SUBDOMAIN]).problem(name)
