"""The choices of an installation that are on or off, each with its condition in a template of the chart."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from kaiwo.engine.shard import MAIN
from kaiwo.install.monitoring_options import MonitoringOptions
from kaiwo.install.pod_options import PodOptions
from kaiwo.install.render import PARTS, InstallOptions, Part, render
from kaiwo.install.restrictions import RESTRICTIONS
from kaiwo.install.webhooks import WebhookOptions
from kaiwo.plugin.commands import Command
from kaiwo.plugin.loader import load
from kaiwo.plugin.registry import Plugins
from kaiwo.plugin.selection import PluginSelection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaiwo.install.rendered_manifest import RenderedManifest

ROOT: Final = Path(__file__).parents[2]

NAMESPACE: Final = "placeholder-of-the-release"
ALLOWED: Final = "placeholder-of-the-allowed"
WATCHED: Final = "placeholder-of-the-watched"
IMAGE: Final = "placeholder/of/the/operator"
SCHEDULER_IMAGE: Final = "placeholder/of/the/scheduler"
PRIORITY_CLASS: Final = "placeholder-of-the-priority"
PULL_SECRET: Final = "placeholder-of-the-registry"  # noqa: S105  a name
CERTIFICATES: Final = "placeholder-of-the-certificates"
METRICS: Final = "http://placeholder-of-the-metrics"
INTERVAL: Final = "placeholder-of-the-interval"
TOKEN_FILE: Final = "placeholder-of-the-token-file"  # noqa: S105  a path
CA_FILE: Final = "placeholder-of-the-ca-file"
SECRET: Final = "placeholder-of-the-secret"  # noqa: S105  a name
REPLICAS: Final = 90917
METRICS_PORT: Final = 60918
PORT: Final = 60917
"""What is rendered where a template has a value of the user."""

METRICS_PORT_TEMPLATE: Final = "kaiwo.metricsPort"
"""Template of the port at which the processes of the metrics endpoint listen."""


@dataclass(frozen=True, slots=True)
class Switch:
    """One choice.

    Attributes:
        name: unique.
        condition: expression of a template that is true when it is on.
        default: whether it is on in values.yaml.
    """

    name: str
    condition: str
    default: bool = False


ENDPOINT: Final = Switch("monitoring.endpoint", ".Values.monitoring.endpoint")
ENDPOINT_FILES: Final = (
    Switch("monitoring.tokenFile", ".Values.monitoring.tokenFile"),
    Switch("monitoring.caFile", ".Values.monitoring.caFile"),
)
"""Switches of the metrics endpoint: the first one, and those that are of use with it only."""

WEBHOOKS: Final = (
    Switch("webhooks", ".Values.webhooks.enabled"),
    Switch("webhooks.enforceGpuWorkloads", ".Values.webhooks.enforceGpuWorkloads"),
    Switch("webhooks.certificateSecret", ".Values.webhooks.certificateSecret"),
    Switch("identity-set", 'eq .Values.identity "set"'),
    Switch("identity-check", 'eq .Values.identity "check"'),
)
"""Switches of the webhooks: the first one, and those that are of use with it only."""

_RANDOM: Final = 400

_ONE_IDENTITY: Final = {"identity-set", "identity-check"}
"""Switches that exclude each other."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of KaiwoConfig by which a plugin's rights depend on more than the plugin.

    Attributes:
        plugin: name of the plugin.
        key: in ``spec.plugins.<plugin>`` of KaiwoConfig.
        default: its value where KaiwoConfig has none.
    """

    plugin: str
    key: str
    default: bool


@cache
def installable() -> Plugins:
    """The plugins of the chart: those of this repository that an operator uses."""
    names = sorted(path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml"))
    loaded = load(PluginSelection(names=tuple(names), required=frozenset(names)))
    chosen = tuple(
        plugin
        for plugin in loaded.loaded
        if not all(isinstance(declaration, Command) for declaration in plugin.declarations())
    )
    return Plugins(loaded=chosen)


@cache
def plugin_names() -> tuple[str, ...]:
    """Names of the plugins of the chart."""
    return tuple(plugin.name for plugin in installable().loaded)


@cache
def settings() -> tuple[Setting, ...]:
    """The settings of KaiwoConfig on which rights depend."""
    found = {}
    for plugin in installable().loaded:
        model = plugin.settings_model()
        for name in (rule.setting for rule in plugin.rules() if rule.setting and model is not None):
            defaults = model.model_validate({}).model_dump(by_alias=True) if model else {}
            found[plugin.name, name] = Setting(plugin.name, name, bool(defaults[name]))
    return tuple(found.values())


@cache
def switches() -> tuple[Switch, ...]:
    """All switches, plugins first."""
    return (
        *(Switch(name, f'has "{name}" .Values.plugins') for name in plugin_names()),
        *(
            Switch(
                f"{one.plugin}.{one.key}",
                f'dig "plugins" "{one.plugin}" "{one.key}" {str(one.default).lower()} .Values.kaiwoConfig',
                default=one.default,
            )
            for one in settings()
        ),
        *(Switch(f"restrict-{name}", f'has "{name}" .Values.restrict') for name in RESTRICTIONS),
        Switch("pluginsAllowed", ".Values.pluginsAllowed"),
        Switch("watchNamespaces", ".Values.watchNamespaces"),
        Switch("sharded", ".Values.sharded"),
        Switch("priorityClassName", ".Values.priorityClassName", default=True),
        Switch("imagePullSecrets", ".Values.imagePullSecrets"),
        Switch("networkPolicy", ".Values.networkPolicy.enabled"),
        Switch("secretMounts", ".Values.secretMounts"),
        ENDPOINT,
        *ENDPOINT_FILES,
        *WEBHOOKS,
    )


@cache
def choices() -> tuple[frozenset[str], ...]:
    """Choices from which conditions are found: names of what is on.

    Every set of plugins, without and with webhooks; for no, one, all, and all but one plugin, every pair of
    the other switches; and random choices, so that no condition holds by chance only.
    """
    plugins = plugin_names()
    files = [switch.name for switch in ENDPOINT_FILES]
    apart = {*plugins, *files, *(switch.name for switch in WEBHOOKS)}
    others = [switch.name for switch in switches() if switch.name not in apart]
    default = frozenset(switch.name for switch in switches() if switch.default)
    subsets = _subsets(plugins, len(plugins))
    few = [one for one in subsets if len(one) in (0, 1, len(plugins) - 1, len(plugins))]
    webhooks = _choices_of_webhooks()
    enforcing = frozenset({"webhooks", "webhooks.enforceGpuWorkloads", "identity-set"})
    endpoint = [one | {ENDPOINT.name} for one in _subsets(files, len(files))]
    changes = [*_subsets(others, 2), *endpoint, *webhooks, *(enforcing | {one} for one in others)]
    found = [one | default | more for one in subsets for more in (frozenset(), enforcing)]
    found += [one | (default ^ change) for one in few for change in changes]
    random = Random(0)  # noqa: S311  the same choices each time
    for _ in range(_RANDOM):
        some = frozenset(one for one in (*plugins, *others, *files) if random.random() < 1 / 2)
        found.append(some | random.choice(webhooks))
    # The fullest first: it decides the order in which things stand in a template.
    return tuple(sorted(dict.fromkeys(found), key=lambda one: (-len(one), sorted(one))))


def _subsets(names: Sequence[str], most: int) -> list[frozenset[str]]:
    return [frozenset(some) for size in range(most + 1) for some in itertools.combinations(names, size)]


def _choices_of_webhooks() -> list[frozenset[str]]:
    """No webhooks, webhooks without more, and webhooks with every choice that goes with them."""
    first, *more = (switch.name for switch in WEBHOOKS)
    with_webhooks = [one | {first} for one in _subsets(more, len(more)) if not one >= _ONE_IDENTITY]
    return [frozenset(), *with_webhooks]


@dataclass(frozen=True, slots=True)
class Rendered:
    """What is rendered for one choice.

    Attributes:
        part: of `kaiwo manifests`.
        manifest: the object.
    """

    part: Part
    manifest: RenderedManifest


def rendered(choice: frozenset[str]) -> Iterator[Rendered]:
    """The objects of one choice, with placeholders for the values of users; without the Namespace."""
    plugins = installable()
    chosen = replace(plugins, loaded=tuple(p for p in plugins.loaded if p.name in choice))
    sections: dict[str, dict[str, bool]] = {}
    for one in settings():
        sections.setdefault(one.plugin, {})[one.key] = f"{one.plugin}.{one.key}" in choice
    options = InstallOptions(
        namespace=NAMESPACE,
        image=IMAGE,
        scheduler_image=SCHEDULER_IMAGE,
        workload_namespaces=(WATCHED,) if "watchNamespaces" in choice else (),
        replicas=REPLICAS,
        plugin_settings=sections,
        restricted=tuple(name for name in RESTRICTIONS if f"restrict-{name}" in choice),
        pods=PodOptions(
            priority_class=PRIORITY_CLASS if "priorityClassName" in choice else "",
            image_pull_secrets=(PULL_SECRET,) if "imagePullSecrets" in choice else (),
        ),
        network_policy="networkPolicy" in choice,
        monitoring=_monitoring(choice),
        secrets=(SECRET,) if "secretMounts" in choice else (),
        api_server_ports=(PORT,),
        allowed_plugins=(ALLOWED,) if "pluginsAllowed" in choice else None,
        webhooks=_webhooks(choice),
        shard=MAIN if "sharded" in choice else "",
    )
    for part in PARTS:
        for manifest in render([part], chosen, options):
            if manifest.obj["kind"] != "Namespace":
                yield Rendered(part, manifest)


def _monitoring(choice: frozenset[str]) -> MonitoringOptions | None:
    if "monitoring.endpoint" not in choice:
        return None
    return MonitoringOptions(
        METRICS,
        INTERVAL,
        METRICS_PORT,
        token_file=TOKEN_FILE if "monitoring.tokenFile" in choice else "",
        ca_file=CA_FILE if "monitoring.caFile" in choice else "",
    )


def _webhooks(choice: frozenset[str]) -> WebhookOptions | None:
    if "webhooks" not in choice:
        return None
    return WebhookOptions(
        enforce_gpu_workloads="webhooks.enforceGpuWorkloads" in choice,
        identity="set" if "identity-set" in choice else "check" if "identity-check" in choice else "off",
        certificates=CERTIFICATES if "webhooks.certificateSecret" in choice else "",
    )
