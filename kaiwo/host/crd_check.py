"""Compares the CRDs in the cluster with those that the loaded plugins need."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.engine.errors import EngineError, NotFound
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

_log = logging.getLogger(__name__)
_SHOWN = 5  # sentences in a message; after an upgrade there can be dozens, all with the same remedy


@dataclass(frozen=True, slots=True)
class CrdReport:
    """How the CRDs in the cluster compare with those that the loaded plugins need.

    Attributes:
        differences: one sentence each.
        newer: what comes from a later version of Kaiwo; one sentence each.
    """

    differences: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()


def crds_condition(report: CrdReport, generation: int) -> Condition:
    """The condition ``CRDsCurrent``.

    Args:
        report: how the definitions compare.
        generation: of the KaiwoConfig that carries it.
    """
    if report.newer:
        text = f"{_some(report.newer)}; upgrade the operator, see docs/upgrade.md"
        return Condition("CRDsCurrent", "False", "Newer", text, generation)
    if report.differences:
        return Condition("CRDsCurrent", "False", "Drift", _some(report.differences), generation)
    return Condition("CRDsCurrent", "True", "Current", "", generation)


class CrdCheck:
    """Compares definitions; the operator never writes CRDs."""

    def __init__(self, client: Client, plugins: Plugins) -> None:
        self._client = client
        self._plugins = plugins
        self._last = CrdReport()

    async def report(self) -> CrdReport:
        """Compare; gives the previous result when the definitions cannot be read."""
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


def _compare(live: list[Object], rendered: list[Object]) -> CrdReport:
    from kaiwo.api.crd_compat import crd_differences
    from kaiwo.api.crd_versions import newer_definitions

    return CrdReport(
        tuple(crd_differences(live, rendered)),
        tuple(newer_definitions(live, rendered)),
    )


def _some(sentences: Sequence[str]) -> str:
    """The first sentences, and how many more there are."""
    more = len(sentences) - _SHOWN
    return "; ".join(sentences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
