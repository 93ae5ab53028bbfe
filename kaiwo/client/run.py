"""Running a command on the cluster: build the workload, ship the folder, follow, and find the exit code.

The order of the writes is explained in docs/decisions/shipped-folders.md: the ConfigMap comes first and has
no owner yet, then the workload, then the ConfigMap gets the workload as its owner. Until then it carries the
label `UNOWNED`, by which the next run finds and removes what an interrupted one left.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.client import manifests, run_request, workloads
from kaiwo.client.errors import ClientError, WorkloadExists
from kaiwo.client.kinds import BY_KIND, KAIWO_CONFIG
from kaiwo.client.lookup import label, not_installed
from kaiwo.client.names import random_suffix
from kaiwo.client.record import Record
from kaiwo.client.run_pods import ARCHIVE_KEY, SCRIPT_KEY
from kaiwo.client.run_request import RUN_TOKEN
from kaiwo.client.submission import FIELD_MANAGER
from kaiwo.engine.resource import CONFIG_MAP
from kaiwo.engine.timestamps import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kaiwo.client.run_request import RunRequest
    from kaiwo.client.shipping import Archive
    from kaiwo.client.user_config import UserConfig
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

UNOWNED = "kaiwo.silogen.ai/unowned-archive"
"""Label of a ConfigMap with a folder until its workload owns it."""

_FOR = "kaiwo.silogen.ai/archive-of"
"""Annotation of such a ConfigMap: kind and name of the workload."""

_ORPHAN_SECONDS = 600.0
"""Age at which a ConfigMap without an owner is taken for what an interrupted run left."""


class RunRecord(Record, frozen=True, kw_only=True):
    """What was started.

    Attributes:
        workload: the workload.
        shipped_files: files in the folder that was shipped; 0 without one.
        shipped_bytes: bytes of the archive; 0 without one.
        left_out: paths of the folder that were not shipped although they belong to it, each with the reason.
        warnings: what else a person should know of the folder, a text each.
    """

    workload: workloads.WorkloadRecord
    shipped_files: int = 0
    shipped_bytes: int = 0
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Everything that is going to be sent.

    Attributes:
        manifest: the workload.
        archive: the packed folder; None when none is shipped.
        config_map: the ConfigMap that carries it, and on Ray the command; None without either.
    """

    manifest: Object
    archive: Archive | None
    config_map: Object | None

    def record(self, live: Object) -> RunRecord:
        """What was started.

        Args:
            live: the workload as the API server returned it.
        """
        archive = self.archive
        if archive is None:
            return RunRecord(workload=workloads.record(live))
        return RunRecord(
            workload=workloads.record(live),
            shipped_files=archive.files,
            shipped_bytes=len(archive.content),
            left_out=tuple(f"{path}: {why}" for path, why in archive.left_out),
            warnings=archive.notes,
        )


def pack_folder(request: RunRequest, folder: Path | None) -> Archive | None:
    """The packed folder; None when nothing is shipped.

    Args:
        request: what is to run; with a git repository nothing is shipped.
        folder: to ship; None for none.

    Raises:
        InvalidArgument: the request cannot be run.
        ShippingError: the folder is too large, or cannot be read.
    """
    from kaiwo.client.shipping import pack

    run_request.check(request)
    archive = pack(folder) if folder is not None and not request.git else None
    return archive if archive is not None and archive.files else None


