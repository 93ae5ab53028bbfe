"""Carries an uninstallation out."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from kaiwo.api.installation import OPERATOR
from kaiwo.api.workload import GROUP
from kaiwo.cli.failures import TIMED_OUT, Failure
from kaiwo.cli.uninstalling.plan import abandoned_workloads, marks, read_plan, workloads_exist
from kaiwo.engine.errors import Conflict, Forbidden, NotFound
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, LEASE, POD
from kaiwo.workload.json_access import holding, lenient_map, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo.cli.uninstalling.plan import UninstallPlan, UninstallRequest
    from kaiwo.engine.client import Client, Propagation
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins
    from kaiwo.plugin.removals import Removal

_INTERVAL = 0.5  # seconds between two checks of what still exists
_RETRY_AFTER = 10.0  # seconds; the API server looks for instances that remain every five
_RETRIED = f"{GROUP}/deletion-retried"  # annotation of a definition: when, in seconds since 1970


class Uninstallation:
    """Removes an installation, one kind of thing after the other.

    Args:
        client: of the cluster.
        request: what the user asked for.
        plugins: loaded plugins.
        timeout: seconds for each step.
        say: called with what was done.
    """

    def __init__(
        self,
        client: Client,
        request: UninstallRequest,
        plugins: Plugins,
        *,
        timeout: float,
        say: Callable[[str], None],
    ) -> None:
        self._client = client
        self._request = request
        self._plugins = plugins
        self._timeout = timeout
        self._say = say

    async def run(self, shown: UninstallPlan) -> None:
        """Take the webhooks away, stop the operator, read again what is there, and remove it.

        Args:
            shown: what the user has agreed to.

        Raises:
            Failure: a step took too long, or somebody has created a workload meanwhile.
        """
        # First, so that no request waits for a server that is gone.
        await self._remove(shown.webhooks, "Background")
        if shown.operator is not None:
            await self._remove([shown.operator], "Foreground")
        await self._until_stopped()
        # What the operator wrote between the reading and its end is read here.
        plan = await read_plan(self._client, self._request, self._plugins)
        await self._remove(
            [item.removal for item in plan.workloads if not self._request.orphans(item)], "Foreground"
        )
        await self._remove([item.removal for item in plan.workloads if self._request.orphans(item)], "Orphan")
        if plan.marks:
            await self._remove_marks()
        await self._remove(plan.objects, "Background")
        if plan.crds:
            if created := await abandoned_workloads(self._client):
                raise workloads_exist(created)
            await self._remove(plan.crds, "Background")

    async def _remove(self, removals: Sequence[Removal], propagation: Propagation) -> None:
        """Delete objects and wait until they are gone."""
        for item in removals:
            await self._apply(item, propagation)
        now = time.monotonic()
        deadline, again = now + self._timeout, now + _RETRY_AFTER
        left = [item for item in removals if item.patch is None]
        while found := [(item, live) for item in left if (live := await self._live(item)) is not None]:
            left = [item for item, _ in found]
            now = time.monotonic()
            if now >= deadline:
                raise self._timed_out([f"{described(item)}{_obstacle(live)}" for item, live in found])
            if now >= again:
                again = now + _RETRY_AFTER
                await self._retry([item for item in left if item.resource == CUSTOM_RESOURCE_DEFINITION])
            await asyncio.sleep(_INTERVAL)

    async def _retry(self, definitions: Sequence[Removal]) -> None:
        """Make the API server try again to delete the instances of definitions.

        It tries again by itself when an attempt failed, for example while it still opens the storage of a new
        definition. If that attempt meets a conflict with its own note of the failure, the next one comes when
        the definition changes, or with a resync after five minutes.
        """
        for item in definitions:
            mark = {"metadata": {"annotations": {_RETRIED: str(int(time.time()))}}}
            with suppress(NotFound, Conflict, Forbidden):
                await self._client.merge_patch(item.resource, None, item.name, mark, uid=item.uid)

    async def _remove_marks(self) -> None:
        """Take back what plugins wrote until nothing is left: others write the same nodes."""
        deadline = time.monotonic() + self._timeout
        said: set[tuple[str, str]] = set()
        while left := await marks(self._client, self._plugins):
            for item in left:
                await self._apply(item, "Background", quiet=(item.uid, item.what) in said)
                said.add((item.uid, item.what))
            if time.monotonic() >= deadline:
                raise self._timed_out([described(item) for item in left])
            await asyncio.sleep(_INTERVAL)

    async def _apply(self, item: Removal, propagation: Propagation, *, quiet: bool = False) -> None:
        namespace = item.namespace or None
        try:
            if item.patch is None:
                await self._client.delete(
                    item.resource, namespace, item.name, uid=item.uid, propagation=propagation
                )
            else:
                await self._client.merge_patch(
                    item.resource, namespace, item.name, item.patch,
                    uid=item.uid, resource_version=item.resource_version or None,
                )  # fmt: skip
        except (NotFound, Conflict):
            return  # gone, replaced or changed meanwhile: the next check sees it
        if not quiet:
            self._say(f"{described(item)} {'deleted' if item.patch is None else 'removed'}")

    async def _live(self, item: Removal) -> Object | None:
        try:
            live = await self._client.get(item.resource, item.namespace or None, item.name)
        except NotFound:
            return None
        return live if live["metadata"]["uid"] == item.uid else None

    async def _until_stopped(self) -> None:
        """Wait until no pod of the operator is there and no process renews its Lease.

        Raises:
            Failure: a process goes on renewing the Lease.
        """
        namespace = self._request.namespace
        deadline = time.monotonic() + self._timeout
        selector = f"app.kubernetes.io/name={OPERATOR}"
        while [pod async for pod in self._client.list(POD, namespace, label_selector=selector)]:
            if time.monotonic() >= deadline:
                raise Failure(
                    f"timed out after {self._timeout:g} s; pods of {OPERATOR} still run in namespace "
                    f"{namespace}",
                    f"kubectl -n {namespace} get pods -l {selector}",
                    code=TIMED_OUT,
                )
            await asyncio.sleep(_INTERVAL)
        await self._until_unheld(namespace, deadline)

    async def _until_unheld(self, namespace: str, deadline: float) -> None:
        seen, since = "", time.monotonic()
        while True:
            try:
                spec = (await self._client.get(LEASE, namespace, OPERATOR)).get("spec") or {}
            except NotFound:
                return
            holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime"))
            now = time.monotonic()
            if renewed != seen:
                seen, since = renewed, now
            if not holder or now - since > float(spec.get("leaseDurationSeconds") or 0):
                return
            if now >= deadline:
                raise Failure(
                    f"{holder} still renews Lease {namespace}/{OPERATOR}: an operator runs there",
                    "stop it, and run kaiwo uninstall again",
                    code=TIMED_OUT,
                )
            await asyncio.sleep(_INTERVAL)

    def _timed_out(self, left: Sequence[str]) -> Failure:
        return Failure(
            f"timed out after {self._timeout:g} s; still there: {', '.join(left)}",
            "look at metadata.finalizers of these objects and at the controllers behind them; then run kaiwo "
            "uninstall again",
            code=TIMED_OUT,
        )


def described(item: Removal) -> str:
    """A removal in one line: kind, name, and what of the object is removed."""
    name = f"{item.namespace}/{item.name}" if item.namespace else item.name
    return f"{item.resource} {name}{f': {item.what}' if item.what else ''}"


def _obstacle(live: Object) -> str:
    """What an object's condition Terminating says, in parentheses; empty without one."""
    terminating = holding(lenient_map(live.get("status")).get("conditions")).get("Terminating", {})
    message = one_line(terminating.get("message"))
    return f" ({message})" if message else ""
