"""Nodes: their GPUs by vendor and model, who uses them, and what is not available."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.client.node_records import NodeList
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

_LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
_UNAUTHORIZED = 401


async def list_nodes(
    api: Client, plugins: Plugins, namespace: str, *, vendor: str = "", pool: str = ""
) -> NodeList:
    """The nodes with what uses them, read with the rights of the caller.

    Args:
        api: the cluster.
        plugins: the loaded plugins, whose GPU vendors recognise the GPUs.
        namespace: the caller's; where pods of all namespaces may not be listed, those of this one are.
        vendor: only nodes with GPUs of this vendor; empty for all nodes.
        pool: only nodes of this pool; empty for all.

    Raises:
        Forbidden: nodes may not be listed.
    """
    from kaiwo.client.node_use import narrowed, nodes_from
    from kaiwo.engine.resource import NODE
    from kaiwo.plugin.settings import configured_vendors

    nodes, (pods, pods_unseen), (config, config_unseen), (flavors, failed) = await asyncio.gather(
        _collect(api.list(NODE)), _pods(api, namespace), _config(api), _flavors(api, plugins)
    )
    vendors = configured_vendors(plugins, config.plugins if config is not None else {})
    found = nodes_from(nodes, pods, vendors, config, flavors)
    unseen = tuple(text for text in (pods_unseen, config_unseen, failed) if text)
    return narrowed(found, vendor=vendor, pool=pool, unseen=unseen)


async def _collect(objects: object) -> list[Object]:
    return [obj async for obj in objects]  # type: ignore[attr-defined]  # an asynchronous generator


async def _pods(api: Client, namespace: str) -> tuple[list[Object], str]:
    from kaiwo.engine.errors import Forbidden
    from kaiwo.engine.resource import POD

    try:
        return await _collect(api.list(POD, field_selector=_LIVE_PODS)), ""
    except Forbidden as error:
        if error.status == _UNAUTHORIZED:
            raise
    try:
        pods = await _collect(api.list(POD, namespace, field_selector=_LIVE_PODS))
    except Forbidden:
        return [], "use of the nodes: not allowed to list pods"
    return pods, f"use by others: allowed to list pods in namespace {namespace} only; GPUs may be less free"


async def _flavors(api: Client, plugins: Plugins) -> tuple[Mapping[str, Mapping[str, str]], str]:
    """Labels of the nodes of each flavor, and why there are none where the plugin of the queue system fails.

    There are none either without a queue system, and where flavors may not be listed.
    """
    from kaiwo.client.errors import PluginFailed
    from kaiwo.engine.errors import Forbidden, NotFound

    system = plugins.queue_system
    if system is None or system.flavors is None:
        return {}, ""
    try:
        objects = [obj for kind in system.flavor_reads for obj in await _collect(api.list(kind))]
    except (Forbidden, NotFound):
        return {}, ""
    try:
        return system.flavors(objects), ""
    except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
        return {}, str(PluginFailed(system.plugin, "name the flavors of nodes", error))


async def _config(api: Client) -> tuple[ResolvedConfig | None, str]:
    from kaiwo.api.config_names import SINGLETON
    from kaiwo.api.crds import KAIWO_CONFIG
    from kaiwo.api.errors import InvalidConfig
    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.errors import Forbidden, NotFound

    try:
        return ResolvedConfig.from_object(await api.get(KAIWO_CONFIG, None, SINGLETON)), ""
    except NotFound:
        return None, ""
    except Forbidden as error:
        if error.status == _UNAUTHORIZED:
            raise
        return None, "expected nodes: not allowed to get kaiwoconfigs.kaiwo.silogen.ai"
    except InvalidConfig as error:
        return None, f"expected nodes: KaiwoConfig is invalid: {error}"
