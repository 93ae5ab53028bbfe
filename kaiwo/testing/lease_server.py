"""The part of an API server that leader election uses, in memory."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from kaiwo.engine.errors import AlreadyExists, Conflict, ConnectionBroken, NotFound
from kaiwo.testing.assertions import require

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object, Resource


class LeaseServer:
    """One Lease with the API server's rules about names and versions; all candidates talk to it.

    Attributes:
        lease: as it is stored, None while there is none.
        writes: that succeeded.
        away: it does not answer.
    """

    def __init__(self) -> None:
        """No Lease yet."""
        self.lease: Object | None = None
        self.writes = 0
        self.away = False

    async def get(self, _resource: Resource, _namespace: str, _name: str, *, urgent: bool) -> Object:
        """Read."""
        require(urgent, "a request for the Lease waits for no other")
        if self.away:
            raise ConnectionBroken("away")
        if self.lease is None:
            raise NotFound(404)
        return copy.deepcopy(self.lease)

    async def create(self, _resource: Resource, obj: Object, *, urgent: bool) -> Object:
        """POST."""
        require(urgent, "a request for the Lease waits for no other")
        if self.lease is not None:
            raise AlreadyExists(409)
        return self._store(obj)

    async def replace(self, _resource: Resource, obj: Object, *, urgent: bool) -> Object:
        """PUT with resourceVersion."""
        require(urgent, "a request for the Lease waits for no other")
        if self.away:
            raise ConnectionBroken("away")
        if self.lease is None:
            raise NotFound(404)
        if obj["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409)
        return self._store(obj)

    def _store(self, obj: Object) -> Object:
        self.writes += 1
        self.lease = copy.deepcopy(obj)
        self.lease["metadata"]["resourceVersion"] = str(self.writes)
        return copy.deepcopy(self.lease)
