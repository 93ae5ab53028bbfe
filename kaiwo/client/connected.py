"""The connection of a Python client: cluster, namespace, the user's configuration, and loaded plugins."""

from __future__ import annotations

import asyncio
import os
from functools import cached_property
from typing import TYPE_CHECKING, Self

from kaiwo.client import lookup, submission, user_config
from kaiwo.client.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo.client.user_config import UserConfig
    from kaiwo.engine.client import Client as ApiClient
    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins


class ConnectedClient:
    """What all methods of `AsyncClient` share; its arguments are described there."""

    def __init__(
        self,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        namespace: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        from kaiwo.engine import credentials

        self._config: UserConfig = user_config.load()
        self._connection: Connection = credentials.load(kubeconfig, context)
        self._timeout = timeout
        self._open: ApiClient | None = None
        self.namespace: str = namespace or self._config.namespace or self._connection.namespace

    async def __aenter__(self) -> Self:
        """Use as ``async with AsyncClient() as client``."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        if self._open is not None:
            opened, self._open = self._open, None
            await opened.close()

    @property
    def api(self) -> ApiClient:
        """The engine's client, for other kinds; only in the event loop."""
        if self._open is None:
            from kaiwo.engine.client import Client as ApiClient

            asyncio.get_running_loop()
            self._open = ApiClient(
                self._connection, user_agent=submission.FIELD_MANAGER, timeout=self._timeout
            )
        return self._open

    @cached_property
    def _plugins(self) -> Plugins:
        from kaiwo.plugin.loader import RequiredPluginError, load
        from kaiwo.plugin.selection import PluginSelection, SelectionError

        try:
            return load(PluginSelection.of(environ=os.environ))
        except (SelectionError, RequiredPluginError) as error:
            raise InvalidArgument(str(error), "kaiwo plugins") from error

    async def _find(self, name: str, namespace: str | None) -> Object:
        _, obj = await lookup.find_one(self.api, namespace or self.namespace, name)
        return obj
