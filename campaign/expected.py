"""What the pure planner makes of a stored workload, with the facts of the control plane."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from campaign.arena import PLUGINS
from kaiwo.api.workload import Workload
from kaiwo.cli.cluster_context import ExistingObjects, read_context
from kaiwo.cli.kit import Cluster as Reader
from kaiwo.engine.client import Client
from kaiwo.engine.diff import contains
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.workload.model import Apply, Create, Registry
from kaiwo.workload.plan import plan_object
from kaiwo_ray_service.backend import RayServiceBackend
from kaiwo_ray_service.kinds import APP_WRAPPER, RAY_SERVICE
from kaiwo_ray_service.render import BLOCK, SERVE

if TYPE_CHECKING:
    from campaign.arena import Cluster
    from kaiwo.cli.cluster_context import ClusterContext
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins


@dataclass(frozen=True, slots=True)
class Expected:
    """What a workload has to come to.

    Attributes:
        objects: that are made for it at once; empty when it cannot run.
        later: that are made once its downloads have succeeded.
        status: what it gets first.
    """

    objects: tuple[Object, ...]
    later: tuple[Object, ...]
    status: Object


class Planner:
    """The pure planner, with what the control plane offered when it was made."""

    def __init__(self, plugins: Plugins, context: ClusterContext) -> None:
        """Keep what every plan needs."""
        self.plugins = plugins
        self.registry = Registry.of(plugins)
        self.context = context

    @staticmethod
    def load() -> Plugins:
        """Load the plugins of the campaign's operators."""
        return load(PluginSelection.of(flag=PLUGINS))

    @classmethod
    async def of(cls, cluster: Cluster) -> Planner:
        """Read what the operators of the campaign read."""
        return await asyncio.to_thread(cls._read, cluster)

    @classmethod
    def _read(cls, cluster: Cluster) -> Planner:
        plugins = cls.load()
        with asyncio.Runner() as runner:

            async def connect() -> Client:
                return Client(cluster.connection)

            client = runner.run(connect())
            try:
                context = read_context(Reader(runner, client, "default", everywhere=False), plugins)
            finally:
                runner.run(client.close())
        return cls(plugins, context)

    def expected(self, workload: Object) -> Expected:
        """What a workload comes to, as if it had just been created.

        Args:
            workload: as it is stored.
        """
        fresh = {key: value for key, value in workload.items() if key != "status"}
        facts = self.context.facts(Workload.from_live(fresh), self.plugins, ExistingObjects())
        planned = plan_object(fresh, self.registry, facts)
        first, later = (
            tuple(write.obj for write in writes if isinstance(write, Create | Apply))
            for writes in (planned.writes, planned.later)
        )
        return Expected(first, later, planned.statuses[-1] if planned.statuses else {})


def unlike(expected: Expected, made: list[Object]) -> list[str]:
    """In what the objects that were made differ from what is expected; empty when they do not.

    Args:
        expected: for one workload.
        made: the objects that Kaiwo made for it.
    """
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in made}
    first = {(obj["kind"], obj["metadata"]["name"]): obj for obj in expected.objects}
    wanted = {(obj["kind"], obj["metadata"]["name"]): obj for obj in expected.later} | first
    wanted |= {
        (RAY_SERVICE.kind, name): _wrapped(obj)
        for (kind, name), obj in first.items()
        if kind == APP_WRAPPER.kind
    }
    lines = [f"{'/'.join(key)} is missing" for key in first.keys() - found.keys()]
    lines += [f"{'/'.join(key)} is too many" for key in found.keys() - wanted.keys()]
    for key in wanted.keys() & found.keys():
        lines += [f"{'/'.join(key)}.{line}" for line in _missing(found[key], _content(wanted[key]))]
    return sorted(lines)


def _wrapped(wrapper: Object) -> Object:
    """What Kaiwo itself writes to the RayService in an AppWrapper, once that has made it."""
    (component,) = wrapper["spec"]["components"]
    template = component["template"]
    return {"kind": template["kind"], "metadata": {}, "spec": {SERVE: template["spec"].get(SERVE)}}


def _content(obj: Object) -> Object:
    body = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    if "spec" in body:  # who suspends changes that at any time
        body["spec"] = {key: value for key, value in body["spec"].items() if key != "suspend"}
    if obj["kind"] == APP_WRAPPER.kind:  # what cannot change in it comes with its next replacement
        body["spec"] = RayServiceBackend(BLOCK).immutable_part(obj)
    return {**body, "metadata": {"labels": obj["metadata"].get("labels") or {}}}


def _missing(live: Object, wanted: Object, path: str = "") -> list[str]:
    """The deepest fields in which a live object lacks what is wanted."""
    lines: list[str] = []
    for key, value in wanted.items():
        below: Any = live.get(key)
        if contains({key: below}, {key: value}):
            continue
        deeper = (
            isinstance(below, dict) and isinstance(value, dict) and _missing(below, value, f"{path}{key}.")
        )
        lines += deeper or [f"{path}{key} is {below!r:.200}, not {value!r:.200}"]
    return lines
