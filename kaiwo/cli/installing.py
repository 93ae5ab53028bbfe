"""Writes an installation into a cluster: what differs, object by object, in the order of the rendering."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from kaiwo.cli.failures import FAILED, TIMED_OUT, Failure
from kaiwo.cli.uninstalling.live_objects import HELM, MANAGED_BY, label_of
from kaiwo.engine.errors import Conflict, NotFound
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION
from kaiwo.install.inventory import resource_of
from kaiwo.workload.json_access import holding, lenient_map

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

FIELD_MANAGER: Final = "kubectl"
"""As of ``kubectl apply --server-side``: either upgrades what the other one installed."""

Action: TypeAlias = Literal["create", "change", "unchanged"]

_SERVED_SECONDS: Final = 60.0
_INTERVAL: Final = 0.5
_BOOKKEEPING: Final = ("managedFields", "resourceVersion", "generation")


@dataclass(frozen=True, slots=True)
class InstallChange:
    """One object, and what becomes of it."""

    resource: Resource
    obj: Object
    action: Action

    @property
    def name(self) -> str:
        """Kind and name as kubectl writes them."""
        metadata = self.obj["metadata"]
        namespace = metadata.get("namespace")
        return f"{self.resource} {metadata['name']}" + (f" -n {namespace}" if namespace else "")


async def read_changes(client: Client, objects: Iterable[Object], *, force: bool) -> list[InstallChange]:
    """What would become of each object; nothing is written.

    Args:
        client: of the cluster.
        objects: what is installed.
        force: whether to take fields that somebody else has changed.

    Raises:
        Failure: a Helm release holds one of them, or somebody else has changed fields of them.
    """
    changes, conflicts = [], []
    for obj in objects:
        resource, metadata = resource_of(obj), obj["metadata"]
        try:
            live = await client.get(resource, metadata.get("namespace"), metadata["name"])
        except NotFound:
            changes.append(InstallChange(resource, obj, "create"))
            continue
        change = InstallChange(resource, obj, "change")
        # A removed release leaves its definitions behind, with this label.
        if resource != CUSTOM_RESOURCE_DEFINITION and label_of(live, MANAGED_BY) == HELM:
            raise Failure(
                f"{change.name} belongs to a Helm release",
                "upgrade the release with helm upgrade, or remove it with helm uninstall first",
                code=FAILED,
            )
        try:
            after = await client.apply(resource, obj, field_manager=FIELD_MANAGER, force=force, dry_run=True)
        except Conflict as error:
            conflicts.append(f"{change.name}: {error}")
            continue
        changes.append(change if _content(after) != _content(live) else _unchanged(change))
    if conflicts:
        raise Failure(
            "fields were changed by somebody else:\n" + "\n".join(conflicts),
            "--force-conflicts overwrites them",
            code=FAILED,
        )
    return changes


async def apply_changes(
    client: Client, changes: Iterable[InstallChange], say: Callable[[str], None], *, force: bool
) -> None:
    """Write what differs, and wait after the definitions until their kinds are served.

    Raises:
        Failure: a kind is not served in time.
    """
    defined: list[str] = []
    for change in changes:
        if defined and change.resource != CUSTOM_RESOURCE_DEFINITION:
            await _until_served(client, defined)
            defined = []
        if change.action == "unchanged":
            continue
        await client.apply(change.resource, change.obj, field_manager=FIELD_MANAGER, force=force)
        say(f"{change.name} {'created' if change.action == 'create' else 'changed'}")
        if change.resource == CUSTOM_RESOURCE_DEFINITION:
            defined.append(change.obj["metadata"]["name"])
    await _until_served(client, defined)


async def _until_served(client: Client, names: Collection[str]) -> None:
    deadline = time.monotonic() + _SERVED_SECONDS
    for name in names:
        while True:
            live = await client.get(CUSTOM_RESOURCE_DEFINITION, None, name)
            if "Established" in holding(lenient_map(live.get("status")).get("conditions")):
                break
            if time.monotonic() >= deadline:
                raise Failure(
                    f"the cluster does not serve {name} after {_SERVED_SECONDS:.0f} s",
                    f"kubectl describe crd {name}; then kaiwo install continues",
                    code=TIMED_OUT,
                )
            await asyncio.sleep(_INTERVAL)


def _unchanged(change: InstallChange) -> InstallChange:
    return InstallChange(change.resource, change.obj, "unchanged")


def _content(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _BOOKKEEPING}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}