def prepare(
    request: RunRequest,
    *,
    config: UserConfig,
    namespace: str,
    archive: Archive | None = None,
    scheduler: str = "",
    idle: bool = False,
) -> PreparedRun:
    """Build the workload, and the ConfigMap with the folder.

    Args:
        request: what is to run.
        config: kaiwoconfig.yaml.
        namespace: where it will be.
        archive: the packed folder; None when none is shipped.
        scheduler: see `run_request.build`.
        idle: whether it waits for a shell.

    Raises:
        InvalidArgument: the request cannot be run.
    """
    run_request.check(request)
    name = request.name or run_request.default_name(request, random_suffix())
    token = random_suffix(10)
    # On Ray the command travels in the ConfigMap, too.
    config_map = f"{name}-folder-{token}" if archive or request.ray else ""
    unpacks = archive is not None
    manifest = run_request.build(
        request,
        name=name,
        token=token,
        config_map=config_map,
        unpacks=unpacks,
        scheduler=scheduler,
        idle=idle,
    )
    manifests.fill_in(manifest, config, namespace)
    content: Object = {}
    if archive is not None:
        content["binaryData"] = {ARCHIVE_KEY: base64.b64encode(archive.content).decode()}
    if request.ray:
        content["data"] = {SCRIPT_KEY: run_request.script(request, unpacks=unpacks, idle=idle) + "\n"}
    carrier = _config_map(manifest, config_map, content) if config_map else None
    return PreparedRun(manifest, archive, carrier)


def _config_map(manifest: Object, name: str, content: Object) -> Object:
    metadata = manifest["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "annotations": {
                _FOR: f"{manifest['kind']}/{metadata['name']}",
                RUN_TOKEN: metadata["annotations"][RUN_TOKEN],
            },
        },
        "immutable": True,
        **content,
    }


async def scheduler_name(api: Client) -> str:
    """The scheduler of generated pods; empty when the user may not read the configuration."""
    from kaiwo.api.config_names import DEFAULT_SCHEDULER, SINGLETON
    from kaiwo.engine.errors import Forbidden, NotFound

    try:
        config = await api.get(KAIWO_CONFIG, None, SINGLETON)
    except Forbidden:
        return ""
    except NotFound:
        return DEFAULT_SCHEDULER
    scheduling = (config.get("spec") or {}).get("scheduling") or {}
    return str(scheduling.get("kubeSchedulerName") or DEFAULT_SCHEDULER)


async def start(api: Client, prepared: PreparedRun, explain: Callable[[Object], None]) -> Object:
    """Send what was prepared; the live workload. A name that is taken is never changed.

    Args:
        api: the API server.
        prepared: what to send.
        explain: called with the workload when the API server finds it invalid; raises with a better text. The
            rules for all fields, those of plugins too, take longer to load than all the rest.

    Raises:
        InvalidManifest: the API server rejects the workload.
        WorkloadExists: the name is taken.
        NotInstalled: the cluster does not serve the kind.
        EngineError: the API server rejects it or does not answer.
    """
    from kaiwo.engine.errors import Invalid

    manifest = prepared.manifest
    # Whatever the API server has against the workload is found before anything is written.
    try:
        await _create(api, manifest, dry_run=True)
    except Invalid:
        explain(manifest)
        raise
    if prepared.config_map is None:
        return await _create(api, manifest)
    config_map = await _create_config_map(api, prepared.config_map)
    try:
        live = await _create(api, manifest)
    except ClientError:
        await _delete_config_map(api, config_map)
        raise
    except Exception as error:
        if _certainly_rejected(error):
            await _delete_config_map(api, config_map)
        raise
    # It runs; the next run repeats what fails here.
    with suppress(Exception):
        await _own(api, config_map, live)
    return live


async def _create(api: Client, manifest: Object, *, dry_run: bool = False) -> Object:
    from kaiwo.engine.errors import AlreadyExists, ConnectionBroken, NotFound, ServerUnavailable

    metadata = manifest["metadata"]
    resource = BY_KIND[manifest["kind"]]
    try:
        return await api.create(
            resource, manifest, field_manager=FIELD_MANAGER, field_validation="Strict", dry_run=dry_run
        )
    except (AlreadyExists, ConnectionBroken, ServerUnavailable) as error:
        # A lost answer: the workload may be there, and then it has our token.
        found = None if dry_run else await _existing(api, manifest)
        if found is not None and _token(found) == _token(manifest):
            return found
        if not isinstance(error, AlreadyExists):
            raise
        raise WorkloadExists(
            f"{label(manifest)} exists already in namespace {metadata['namespace']}",
            f"leave --name out, choose another one, or kaiwo delete {label(manifest)} "
            f"-n {metadata['namespace']}",
        ) from error
    except NotFound as error:
        if error.details.get("kind") == "namespaces":
            raise
        raise not_installed(resource) from error


