"""Sending a workload to the cluster: create it, change it, or replace it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kaiwo.api.status_words import TERMINAL
from kaiwo.client import workload_fields
from kaiwo.client.errors import WorkloadExists
from kaiwo.client.kinds import BY_KIND
from kaiwo.client.lookup import label, not_installed
from kaiwo.engine.diff import with_canonical_quantities

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

FIELD_MANAGER = "kaiwo-cli"
"""Owner of the fields that people send, with the command line or from Python; the operator's is ``kaiwo``."""

_DELETE_SECONDS = 120.0
"""How long a replacement waits until the old workload is gone."""

Change = Literal["created", "configured", "unchanged", "replaced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRules:
    """What may happen to workloads that exist already.

    Attributes:
        replace: delete and create anew what has ended or would change.
        take_over: change workloads of other users.
    """

    replace: bool = False
    take_over: bool = False


async def submit(
    api: Client, manifest: Object, rules: SubmitRules, *, dry_run: bool = False
) -> tuple[Object, Change]:
    """Apply one workload; the live object, and what was done.

    Args:
        api: where to.
        manifest: a valid workload with name and namespace.
        rules: what may happen to one that exists.
        dry_run: let the API server check it, change nothing.

    Raises:
        WorkloadExists: the name is taken by what may not be changed.
        NotInstalled: the cluster does not serve the kind.
        EngineError: the API server rejects it or does not answer.
    """
    before = await _existing(api, manifest)
    if before is not None:
        _check_owner(manifest, before, rules)
    ended = before is not None and workload_fields.word(before) in TERMINAL
    if before is not None and rules.replace and (ended or await _differs(api, manifest, before)):
        return await _replace(api, manifest, before, dry_run=dry_run), "replaced"
    after = await _server_side_apply(api, manifest, dry_run=dry_run)
    if before is None:
        return after, "created"
    if ended and dry_run and _spec(before) != _spec(after):
        raise WorkloadExists(
            f"{label(manifest)} has ended ({workload_fields.word(before)}); a change does not run it again",
            "use another name, or --replace to delete it and create it anew",
        )
    return after, "unchanged" if _content(before) == _content(after) else "configured"


async def _existing(api: Client, manifest: Object) -> Object | None:
    from kaiwo.engine.errors import NotFound

    resource = BY_KIND[manifest["kind"]]
    try:
        found = await api.get(resource, manifest["metadata"]["namespace"], manifest["metadata"]["name"])
    except NotFound as error:
        if not error.details.get("name"):
            raise not_installed(resource) from error
        return None
    if found["metadata"].get("deletionTimestamp"):
        raise WorkloadExists(
            f"{label(manifest)} is still being deleted",
            f"wait until kaiwo list -n {found['metadata']['namespace']} does not show it, then retry",
        )
    return found


def _check_owner(manifest: Object, before: Object, rules: SubmitRules) -> None:
    """Reject a change of somebody else's workload, which has the same name by accident."""
    owner = workload_fields.user(before)
    if owner and not rules.take_over and not workload_fields.same_user(owner, workload_fields.user(manifest)):
        raise WorkloadExists(
            f"{label(manifest)} belongs to user {owner}",
            "use another name, or --take-over to become its owner",
        )


async def _differs(api: Client, manifest: Object, before: Object) -> bool:
    """Whether the workload would change; one that the API server does not change in place would, too."""
    from kaiwo.engine.errors import Invalid

    try:
        after = await _server_side_apply(api, manifest, dry_run=True)
    except Invalid:
        return True
    return bool(_spec(before) != _spec(after))


async def _server_side_apply(api: Client, manifest: Object, *, dry_run: bool) -> Object:
    return await api.apply(
        BY_KIND[manifest["kind"]],
        manifest,
        field_manager=FIELD_MANAGER,
        field_validation="Strict",
        dry_run=dry_run,
    )


async def _replace(api: Client, manifest: Object, before: Object, *, dry_run: bool) -> Object:
    """Delete exactly the workload that was read, and create its successor when it is gone."""
    from kaiwo.engine.errors import NotFound

    resource = BY_KIND[manifest["kind"]]
    name, namespace, uid = (before["metadata"][key] for key in ("name", "namespace", "uid"))
    if dry_run:
        # The name is taken, so the API server checks the object under a name of its own choice.
        metadata = {key: value for key, value in manifest["metadata"].items() if key != "name"}
        trial = {**manifest, "metadata": {**metadata, "generateName": "kaiwo-replace-"}}
        checked = await api.create(resource, trial, dry_run=True)
        return {**checked, "metadata": {**checked["metadata"], "name": name}}
    try:
        await api.delete(resource, namespace, name, uid=uid, propagation="Background")
        async with asyncio.timeout(_DELETE_SECONDS):
            await _gone(api, resource, namespace, name, uid)
    except NotFound:
        pass
    except TimeoutError:
        raise WorkloadExists(
            f"{label(manifest)} is still being deleted after {_DELETE_SECONDS:g} s; it was not created anew",
            f"kaiwo status {name} -n {namespace}, then submit it again",
        ) from None
    return await _server_side_apply(api, manifest, dry_run=False)


async def _gone(api: Client, resource: Resource, namespace: str, name: str, uid: str) -> None:
    """Return when another object has the name; raises `NotFound` when none has."""
    found = await api.get(resource, namespace, name)
    while found["metadata"]["uid"] == uid:
        await asyncio.sleep(0.5)
        found = await api.get(resource, namespace, name)


def _spec(obj: Object) -> Any:
    """The spec, in which equal quantities are written equally."""
    return with_canonical_quantities(obj.get("spec"))


def _content(obj: Object) -> tuple[Any, ...]:
    metadata = obj["metadata"]
    return obj.get("spec"), metadata.get("labels") or {}, metadata.get("annotations") or {}
