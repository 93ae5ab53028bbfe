"""The values of the chart: defaults, schema and documentation from one table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from charts.generate.switches import plugin_names, settings
from kaiwo.api.installation import SYSTEM_NAMESPACE
from kaiwo.api.scalars import SUBDOMAIN
from kaiwo.host.settings import MOST_NAMESPACES
from kaiwo.install.deployment import PRIORITY_CLASS
from kaiwo.install.monitoring_options import INTERVAL, PORT
from kaiwo.install.network_policy import API_SERVER_PORTS
from kaiwo.install.operator import VOLUME
from kaiwo.install.render import OPERATOR_IMAGE, REPLICAS, SCHEDULER_IMAGE
from kaiwo.install.restrictions import RESTRICTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NEEDS_MORE: Final = frozenset(
    {"kueue", "ray_job", "ray_service", "node_pools", "notify", "aim", "gpu_preemption"}
)
"""Plugins that are of use only with something else in the cluster."""

_ON: Final = True
_OFF: Final = False
_PATH_OR_NOTHING: Final = '^(/[^{}"\\s]+)?$'
_PATTERN_OF_NAMESPACES: Final = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_NAME_OR_NOTHING: Final = f"^$|{SUBDOMAIN}"
_PATTERN_OF_ALLOWED: Final = (
    "^[^@#<>=!~\\s]+@[A-Za-z0-9][A-Za-z0-9_.-]*([<>=!~][^#\\s]*)?(#sha256=[0-9a-f]{64})?$"
)
_PATTERN_OF_IMAGES: Final = "^[A-Za-z0-9][A-Za-z0-9_.:/@-]*$"
_INTERVAL: Final = "^([0-9]+[smh])*[0-9]*[1-9][0-9]*[smh]([0-9]+[smh])*$"
"""Pattern of a duration in whole seconds, minutes and hours that is not zero."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value.

    Attributes:
        path: its key, or two keys with a dot.
        default: in values.yaml.
        schema: JSON schema.
        text: what it does.
        option: of ``kaiwo manifests``, that does the same; empty where there is none.
    """

    path: str
    default: Any
    schema: Mapping[str, Any]
    text: str
    option: str = ""


def values(resources: Mapping[str, Any]) -> tuple[Value, ...]:
    """All values.

    Args:
        resources: requests and limits of ``operator`` and ``scheduler``, as they are rendered.
    """
    names = plugin_names()
    distinct = {"type": "array", "uniqueItems": True}
    plain = {"type": "object"}
    boolean = {"type": "boolean"}
    return (
        Value(
            "plugins",
            [name for name in names if name not in _NEEDS_MORE],
            {**distinct, "items": {"enum": list(names)}},
            f"Plugins that the operator loads and has rights for: any of {', '.join(names)}. The default "
            "ones need nothing beyond Kubernetes. With kueue no workload starts while Kueue is missing.",
            "--plugins",
        ),
        Value(
            "pluginsAllowed",
            [],
            {**distinct, "items": _string(_PATTERN_OF_ALLOWED)},
            "Plugins that the operator may import, as `kaiwo plugins --allow-list` prints them: "
            "name@distribution with versions and #sha256=DIGEST. Empty: any of `plugins`.",
            "--plugins-allowed",
        ),
        Value(
            "image",
            OPERATOR_IMAGE,
            _string(_PATTERN_OF_IMAGES),
            "Image of the operator; it must hold the chosen plugins. No image is published yet: build it.",
            "--image",
        ),
        Value(
            "schedulerImage",
            SCHEDULER_IMAGE,
            _string(_PATTERN_OF_IMAGES),
            "A kube-scheduler of the cluster's version, or one minor version older, never newer.",
            "--scheduler-image",
        ),
        Value(
            "replicas",
            REPLICAS,
            {"type": "integer", "minimum": 1, "maximum": 9},
            "Pods of the operator, and of the scheduler; one of them leads.",
            "--replicas",
        ),
        Value(
            "watchNamespaces",
            [],
            {
                **distinct,
                "maxItems": MOST_NAMESPACES,
                "items": {**_string(_PATTERN_OF_NAMESPACES), "not": {"const": SYSTEM_NAMESPACE}},
            },
            "The only namespaces whose workloads run; the operator has rights to namespaced objects there "
            "alone. Empty for all namespaces. The namespaces must exist.",
            "--watch-namespace",
        ),
        Value(
            "sharded",
            _OFF,
            boolean,
            "This is the main one of several operators that share the namespaces. The others are printed by "
            "`kaiwo manifests operator --shard NAME`.",
            "--shard main",
        ),
        Value(
            "restrict",
            [],
            {**distinct, "items": {"enum": list(RESTRICTIONS)}},
            "What workloads in every namespace name only with a right to it: any of "
            f"{', '.join(RESTRICTIONS)}.",
            "--restrict",
        ),
        Value(
            "kaiwoConfig",
            {},
            _schema_of_kaiwo_config(),
            "`spec` of the KaiwoConfig that you use, or a part of it: rights of settings that are off there "
            "are left out. The chart does not create the KaiwoConfig; the operator does, with defaults.",
            "--kaiwoconfig",
        ),
        Value(
            "crds.enabled",
            _ON,
            boolean,
            "Install and upgrade the CRDs, with the fields of all plugins of the chart. They stay after "
            "helm uninstall.",
            "crds",
        ),
        Value("rbac.enabled", _ON, boolean, "Install service account, roles and policies.", "rbac"),
        Value("operator.enabled", _ON, boolean, "Install the operator's Deployment.", "operator"),
        Value(
            "operator.resources",
            resources["operator"],
            plain,
            "Requests and limits of the operator. The defaults are from measurements, see bench/README.md.",
        ),
        Value("scheduler.enabled", _ON, boolean, "Install kaiwo-scheduler.", "scheduler"),
        Value("scheduler.resources", resources["scheduler"], plain, "Requests and limits of the scheduler."),
        Value(
            "webhooks.enabled",
            _OFF,
            boolean,
            "Let the operator serve admission webhooks, and give it the rights for them.",
            "--webhooks",
        ),
        Value(
            "webhooks.enforceGpuWorkloads",
            _OFF,
            boolean,
            "Put plain Jobs that request GPUs under Kaiwo's management. Needs webhooks.enabled.",
            "--enforce-gpu-workloads",
        ),
        Value(
            "webhooks.certificateSecret",
            "",
            _string(_NAME_OR_NOTHING),
            "Secret with tls.crt, tls.key and ca.crt. Empty: the operator signs its own certificates. Needs "
            "webhooks.enabled.",
            "--webhook-certificates",
        ),
        Value(
            "identity",
            "off",
            {"enum": ["off", "set", "check"]},
            "Set spec.user of workloads to the authenticated user, check it, or take any (off). Needs "
            "webhooks.enabled.",
            "--identity",
        ),
        Value(
            "monitoring.endpoint",
            "",
            _string("^$|^https?://"),
            "URL of a Prometheus server, or of Prometheus text, from which the use of GPUs is read. Empty: "
            "it is not read.",
            "--monitoring-endpoint",
        ),
        Value(
            "monitoring.interval",
            INTERVAL,
            _string(_INTERVAL),
            "How often it is read, from 1s.",
            "--monitoring-interval",
        ),
        Value(
            "monitoring.port",
            0,
            {"type": "integer", "minimum": 0, "maximum": 65535},
            "Where its processes listen; not the port of a Service. For networkPolicy. 0: the port of the "
            f"URL, or {PORT}.",
            "--monitoring-port",
        ),
        Value(
            "monitoring.tokenFile",
            "",
            _string(_PATH_OR_NOTHING),
            "File with a bearer token for an https endpoint, in a folder of secretMounts.",
            "--monitoring-token-file",
        ),
        Value(
            "monitoring.caFile",
            "",
            _string(_PATH_OR_NOTHING),
            "File with the CA certificates of the endpoint, in a folder of secretMounts. Empty: those of the "
            "image.",
            "--monitoring-ca-file",
        ),
        Value(
            "secretMounts",
            [],
            {**distinct, "items": {**_string(_PATTERN_OF_NAMESPACES), "not": {"const": VOLUME}}},
            "Names of Secrets that are mounted into the operator, each at `/etc/kaiwo/NAME`.",
            "--mount-secret",
        ),
        Value(
            "networkPolicy.enabled",
            _OFF,
            boolean,
            "Limit the traffic of operator and scheduler to their ports, the API server and DNS.",
            "--network-policy",
        ),
        Value(
            "networkPolicy.apiServerPorts",
            list(API_SERVER_PORTS),
            {**distinct, "minItems": 1, "items": {"type": "integer", "minimum": 1, "maximum": 65535}},
            "Where the processes of the API server listen; not the port of the Service kubernetes.",
            "--api-server-port",
        ),
        Value(
            "priorityClassName",
            PRIORITY_CLASS,
            _string(_NAME_OR_NOTHING),
            "Priority class of operator and scheduler; empty for none.",
            "--priority-class",
        ),
        Value(
            "imagePullSecrets",
            [],
            {**distinct, "items": _string(SUBDOMAIN)},
            "Names of Secrets with credentials for the images.",
            "--image-pull-secret",
        ),
        Value("nodeSelector", {}, plain, "Labels of the nodes for operator and scheduler."),
        Value(
            "tolerations",
            [],
            {"type": "array", "items": plain},
            "Taints that operator and scheduler tolerate.",
        ),
        Value(
            "affinity",
            {},
            plain,
            "Affinity of operator and scheduler. Empty: pods are kept on different nodes where possible.",
        ),
    )


def _string(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern}


def _schema_of_kaiwo_config() -> dict[str, Any]:
    sections: dict[str, Any] = {}
    for one in settings():
        section = sections.setdefault(one.plugin, {"type": "object", "properties": {}})
        section["properties"][one.key] = {"type": "boolean"}
    return {"type": "object", "properties": {"plugins": {"type": "object", "properties": sections}}}


def values_yaml(table: Iterable[Value]) -> str:
    """The text of values.yaml."""
    lines = [
        "# Generated by python -m charts.generate from charts/generate/values.py.",
        "# The same choices as options of kaiwo manifests; README.md has both side by side.",
    ]
    parent = ""
    for value in table:
        first, _, second = value.path.partition(".")
        if first != parent:
            lines.append("")
            if second:
                lines.append(f"{first}:")
        parent = first
        indent = "  " if second else ""
        lines += [f"{indent}# {line}" for line in _wrapped(f"-- {value.text}", 96)]
        dumped = yaml.safe_dump({second or first: value.default}, sort_keys=False, width=1 << 30)
        lines += [f"{indent}{line}" for line in dumped.splitlines()]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def schema_json(table: Iterable[Value]) -> str:
    """The text of values.schema.json.

    All values are required: Helm takes a null for the removal of a default, and templates would fail
    without a name, or render a rule that allows everything.
    """
    properties: dict[str, Any] = {"global": {"type": "object"}}
    required: list[str] = []
    for value in table:
        first, _, second = value.path.partition(".")
        found = {"description": value.text, **value.schema}
        if first not in required:
            required.append(first)
        if second:
            inner = properties.setdefault(
                first, {"type": "object", "additionalProperties": False, "required": [], "properties": {}}
            )
            inner["required"].append(second)
            inner["properties"][second] = found
        else:
            properties[first] = found
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }
    return json.dumps(schema, indent=2) + "\n"


def values_table(table: Iterable[Value]) -> str:
    """The table of README.md."""
    lines = ["| value | default | `kaiwo manifests` | meaning |", "| --- | --- | --- | --- |"]
    for value in table:
        option = f"`{value.option}`" if value.option else "–"  # noqa: RUF001  an en dash stands for nothing
        default = json.dumps(value.default)
        lines.append(f"| `{value.path}` | `{default}` | {option} | {value.text} |")
    return "\n".join(lines)
