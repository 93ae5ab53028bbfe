"""Renders an installation as the options of ``kaiwo manifests`` and ``kaiwo install`` say."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaiwo.cli import cluster_installation, install_options, kit
from kaiwo.cli.failures import Failure
from kaiwo.cli.input_files import crd_files

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kaiwo.cli.rendering_options import RenderingOptions
    from kaiwo.engine.resource import Object
    from kaiwo.install.render import InstallOptions
    from kaiwo.install.rendered_manifest import RenderedManifest
    from kaiwo.plugin.registry import Plugins


@dataclass(frozen=True, slots=True)
class RenderedInstallation:
    """What is installed.

    Attributes:
        plugins: the plugins that it was rendered for.
        crds: definitions of Kaiwo's kinds.
        rest: all other objects, in an order in which they can be created.
    """

    plugins: Plugins
    crds: tuple[Object, ...]
    rest: tuple[RenderedManifest, ...]

    @property
    def objects(self) -> list[Object]:
        """All objects in this order."""
        return [*self.crds, *(manifest.obj for manifest in self.rest)]


def installation(options: RenderingOptions, *, shard: str | None, parts: Collection[str]) -> InstallOptions:
    """Where Kaiwo is installed and from what.

    Args:
        options: as they were given.
        shard: which of several operators is rendered.
        parts: that are rendered.

    Raises:
        Failure: an option cannot be used.
    """
    from kaiwo.install.render import REPLICAS

    namespace = options.namespace or kit.settings().namespace
    watched = options.watch_namespaces
    return replace(
        install_options.installation_options(namespace, watched, options.image, options.scheduler_image),
        replicas=options.replicas or REPLICAS,
        restrict_namespace=options.pod_security,
        restricted=options.restricted,
        pods=install_options.pod_options(options.priority_class, options.pull_secrets),
        network_policy=options.network_policy,
        api_server_ports=install_options.api_server_ports_of(
            options.network_policy, options.api_server_ports
        ),
        webhooks=install_options.webhook_options(
            options.webhooks,
            options.enforce_gpu_workloads,
            options.identity,
            options.webhook_certificates,
        ),
        monitoring=install_options.monitoring_options(
            options.monitoring_endpoint,
            options.monitoring_interval,
            options.monitoring_port,
            options.monitoring_token_file,
            options.monitoring_ca_file,
        ),
        secrets=install_options.mounted_secrets(options.secrets),
        shard=install_options.shard_option(shard, parts, watched=bool(watched), webhooks=options.webhooks),
    )


def render(
    options: RenderingOptions,
    installation: InstallOptions,
    parts: Collection[str],
    before: Sequence[Object],
    config: Object | None,
) -> RenderedInstallation:
    """The objects of some parts.

    Args:
        options: as they were given.
        installation: what `installation` made of them.
        parts: what to render.
        before: definitions whose fields are kept.
        config: the KaiwoConfig, where none was given as a file.

    Raises:
        Failure: a file or a plugin cannot be used, or the definitions are of a later version.
    """
    from kaiwo.install.render import PARTS
    from kaiwo.install.render import render as render_parts

    if options.kaiwoconfig:
        config = crd_files.read_kaiwo_config(options.kaiwoconfig)
    installation = replace(installation, plugin_settings=cluster_installation.plugin_settings(config))
    loaded = plugins(options.names)
    if options.allowed_file:
        allowed = install_options.allowed_plugins(options.allowed_file, loaded)
        installation = replace(installation, allowed_plugins=allowed)
    crds = loaded.crds(before) if "crds" in parts else []
    cluster_installation.require_not_newer(before, crds)
    rest = render_parts([part for part in PARTS if part in parts], loaded, installation)
    return RenderedInstallation(loaded, tuple(crds), tuple(rest))


def plugins(names: str | None) -> Plugins:
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
