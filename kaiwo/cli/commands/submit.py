"""``kaiwo submit``: send workloads to the cluster; sending them again changes them."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from kaiwo.api.status_words import TERMINAL
from kaiwo.cli import kit
from kaiwo.cli.api_rejections import exit_code, rejections
from kaiwo.cli.duration import SECONDS
from kaiwo.cli.failures import FAILED, INTERRUPTED, USAGE, Failure
from kaiwo.cli.input_files import collect
from kaiwo.cli.input_files.problems import InvalidInput
from kaiwo.client import submission as client_submission
from kaiwo.client import workload_fields
from kaiwo.client.kinds import SHORT
from kaiwo.client.submission import Change, SubmitRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.input_files.problems import LocatedProblem
    from kaiwo.cli.input_files.workload_file import WorkloadFile
    from kaiwo.cli.kit import Cluster
    from kaiwo.cli.output.progress import ProgressLine
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

_UNSENT = "nothing was sent"

_ANEW = "use another name, or --replace to delete it and create it anew"


@dataclass(frozen=True, slots=True)
class _Sent:
    """A manifest with the live object that it became, and how that came about."""

    manifest: WorkloadFile
    obj: Object
    change: Change


class _SubmitCommand(click.Command):
    """A command whose ``--dry-run`` takes one of its words, and leaves a file behind it alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's, which would take whatever follows for the option's value."""
        for index, word in enumerate(args):
            if word == "--":
                break
            if word == "--dry-run" and args[index + 1 : index + 2] not in (["client"], ["server"]):
                args[index] = "--dry-run=server"
        return super().parse_args(ctx, args)


@click.command(cls=_SubmitCommand)
@collect.input_options
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
@click.option(
    "--replace", is_flag=True, help="Delete and create anew what has ended or would change. Asks first."
)
@click.option("--take-over", is_flag=True, help="Change workloads of other users, and become their owner.")
@click.option("-y", "--yes", is_flag=True, help="With --replace: do not ask.")
def submit(
    *,
    wait: bool,
    timeout: float | None,
    dry_run: str | None,
    replace: bool,
    take_over: bool,
    yes: bool,
    **request: Any,
) -> None:
    """Send workloads to the cluster. What is there already is changed to what the files say.

    \b
      kaiwo submit job.yaml --queue team-a
      kaiwo submit job.yaml --set gpus=4 --wait
      kaiwo submit jobs/ --dry-run
      sed s/SIZE/8/ job.yaml | kaiwo submit -

    Everything is checked first; one problem anywhere and nothing is sent. What would not run is a warning.
    Flags win over the files, the files over kaiwoconfig.yaml (keys user, clusterQueue, namespace), that
    over the cluster's defaults.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait")
    plugins = kit.plugins()
    manifests = collect.read_workloads(
        collect.InputOptions(**request), plugins, lambda: _context_namespace(dry_run), _UNSENT
    )
    if dry_run == "client":
        _preview(manifests, plugins, None)
        for manifest in manifests:
            _report(manifest, manifest.obj, "checked", "not sent, the cluster was not asked")
        _write([manifest.obj for manifest in manifests])
        return
    rules = SubmitRules(replace=replace, take_over=take_over)
    with kit.cluster() as cluster:
        # One document that the API server rejects must not leave the others half sent.
        try:
            with kit.progress("checking workloads", len(manifests)) as shown:
                sent = cluster.run(
                    lambda client: _send(client, manifests, plugins, rules, shown, dry_run=True)
                )
        except InvalidInput:
            _preview(manifests, plugins, None)
            raise
        _preview(manifests, plugins, cluster, sent)
        if not dry_run:
            _confirm([one for one in sent if one.change == "replaced"], yes=yes)
            with kit.progress("sending workloads", len(manifests)) as shown:
                sent = cluster.run(
                    lambda client: _send(client, manifests, plugins, rules, shown, dry_run=False)
                )
        for one in sent:
            _report(one.manifest, one.obj, one.change, "dry run" if dry_run else _note(one))
        _write([one.obj for one in sent])
        if wait and not dry_run:
            _wait(cluster, sent, timeout)


def _preview(
    manifests: Sequence[WorkloadFile], plugins: Plugins, cluster: Cluster | None, sent: Sequence[_Sent] = ()
) -> None:
    """Say what ``kaiwo plan`` would say: what is ignored, and what would not run.

    Raises:
        InvalidInput: a change that would not be applied to what runs.
    """
    from kaiwo.api.errors import Problem
    from kaiwo.cli.failures import plain
    from kaiwo.cli.planning import Submission, plan_submitted
    from kaiwo.engine.errors import EngineError

    submissions = [Submission(one.manifest, _before(one), one.change == "replaced") for one in sent]
    submissions = submissions or [Submission(manifest, manifest.obj) for manifest in manifests]
    problems = []
    try:
        with kit.progress("planning workloads"):
            planned = plan_submitted(submissions, plugins, cluster)
    except EngineError as error:
        # What only the warnings need must not keep anybody from sending.
        kit.say(f"warning: not checked against the cluster: {plain(error)}")
        planned = plan_submitted(submissions, plugins, None)
    for one in planned:
        for warning in one.warnings:
            kit.say(f"warning: {one.label}: {warning}")
        if one.unapplied:
            text = f"{one.label} would not be changed: {one.unapplied}"
            problems.append(one.manifest.locate(Problem("", text, _ANEW)))
        elif one.blocked and one.reported.get("status") not in TERMINAL:
            kit.say(f"warning: {one.label}: would not run: {one.blocked}")
        elif one.waits:
            kit.say(f"warning: {one.label}: would wait: {one.waits}")
    if problems:
        raise InvalidInput(problems, _UNSENT, code=FAILED)


