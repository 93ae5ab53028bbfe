"""Which kinds an API server serves, and in which version a kind with several is used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.engine.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from kaiwo.engine.resource import Object, Resource


class Discovery:
    """Finds what is served, and remembers the version in use of kinds with fallbacks."""

    def __init__(self, get: Callable[[str], Awaitable[Object]]) -> None:
        """Prepare; nothing is read yet.

        Args:
            get: GETs a path; NotFound when there is nothing.
        """
        self._get = get
        self._versions: dict[Resource, str] = {}

    def in_use(self, resource: Resource) -> Resource:
        """The kind at the version that requests are sent to: its own, or the fallback found last."""
        version = self._versions.get(resource, resource.version)
        return resource if version == resource.version else replace(resource, version=version)

    async def find_version(self, resource: Resource) -> bool:
        """Find the newest served version of a kind with fallbacks, and use that from now on.

        Returns:
            Whether requests go to another version than before.
        """
        before = self.in_use(resource).version
        for version in (resource.version, *resource.fallbacks):
            if resource.plural in await self._names(resource.group, version):
                self._versions[resource] = version
                break
        return self.in_use(resource).version != before

    async def served(self, resources: Collection[Resource]) -> frozenset[Resource]:
        """Which of the resources are served now; one with fallbacks is when any of its versions is."""
        versions: dict[tuple[str, str], set[Resource]] = {}
        for resource in resources:
            for version in (resource.version, *resource.fallbacks):
                versions.setdefault((resource.group, version), set()).add(resource)
        found: set[Resource] = set()
        for (group, version), wanted in sorted(versions.items()):
            names = await self._names(group, version)
            found |= {resource for resource in wanted if resource.plural in names}
        return frozenset(found)

    async def _names(self, group: str, version: str) -> frozenset[str]:
        """Plural names of the kinds in a version of a group; empty when it is not known."""
        try:
            answer = await self._get(f"/apis/{group}/{version}" if group else f"/api/{version}")
        except NotFound:
            return frozenset()
        listed = answer.get("resources")
        found = (item.get("name") for item in (listed if isinstance(listed, list) else ()))
        return frozenset(name for name in found if isinstance(name, str))
