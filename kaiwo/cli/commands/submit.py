"""``kaiwo submit``: send workloads to the cluster; sending them again changes them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import kit
from kaiwo.cli.duration import SECONDS
from kaiwo.cli.failures import FAILED, NOT_FOUND, USAGE, Failure, plain
from kaiwo.cli.input_files import collect
from kaiwo.cli.input_files.workload_files import InvalidInput
from kaiwo.cli.kinds import BY_KIND, SHORT, not_installed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.input_files.workload_files import LocatedProblem, WorkloadFile
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

_TERMINAL = ("COMPLETE", "FAILED", "TERMINATED")
_UNSENT = "nothing was sent"

_UNDECLARED = re.compile(r"\.(\S+): field not declared in schema")
"""How a server-side apply says, with status 500, that the cluster's CRD lacks a field."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """What became of one manifest: the live object, and ``created``, ``configured`` or ``unchanged``."""

    manifest: WorkloadFile
    obj: Object
    change: str


@click.command()
@collect.options
@click.option("--wait", is_flag=True, help="Wait until jobs ended and services are ready.")
@click.option(
    "--timeout", type=SECONDS, metavar="DURATION", help="With --wait: give up after, for example 30m."
)
@click.option(
    "--dry-run",
    type=click.Choice(["client", "server"]),
    is_flag=False,
    flag_value="server",
    help="Check only: here, or by asking the cluster too (the default).",
)
def submit(*, wait: bool, timeout: float | None, dry_run: str | None, **request: Any) -> None:
    """Send workloads to the cluster. What is there already is changed to what the files say.

    Everything is checked first; one problem anywhere and nothing is sent. Flags win over the files, the
    files over kaiwoconfig.yaml (keys user, clusterQueue, namespace), that over the cluster's defaults.

    \b
      kaiwo submit -f job.yaml --queue team-a
      kaiwo submit -f jobs/ --dry-run
      sed s/SIZE/8/ job.yaml | kaiwo submit -f -
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout goes with --wait")
    manifests = collect.take(
        collect.InputRequest(**request), kit.plugins(), lambda: _context_namespace(dry_run), _UNSENT
    )
    if dry_run == "client":
        for manifest in manifests:
            _tell(manifest, manifest.obj, "checked", "not sent, the cluster was not asked")
        _data([manifest.obj for manifest in manifests])
        return
    with kit.cluster() as cluster:
        if dry_run or len(manifests) > 1:
            # One document that the API server refuses must not leave the others half sent.
            sent = cluster.run(lambda client: _send(client, manifests, dry_run=True))
        if not dry_run:
            sent = cluster.run(lambda client: _send(client, manifests, dry_run=False))
        for one in sent:
            _tell(one.manifest, one.obj, one.change, "dry run" if dry_run else _note(one))
        _data([one.obj for one in sent])
        if wait and not dry_run:
            from kaiwo.cli.waiting import wait_for

            wait_for(cluster, [one.obj for one in sent], timeout)


def _context_namespace(dry_run: str | None) -> str:
    """The kubeconfig's; a check on this machine alone needs none."""
    from kaiwo.engine.errors import CredentialsError

    try:
        return kit.connection().namespace
    except CredentialsError:
        if dry_run == "client":
            return "default"
        raise


async def _send(client: Client, manifests: Sequence[WorkloadFile], *, dry_run: bool) -> list[_Sent]:
    """Apply all; every refusal is collected before any is raised."""
    limit = asyncio.Semaphore(16)

    async def one(manifest: WorkloadFile) -> _Sent | Exception:
        async with limit:
            return await _apply(client, manifest, dry_run=dry_run)

    results = await asyncio.gather(*(one(manifest) for manifest in manifests), return_exceptions=True)
    sent = [result for result in results if isinstance(result, _Sent)]
    complaints: list[LocatedProblem] = []
    codes: set[int] = set()
    for manifest, result in zip(manifests, results, strict=True):
        if isinstance(result, BaseException):
            complaints += refusals(manifest, result)
            codes.add(_code(result))
    if complaints:
        done = ", ".join(f"{SHORT[s.manifest.kind]}/{s.manifest.name}" for s in sent)
        consequence = _UNSENT if dry_run or not done else f"sent all the same: {done}"
        raise InvalidInput(complaints, consequence, code=codes.pop() if len(codes) == 1 else FAILED)
    return sent


