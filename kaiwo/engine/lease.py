"""Leader election by Lease, and the gate that keeps a process without a valid lease from writing."""

from __future__ import annotations

from kaiwo.engine.client import Client


class Lease:
    """One Lease object. `valid()` is the gate of the client."""

    def __init__(self, client: Client, namespace: str, name: str, identity: str, *, duration: float = 10.0,
                 renew_deadline: float = 7.0, retry_period: float = 2.0) -> None: ...

    def valid(self) -> bool:
        """Whether this process may write now, by CLOCK_BOOTTIME."""
        ...
