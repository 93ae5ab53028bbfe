"""Reads process settings, which cannot change without a restart.

The table below holds of every setting its key in the settings file, its environment variable, its default
and its meaning. Precedence: flag, environment, file, default. Everything that may change while the operator
runs is in KaiwoConfig instead.
"""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from kaiwo.api.config_names import SHARD_VARIABLE, WATCH_VARIABLE
from kaiwo.api.duration import InvalidDuration, parse_duration
from kaiwo.api.installation import OPERATOR
from kaiwo.api.scalars import DNS_LABEL, PATTERN_WORDS, SUBDOMAIN
from kaiwo.api.suggestion import did_you_mean
from kaiwo.api.switch import parse_switch
from kaiwo.host.settings_conflicts import settings_conflicts
from kaiwo.plugin.selection import SETTINGS as PLUGIN_SETTINGS
from kaiwo.plugin.selection import PluginSelection, SelectionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CONFIG_VARIABLE = "KAIWO_OPERATOR_CONFIG"
"""Names the settings file when ``--config`` is not given."""


class SettingsError(ValueError):
    """The settings are invalid.

    Attributes:
        problems: one line each: source, setting, value, and what is expected.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("is not a string")
    return value.strip()


MOST_NAMESPACES = 64
"""Namespaces that can be watched one by one: each has a watch of its own for each kind."""

_LONGEST_NAME = 63
"""Characters of a namespace's name, and of a queue's, which becomes the value of a label."""


def _name(value: object) -> str:
    return _matching(value, SUBDOMAIN)


def _namespace(value: object) -> str:
    return _matching(value, DNS_LABEL)


def _namespaces(value: object) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError("is not a list of namespaces; write for example team-a,team-b")
    names = sorted({_namespace(part) for part in parts if part.strip()})
    if len(names) > MOST_NAMESPACES:
        raise ValueError(f"names more than {MOST_NAMESPACES} namespaces; leave it empty to watch all")
    return tuple(names)


def _matching(value: object, pattern: str) -> str:
    text = _text(value)
    if len(text) > _LONGEST_NAME or not re.fullmatch(pattern, text):
        words = PATTERN_WORDS[pattern]
        raise ValueError(f"is not a Kubernetes name ({words}, at most {_LONGEST_NAME} characters)")
    return text


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError("is not true or false")  # noqa: TRY004  reported like a word that is neither
    return parse_switch(value)


def _seconds(least: float, most: float = math.inf) -> Callable[[object], float]:
    """The reader of a duration within bounds, in seconds."""

    def parse(value: object) -> float:
        try:
            seconds = parse_duration(cast("str", value)).total_seconds()
        except InvalidDuration as error:
            raise ValueError("is not a duration; write for example 30s or 1m30s") from error
        if not least <= seconds <= most:
            upper = f" and at most {most:g}s" if math.isfinite(most) else ""
            raise ValueError(f"must be at least {least:g}s{upper}; write for example 30s or 1m30s")
        return seconds

    return parse


def _count(value: object) -> int:
    try:
        count = int(value) if isinstance(value, str) else value
    except ValueError:
        count = None
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 64:  # noqa: PLR2004  a reasonable bound
        raise ValueError("is not an integer from 1 to 64")
    return count


def _address(value: object) -> tuple[str, int]:
    text = str(value).strip()
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") or "0.0.0.0"  # noqa: S104  ":8080" means every address, as in other servers
    try:
        ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
        number = int(port)
    except ValueError:
        number = -1
    if not colon or not 0 <= number <= 65535:  # noqa: PLR2004  ports
        raise ValueError("is not ADDRESS:PORT; write for example 127.0.0.1:8080, or :8080 for every address")
    return host, number


def _url(value: object) -> str:
    text = _text(value)
    try:
        is_url = text.startswith(("http://", "https://")) and bool(urlsplit(text).hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise ValueError("is not an http:// or https:// URL")
    return text


def _path(value: object) -> Path:
    return Path(_text(value))


def _one_of(*words: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value.strip().lower() not in words:
            raise ValueError(f"is not one of {', '.join(words)}")
        return value.strip().lower()

    return parse


def _setting(key: str, variable: str, parse: Callable[[object], Any], doc: str, *, default: Any) -> Any:
    """One setting: key in the file, environment variable, reader, meaning, default."""
    return field(default=default, metadata={"key": key, "env": variable, "parse": parse, "doc": doc})


@dataclass(frozen=True, slots=True)
class Settings:
    """All process settings; `describe` prints the table."""

    selection: PluginSelection = field(default_factory=PluginSelection)
    """Which plugins are loaded, see :class:`kaiwo.plugin.selection.PluginSelection`."""

    default_cluster_queue_name: str = _setting(
        "defaultClusterQueueName",
        "DEFAULT_CLUSTER_QUEUE_NAME",
        _name,
        "`defaultClusterQueueName` of a KaiwoConfig that the operator has to create",
        default="kaiwo",
    )
    resource_monitoring_enabled: bool = _setting(
        "resourceMonitoringEnabled",
        "RESOURCE_MONITORING_ENABLED",
        _switch,
        "whether GPU utilization is read",
        default=False,
    )
    resource_monitoring_metrics_endpoint: str = _setting(
        "resourceMonitoringMetricsEndpoint",
        "RESOURCE_MONITORING_METRICS_ENDPOINT",
        _url,
        "where GPU utilization is read: Prometheus text or a Prometheus server",
        default="",
    )
    resource_monitoring_token_file: Path | None = _setting(  # noqa: RUF009  a dataclass field like the others
        "resourceMonitoringTokenFile",
        "RESOURCE_MONITORING_TOKEN_FILE",
        _path,
        "file with a bearer token for the endpoint, read at each scrape; the endpoint must be https",
        default=None,
    )
    resource_monitoring_ca_file: Path | None = _setting(  # noqa: RUF009  a dataclass field like the others
        "resourceMonitoringCaFile",
        "RESOURCE_MONITORING_CA_FILE",
        _path,
        "file with the CA certificates of the endpoint, read when it changes (default: the system's)",
        default=None,
    )
    resource_monitoring_polling_interval: float = _setting(
        "resourceMonitoringPollingInterval",
        "RESOURCE_MONITORING_POLLING_INTERVAL",
        _seconds(1.0),
        "how often GPU utilization is read, a duration from 1s, such as 30s",
        default=30.0,
    )
    enforce_kaiwo_on_gpu_workloads: bool = _setting(
        "enforceKaiwoOnGpuWorkloads",
        "ENFORCE_KAIWO_ON_GPU_WORKLOADS",
        _switch,
        "whether plain Jobs that request GPUs are put under Kaiwo's management",
        default=False,
    )
    webhooks: bool = _setting(
        "webhooks",
        "KAIWO_WEBHOOKS",
        _switch,
        "whether the operator serves admission webhooks",
        default=False,
    )
    webhook_address: tuple[str, int] = _setting(
        "webhookAddress",
        "KAIWO_WEBHOOK_ADDRESS",
        _address,
        "ADDRESS:PORT of the webhooks, over TLS",
        default=("0.0.0.0", 9443),  # noqa: S104  the API server calls from outside
    )
    webhook_certificates: Path | None = _setting(  # noqa: RUF009  a dataclass field like the others
        "webhookCertificates",
        "KAIWO_WEBHOOK_CERTIFICATES",
        _path,
        "folder with tls.crt, tls.key and ca.crt (default: self-signed ones, kept in a Secret)",
        default=None,
    )
    identity: Literal["off", "set", "check"] = _setting(
        "identity",
        "KAIWO_IDENTITY",
        _one_of("off", "set", "check"),
        "spec.user of workloads: off takes any, set writes the authenticated user, check refuses another",
        default="off",
    )
    leader_election: bool = _setting(
        "leaderElection",
        "KAIWO_LEADER_ELECTION",
        _switch,
        "whether operators elect the one that writes, by a Lease; off only for a single local process",
        default=True,
    )
    lease_name: str = _setting(
        "leaseName",
        "KAIWO_LEASE_NAME",
        _name,
        "name of the Lease",
        default=OPERATOR,
    )
    namespace: str = _setting(
        "namespace",
        "KAIWO_OPERATOR_NAMESPACE",
        _namespace,
        "namespace of the Lease (default: the pod's own, or the kubeconfig context's)",
        default="",
    )
    watch_namespace: tuple[str, ...] = _setting(
        "watchNamespace",
        WATCH_VARIABLE,
        _namespaces,
        "the only namespaces whose workloads are reconciled, comma-separated (default: all)",
        default=(),
    )
    shard: str = _setting(
        "shard",
        SHARD_VARIABLE,
        _namespace,
        "which of several operators in a cluster this is: main, or the value of the label "
        "kaiwo.silogen.ai/shard of its namespaces (default: the only one)",
        default="",
    )
    metrics_address: tuple[str, int] = _setting(
        "metricsAddress",
        "KAIWO_METRICS_ADDRESS",
        _address,
        "ADDRESS:PORT of /healthz, /readyz and /metrics; port 0 takes a free one",
        default=("127.0.0.1", 8080),
    )
    metrics_gpu_labels: Literal["none", "queue", "user"] = _setting(
        "metricsGpuLabels",
        "KAIWO_METRICS_GPU_LABELS",
        _one_of("none", "queue", "user"),
        "what metrics about GPUs are told apart by: none, queue, or user (queue and user)",
        default="queue",
    )
    log_format: Literal["json", "text"] = _setting(
        "logFormat",
        "KAIWO_LOG_FORMAT",
        _one_of("json", "text"),
        "format of log lines: json or text",
        default="text",
    )
    log_level: str = _setting(
        "logLevel",
        "KAIWO_LOG_LEVEL",
        _one_of("debug", "info", "warning", "error"),
        "lowest level that is logged",
        default="info",
    )
    workers: int = _setting(
        "workers",
        "KAIWO_WORKERS",
        _count,
        "workloads of one kind that are reconciled at the same time",
        default=48,
    )
    plugin_time_limit: float = _setting(
        "pluginTimeLimit",
        "KAIWO_PLUGIN_TIME_LIMIT",
        _seconds(0.01, 60.0),
        "how long a function of a plugin may run for one workload before it is interrupted, from 10ms to 60s",
        default=1.0,
    )
    kubeconfig: Path | None = _setting(  # noqa: RUF009  a dataclass field like the others
        "kubeconfig",
        "KAIWO_KUBECONFIG",
        _path,
        "kubeconfig file (default: KUBECONFIG, ~/.kube/config, the pod's service account)",
        default=None,
    )
    context: str | None = _setting(
        "context",
        "KAIWO_CONTEXT",
        _text,
        "context in the kubeconfig (default: its current one)",
        default=None,
    )


SETTINGS = tuple(item for item in fields(Settings) if item.metadata)


def describe() -> list[tuple[str, str, str, str]]:
    """Key in the file, environment variable, default, meaning: one row per setting."""
    own = [(s.metadata["key"], s.metadata["env"], _shown(s.default), s.metadata["doc"]) for s in SETTINGS]
    return [*PLUGIN_SETTINGS, *own]


def _shown(default: object) -> str:
    if isinstance(default, tuple):
        return ":".join(str(part) for part in default)
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}s" if isinstance(default, float) else str(default if default is not None else "")


def load(
    *,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Combine all sources.

    Args:
        flags: setting name (as in :class:`Settings`) to what was given on the command line; None counts as
            not given. ``plugins`` is the text of ``--plugins``.
        environ: the process environment. A variable that is set and empty counts as not set.
        file: settings file; default: what ``KAIWO_OPERATOR_CONFIG`` names, or none.

    Raises:
        SettingsError: with every problem of every source.
    """
    flags, environ = flags or {}, environ or {}
    if file is None and environ.get(CONFIG_VARIABLE):
        file = Path(environ[CONFIG_VARIABLE])
    problems: list[str] = []
    content = _read(file, problems) if file else {}
    _unknown_keys(content, str(file), problems)
    values: dict[str, Any] = {}
    for item in SETTINGS:
        key, variable, parse = item.metadata["key"], item.metadata["env"], item.metadata["parse"]
        if flags.get(item.name) is not None:
            where, value = f"--{item.name.replace('_', '-')}", flags[item.name]
        elif environ.get(variable):
            where, value = f"environment: {variable}", environ[variable]
        elif content.get(key) is not None:
            where, value = f"{file}: {key}", content[key]
        else:
            continue
        try:
            values[item.name] = parse(value)
        except (ValueError, TypeError) as error:
            problems.append(f"{where}: {value!r} {error}")
    try:
        values["selection"] = PluginSelection.of(
            flag=flags.get("plugins"), environ=environ, settings=content, where=str(file)
        )
    except SelectionError as error:
        problems.append(str(error))
    problems += settings_conflicts(values)
    if problems:
        raise SettingsError(problems)
    return Settings(**values)


def _read(file: Path, problems: list[str]) -> dict[str, Any]:
    from kaiwo.engine.yaml_reader import parse_value
    from kaiwo.engine.yaml_scalars import DocumentError

    try:
        content = parse_value(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{file}: cannot be read: {error}; check its path and permissions")
        return {}
    except DocumentError as error:
        problems.append(f"{file}:{error.line}:{error.column}: {error}")
        return {}
    if content is None:
        return {}
    if not isinstance(content, dict):
        problems.append(f"{file}: expected a mapping of settings, got {type(content).__name__}")
        return {}
    return content


def _unknown_keys(content: dict[str, Any], where: str, problems: list[str]) -> None:
    known = [*(item.metadata["key"] for item in SETTINGS), *(key for key, *_ in PLUGIN_SETTINGS)]
    for key in content:
        if key not in known:
            hint = did_you_mean(str(key), known) or f"known: {', '.join(known)}"
            problems.append(f"{where}: {key}: unknown setting; {hint}")