def _before(sent: _Sent) -> Object:
    """What a dry run returned; a new object without the identity and status that it will not have."""
    if sent.change not in ("created", "replaced"):
        return sent.obj
    metadata = {key: value for key, value in sent.obj["metadata"].items() if key != "uid"}
    return {**{key: value for key, value in sent.obj.items() if key != "status"}, "metadata": metadata}


def _wait(cluster: Cluster, sent: Sequence[_Sent], timeout: float | None) -> None:
    """Wait until all ended or are ready; Ctrl-C ends the waiting alone."""
    from kaiwo.cli.output.status_changes import report_change
    from kaiwo.client import waiting

    objects = [one.obj for one in sent]
    words = {_name(obj): workload_fields.word(obj) for obj in objects}

    def changed(obj: Object) -> None:
        words[_name(obj)] = workload_fields.word(obj)
        report_change(obj)

    try:
        cluster.run(lambda api: waiting.wait(api, objects, timeout=timeout, on_change=changed))
    except KeyboardInterrupt:
        left = [one for one in sent if words[_name(one.obj)] not in TERMINAL]
        if not left:
            raise
        names = [_label(one.manifest) for one in left]
        namespace = left[0].obj["metadata"]["namespace"]
        raise Failure(
            f"interrupted; {', '.join(names)} {'goes' if len(names) == 1 else 'go'} on in the cluster",
            f"kaiwo status {names[0]} -n {namespace} -w to come back, "
            f"kaiwo delete {' '.join(names)} -n {namespace} to end",
            code=INTERRUPTED,
        ) from None


def _name(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"]


def _context_namespace(dry_run: str | None) -> str:
    """The kubeconfig's; a check on this machine alone needs none."""
    from kaiwo.engine.errors import CredentialsError

    try:
        return kit.connection().namespace
    except CredentialsError:
        if dry_run == "client":
            return "default"
        raise


def _confirm(replaced: Sequence[_Sent], *, yes: bool) -> None:
    if not replaced or yes:
        return
    names = ", ".join(_label(one.manifest) for one in replaced)
    if not sys.stdin.isatty():
        raise Failure(f"--replace deletes {names}; {_UNSENT}", "confirm with --yes", code=USAGE)
    if not click.confirm(f"Delete {names} with their data volumes, and create them anew?", err=True):
        raise Failure(_UNSENT, code=FAILED)


async def _send(
    client: Client,
    manifests: Sequence[WorkloadFile],
    plugins: Plugins,
    rules: SubmitRules,
    shown: ProgressLine,
    *,
    dry_run: bool,
) -> list[_Sent]:
    """Apply all; every problem is collected before any is raised."""
    from kaiwo.engine.errors import ConnectionBroken

    limit = asyncio.Semaphore(16)

    async def one(manifest: WorkloadFile) -> _Sent | Exception:
        async with limit:
            try:
                return await _apply(client, manifest, rules, dry_run=dry_run)
            finally:
                shown.step()

    results = await asyncio.gather(*(one(manifest) for manifest in manifests), return_exceptions=True)
    sent = [result for result in results if isinstance(result, _Sent)]
    problems: list[LocatedProblem] = []
    codes: set[int] = set()
    for manifest, result in zip(manifests, results, strict=True):
        if isinstance(result, BaseException):
            problems += rejections(manifest, result, plugins)
            codes.add(exit_code(result))
    if results and all(isinstance(result, ConnectionBroken) for result in results):
        raise results[0]  # type: ignore[misc]  # one of the errors that were just looked at
    if problems:
        done = ", ".join(_label(one.manifest) for one in sent)
        consequence = _UNSENT if dry_run or not done else f"sent all the same: {done}"
        raise InvalidInput(problems, consequence, code=codes.pop() if len(codes) == 1 else FAILED)
    return sent


async def _apply(client: Client, manifest: WorkloadFile, rules: SubmitRules, *, dry_run: bool) -> _Sent:
    return _Sent(manifest, *await client_submission.submit(client, manifest.obj, rules, dry_run=dry_run))


def _note(sent: _Sent) -> str:
    word = workload_fields.word(sent.obj)
    if sent.change in ("configured", "unchanged") and word in TERMINAL:
        return f"{word}; it does not run again. Use another name, or --replace"
    return ""


def _report(manifest: WorkloadFile, obj: Object, change: str, note: str) -> None:
    namespace = obj["metadata"].get("namespace")
    text = f"{_label(manifest)} {change} in namespace {namespace}"
    kit.say(f"{text} ({note})" if note else text)


def _label(manifest: WorkloadFile) -> str:
    return f"{SHORT[manifest.kind]}/{manifest.name}"


def _write(objects: Sequence[Object]) -> None:
    """The objects on standard output if ``-o`` is given; otherwise the report is complete."""
    if kit.settings().output in ("json", "yaml", "name"):
        kit.emit(objects, one=True)
