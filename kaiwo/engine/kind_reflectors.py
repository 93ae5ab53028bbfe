"""The reflectors of one kind: one for all namespaces, or one for each that is watched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaiwo.engine.reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.reader import Reader
    from kaiwo.engine.store import Store

_SHOWN = 3
"""Namespaces that a message names."""


class KindReflectors:
    """Feeds the store of one kind.

    A namespace that does not exist, or whose objects may not be listed, does not hold up the others: they
    are read, and it is tried again until it can be listed.

    Attributes:
        store: what is fed.
        each: the reflectors, in the order of the namespaces.
    """

    def __init__(
        self,
        client: Reader,
        store: Store,
        *,
        metrics: Metrics,
        stall: float,
        on_denied: Callable[[str], None],
        on_served: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            client: reads.
            store: is fed.
            metrics: counts restarts.
            stall: seconds of silence after which a watch counts as dead.
            on_denied: called with a namespace, empty for all, whenever it cannot be listed any more or can
                be listed again.
            on_served: called whenever `served` may have changed.
        """
        self.store = store

        def reflector(namespace: str | None) -> Reflector:
            return Reflector(
                client, store, namespace,
                metrics=metrics, stall=stall,
                on_denied=lambda: on_denied(namespace or ""), on_served=on_served,
            )  # fmt: skip

        self.each = tuple(reflector(namespace) for namespace in store.namespaces or (None,))

    async def run(self) -> None:
        """List and watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.each:
                group.create_task(reflector.run(), name=f"reflector-{reflector.name}")

    async def known(self, *, required: bool) -> None:
        """Wait until every namespace is listed, or it is certain that it cannot be.

        Args:
            required: whether at least one of them must have been listed.
        """
        if required:
            settled = [asyncio.create_task(reflector.settled.wait()) for reflector in self.each]
            try:
                await asyncio.wait(settled, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in settled:
                    task.cancel()
        for reflector in self.each:
            await reflector.answered.wait()

    def give_up(self) -> bool:
        """Let others go on without the first list of each namespace; see `Reflector.give_up`."""
        answers = [reflector.give_up() for reflector in self.each]
        return all(answers)

    @property
    def failing(self) -> str:
        """Why the first list fails, where nobody waits for it any more, else empty."""
        return next((one.failing for one in self.each if one.failing), "")

    @property
    def served(self) -> bool:
        """Whether the API server knows the kind, as far as it has answered."""
        return any(reflector.served for reflector in self.each)

    def expect(self) -> None:
        """Ask at once whether the kind is served, if it was not."""
        for reflector in self.each:
            reflector.expect()

    @property
    def denied(self) -> dict[str, str]:
        """The API server's words for each namespace that may not be listed; empty stands for all."""
        return {one.namespace or "": one.denied for one in self.each if one.denied}

    def state(self) -> tuple[bool, str]:
        """Whether the kind is listed and watched but for a short interruption, or known not to be served.

        A missing right is no interruption: it stays until somebody grants it. Where it is missing in some
        of the namespaces only, the others are worked on, and the message names these.
        """
        readable = [reflector for reflector in self.each if not reflector.denied]
        well = bool(readable) and all(reflector.synced() for reflector in readable)
        problems = [
            f"{one.namespace}: {one.problem}" if one.namespace else one.problem
            for one in sorted(self.each, key=lambda one: bool(one.denied))
            if one.problem
        ]
        more = f"; and {len(problems) - _SHOWN} more namespaces" if len(problems) > _SHOWN else ""
        return well, "; ".join(problems[:_SHOWN]) + more or "ok"
