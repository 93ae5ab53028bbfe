"""Compares the CRDs in the cluster with those that the loaded plugins need."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kaiwo.engine.errors import EngineError, NotFound
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

_log = logging.getLogger(__name__)


class CrdCheck:
    """Reports differences; the operator never writes CRDs."""

    def __init__(self, client: Client, plugins: Plugins) -> None:
        self._client = client
        self._plugins = plugins
        self._last: tuple[str, ...] = ()

    async def differences(self) -> tuple[str, ...]:
        """Return one sentence per difference; the previous result when the definitions cannot be read."""
        live: list[Object] = []
        # Rendering takes tens of milliseconds of computing, which must not hold up the event loop.
        rendered = await asyncio.to_thread(self._plugins.crds)
        for crd in rendered:
            try:
                live.append(await self._client.get(CUSTOM_RESOURCE_DEFINITION, None, crd["metadata"]["name"]))
            except NotFound:
                continue
            except EngineError as error:
                _log.warning("cannot compare the installed CRDs with the loaded plugins: %s", error)
                return self._last
        self._last = await asyncio.to_thread(_compare, live, rendered)
        return self._last


def _compare(live: list[Object], rendered: list[Object]) -> tuple[str, ...]:
    from kaiwo.api.crd_compat import crd_differences

    return tuple(crd_differences(live, rendered))
