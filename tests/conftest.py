"""Fixtures for whatever talks to a real API server; who it is, the folder says with its ``connection``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaiwo.engine.client import Client
from kaiwo.testing.fault_proxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.engine.credentials import Connection


@pytest.fixture
async def client(connection: Connection) -> AsyncIterator[Client]:
    """A client of the real API server."""
    async with Client(connection) as made:
        yield made


@pytest.fixture
async def proxy(connection: Connection) -> AsyncIterator[FaultProxy]:
    """A fault proxy in front of the real API server, with a list of all requests."""
    async with FaultProxy(connection) as made:
        yield made