async def _existing(api: Client, manifest: Object) -> Object | None:
    from kaiwo.engine.errors import NotFound

    metadata = manifest["metadata"]
    try:
        return await api.get(BY_KIND[manifest["kind"]], metadata["namespace"], metadata["name"])
    except NotFound:
        return None


def _token(obj: Object) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(RUN_TOKEN, ""))


def _certainly_rejected(error: Exception) -> bool:
    """Whether the workload does surely not exist."""
    from kaiwo.engine.errors import ApiError, ServerUnavailable

    return isinstance(error, ApiError) and not isinstance(error, ServerUnavailable)


async def _create_config_map(api: Client, config_map: Object) -> Object:
    """Create the ConfigMap under a name that nobody has."""
    from kaiwo.engine.errors import AlreadyExists, Forbidden

    metadata = config_map["metadata"]
    obj = {**config_map, "metadata": {**metadata, "labels": {UNOWNED: "true"}}}
    try:
        return await api.create(CONFIG_MAP, obj, field_manager=FIELD_MANAGER)
    except AlreadyExists:
        # Only an earlier attempt of this request can have chosen the same ten random characters.
        return await api.get(CONFIG_MAP, metadata["namespace"], metadata["name"])
    except Forbidden as error:
        raise ClientError(
            f"the folder cannot be shipped, because you may not create ConfigMaps: {error}",
            "ask an administrator for the role edit in the namespace, or use --git URL or --no-sync",
        ) from error


async def _delete_config_map(api: Client, config_map: Object) -> None:
    metadata = config_map["metadata"]
    # What remains is removed by the next run.
    with suppress(Exception):
        await api.delete(CONFIG_MAP, metadata["namespace"], metadata["name"], uid=metadata["uid"])


async def _own(api: Client, config_map: Object, workload: Object) -> None:
    """Make the workload the owner, so that the ConfigMap goes with it."""
    metadata = config_map["metadata"]
    owner = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": workload["metadata"]["uid"],
    }
    await api.merge_patch(
        CONFIG_MAP,
        metadata["namespace"],
        metadata["name"],
        {"metadata": {"ownerReferences": [owner], "labels": {UNOWNED: None}}},
        uid=metadata["uid"],
        field_manager=FIELD_MANAGER,
    )


async def clean_up(api: Client, namespace: str, now: datetime | None = None) -> None:
    """Finish what interrupted runs left in a namespace: give their ConfigMaps an owner, or delete them.

    Nothing that fails here matters to a new run.

    Args:
        api: the API server.
        namespace: where.
        now: the time by which ages count.
    """
    from kaiwo.engine.errors import EngineError

    moment = now or datetime.now(UTC)
    with suppress(EngineError):
        found = [obj async for obj in api.list(CONFIG_MAP, namespace, label_selector=f"{UNOWNED}=true")]
        await asyncio.gather(*(_finish(api, obj, moment) for obj in found), return_exceptions=True)


async def _finish(api: Client, config_map: Object, now: datetime) -> None:
    metadata = config_map["metadata"]
    created = parse_time(metadata.get("creationTimestamp"))
    kind, _, name = str((metadata.get("annotations") or {}).get(_FOR, "")).partition("/")
    if created is None or (now - created).total_seconds() < _ORPHAN_SECONDS or kind not in BY_KIND:
        return
    named = {"kind": kind, "metadata": {"namespace": metadata["namespace"], "name": name}}
    workload = await _existing(api, named)
    if workload is not None and _token(workload) == _token(config_map):
        await _own(api, config_map, workload)
    else:
        await _delete_config_map(api, config_map)