async def _apply(client: Client, manifest: WorkloadFile, *, dry_run: bool) -> _Sent:
    from kaiwo.engine.errors import NotFound

    resource = BY_KIND[manifest.kind]
    try:
        before: Object | None = await client.get(resource, manifest.metadata["namespace"], manifest.name)
    except NotFound as error:
        if not error.details.get("name"):
            raise not_installed(resource) from error
        before = None
    if before and before["metadata"].get("deletionTimestamp"):
        raise Failure(
            "the workload of that name is still being deleted", "wait until `kaiwo list` does not show it"
        )
    after = await client.apply(
        resource, manifest.obj, field_manager=kit.FIELD_MANAGER, field_validation="Strict", dry_run=dry_run
    )
    return _Sent(manifest, after, _change(before, after))


def _change(before: Object | None, after: Object) -> str:
    if before is None:
        return "created"
    return "unchanged" if _content(before) == _content(after) else "configured"


def _content(obj: Object) -> tuple[Any, ...]:
    metadata = obj["metadata"]
    return obj.get("spec"), metadata.get("labels") or {}, metadata.get("annotations") or {}


def refusals(manifest: WorkloadFile, error: BaseException) -> list[LocatedProblem]:
    """The API server's complaints at the lines they are about."""
    from kaiwo.engine import errors

    match error:
        case errors.Invalid() if error.causes:
            return [manifest.complain(cause.field, cause.message) for cause in error.causes]
        case errors.NotFound() if error.details.get("kind") == "namespaces":
            namespace = manifest.metadata.get("namespace")
            hint = f"kubectl create namespace {namespace}, or -n with another"
            return [
                manifest.complain("metadata.namespace", f'the namespace "{namespace}" does not exist', hint)
            ]
        case errors.Forbidden():
            hint = "kubectl auth whoami; ask an administrator for the right"
            return [manifest.complain("", f"not allowed: {error}", hint)]
        case errors.ApiError() if undeclared := _UNDECLARED.search(error.message):
            hint = "an administrator can install the plugin that declares it; or remove the field"
            return [manifest.complain(undeclared[1], "the cluster does not know this field", hint)]
        case errors.ApiError():
            return [manifest.complain("", f"the API server refused it: {error}")]
        case errors.ConnectionBroken():
            return [manifest.complain("", f"no answer from the API server: {plain(error)}", "send it again")]
        case Failure() if error.next_step:
            return [manifest.complain("", error.message, error.next_step)]
    raise error


def _code(error: BaseException) -> int:
    """2 for what the manifest is to blame for, 3 for a namespace that is not there, else 1."""
    from kaiwo.engine import errors

    match error:
        case errors.Invalid():
            return USAGE
        case errors.NotFound():
            return NOT_FOUND
    return FAILED


def _note(sent: _Sent) -> str:
    status = (sent.obj.get("status") or {}).get("status")
    if sent.change != "created" and status in _TERMINAL:
        return f"{status}; what ended never runs again: delete it first, or give it another name"
    return ""


def _tell(manifest: WorkloadFile, obj: Object, change: str, note: str) -> None:
    namespace = obj["metadata"].get("namespace")
    text = f"{SHORT[manifest.kind]}/{manifest.name} {change} in namespace {namespace}"
    kit.say(f"{text} ({note})" if note else text)


def _data(objects: Sequence[Object]) -> None:
    """The objects on standard output, for who asked with ``-o``; else the talk has said it all."""
    if kit.settings().output in ("json", "yaml", "name"):
        kit.emit(objects, one=True)
