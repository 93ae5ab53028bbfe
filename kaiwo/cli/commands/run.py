"""``kaiwo run``: run a command on the cluster, without a file."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import kit, options
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.cli.misplaced_options import CommandWithTail, misplaced
from kaiwo.cli.terminal import clean, counted
from kaiwo.client import user_config
from kaiwo.client.lookup import label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaiwo.cli.kit import Cluster
    from kaiwo.client.run import PreparedRun
    from kaiwo.client.run_request import RunRequest
    from kaiwo.client.shipping import Archive
    from kaiwo.client.user_config import UserConfig
    from kaiwo.engine.resource import Object

_SHOWN = 10
"""Paths at most of what was left out, unless -v is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mode:
    """What happens around the run.

    Attributes:
        sync: ship the working directory.
        save: file to write the manifest to, None for none.
        dry_run: send nothing.
        interactive: open a shell in the pod.
        rm: delete the workload at the end.
        detach: do not follow.
    """

    sync: bool
    save: str | None
    dry_run: bool
    interactive: bool
    rm: bool
    detach: bool


@click.command(cls=CommandWithTail, context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, metavar="[--] CMD...", type=click.UNPROCESSED)
@click.option("--gpus", type=click.IntRange(0), default=0, metavar="N", help="GPUs of the whole workload.")
@click.option("--vendor", default="", metavar="NAME", help="Vendor of the GPUs: amd, nvidia.")
@click.option("--image", default="", metavar="IMAGE", help="Container image (default: the cluster's).")
@click.option("--name", default="", metavar="NAME", help="Name of the workload (default: made of CMD).")
@click.option("--env", multiple=True, metavar="KEY[=VALUE]", help="A variable; without a value, yours.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="VAR=SECRET:KEY|SECRET[:/PATH]",
    help="A variable, or files in /secrets/SECRET, from a Secret of the namespace.",
)
@click.option("--queue", default="", metavar="NAME", help="Queue to wait in.")
@click.option("--user", default="", metavar="NAME", help="Owner, usually an e-mail address.")
@click.option("--storage", default="", metavar="SIZE[:/PATH[:CLASS]]", help="A data volume (/workload).")
@click.option("--git", default="", metavar="URL[@REF]", help="Clone this and run in it; nothing is shipped.")
@click.option(
    "--hf", multiple=True, metavar="REPO[:SIZE]", help="Download this from the Hugging Face Hub first."
)
@click.option("--ray", is_flag=True, help="Run on Ray: a head, and --replicas workers with the GPUs.")
@click.option("--replicas", type=click.IntRange(1), default=1, metavar="N", help="Workers, or replicas.")
@click.option("--service", is_flag=True, help="A service that runs until it is deleted.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port that the service listens on.")
@click.option("--no-sync", is_flag=True, help="Do not ship the working directory.")
@click.option(
    "--save", metavar="FILE|-", help="Write the manifest, too.", shell_complete=options.complete_files
)
@click.option("--dry-run", is_flag=True, help="Show what would be sent and shipped; send nothing.")
@click.option("-i", "--interactive", is_flag=True, help="A shell in the pod; deleted when it ends.")
@click.option("--rm", is_flag=True, help="Delete the workload when it has ended.")
@click.option("-d", "--detach", is_flag=True, help="Do not follow status and logs.")
@options.config_option
def run(
    *,
    command: tuple[str, ...],
    env: Sequence[str],
    port: int | None,
    config: str | None,
    no_sync: bool,
    save: str | None,
    dry_run: bool,
    interactive: bool,
    rm: bool,
    detach: bool,
    **request: Any,
) -> int:
    """Run a command on the cluster, in a copy of the working directory.

    \b
      kaiwo run --gpus 2 --image rocm/pytorch -- python train.py --lr 3
      kaiwo run --gpus 16 --replicas 2 --ray -- python tune.py
      kaiwo run --git https://github.com/me/code@main -- ./train.sh
      kaiwo run --gpus 1 --interactive

    The files that git tracks, and new ones that it does not ignore, are shipped (without git: all that
    .kaiwoignore does not name), 900 KiB packed at most. Status and logs are followed, and the exit code is
    the command's. Ctrl-C detaches; the workload goes on.
    """
    from kaiwo.client.run import pack_folder
    from kaiwo.client.run_request import RunRequest

    options.one_namespace()
    if interactive and (detach or request["service"]):
        raise click.UsageError("--interactive excludes --detach and --service")
    if words := misplaced(click.get_current_context(), command):
        kit.say(
            f"warning: {', '.join(words)} after the command: given to the command; options of kaiwo run "
            "stand before it, and -- before the command leaves this warning out"
        )
    mode = _Mode(sync=not no_sync, save=save, dry_run=dry_run, interactive=interactive, rm=rm, detach=detach)
    if interactive and not command:
        from kaiwo.client.exec import SHELL
        from kaiwo.client.names import random_suffix

        command = SHELL
        request["name"] = request["name"] or f"shell-{random_suffix()}"
    wanted = RunRequest(command=command, env=_variables(env), port=port or 0, **request)
    settled = user_config.load(config)
    options.use_configured_namespace(settled)
    archive = pack_folder(wanted, Path.cwd() if mode.sync else None)
    if dry_run:
        _show(_prepare(wanted, archive, settled, mode, namespace=_namespace(), scheduler=""), mode)
        return 0
    with kit.cluster() as cluster:
        return _run(cluster, wanted, archive, settled, mode)


def _run(
    cluster: Cluster, wanted: RunRequest, archive: Archive | None, settled: UserConfig, mode: _Mode
) -> int:
    from kaiwo.client import run as runs

    scheduler = cluster.run(runs.scheduler_name) if archive or wanted.port or wanted.ray else ""
    prepared = _prepare(wanted, archive, settled, mode, namespace=cluster.namespace, scheduler=scheduler)
    _report_shipping(prepared)
    if mode.save:
        _save(prepared, mode.save)
    try:
        live = cluster.run(lambda api: runs.start(api, prepared, _explain))
    except KeyboardInterrupt:
        kit.say(f"hint: {label(prepared.manifest)} may have been created; kaiwo list -n {cluster.namespace}")
        raise
    namespace = live["metadata"]["namespace"]
    kit.say(f"{label(live)} created in namespace {namespace}")
    cluster.run(lambda api: runs.clean_up(api, namespace))
    # Plugins take longer to load than all the rest, so it is sent first.
    warn = partial(_warn_of_quota, cluster, prepared.manifest)
    if mode.detach:
        _write(prepared, live)
        kit.say(f"hint: kaiwo logs -f {label(live)} -n {namespace}")
        warn()
        return 0
    from kaiwo.cli import following

    if mode.interactive:
        return following.open_shell(cluster, live, wanted.command, begin=warn)
    return following.follow(cluster, live, rm=mode.rm, begin=warn)


def _warn_of_quota(cluster: Cluster, manifest: Object) -> None:
    """Say that the queue can never give the GPUs; the status says only that the workload waits for them."""
    if not manifest["spec"].get("gpus"):
        return
    from kaiwo.api.errors import InvalidWorkload
    from kaiwo.cli.planning import never_starts
    from kaiwo.engine.errors import EngineError

    # What only a warning needs must not keep anybody from sending.
    with suppress(EngineError, InvalidWorkload, Failure):
        if why := never_starts(manifest, kit.plugins(), cluster):
            kit.say(f"warning: {label(manifest)}: {why}")


def _explain(manifest: Object) -> None:
    """Check the workload by the rules of all plugins."""
    from kaiwo.client import manifests

    plugins = kit.plugins()
    kit.warn_broken(plugins)
    with _without_file():
        manifests.check(manifest, plugins.validator())


@contextmanager
def _without_file() -> Iterator[None]:
    """The client's next step is about a file, which a run does not have."""
    from kaiwo.client.errors import InvalidManifest

    try:
        yield
    except InvalidManifest as error:
        next_step = "options of kaiwo run set these fields: kaiwo run --help"
        raise Failure(error.message, next_step, code=error.exit_code) from error


def _prepare(
    wanted: RunRequest,
    archive: Archive | None,
    settled: UserConfig,
    mode: _Mode,
    *,
    namespace: str,
    scheduler: str,
) -> PreparedRun:
    from kaiwo.client import run as runs

    with _without_file():
        return runs.prepare(
            wanted,
            config=settled,
            namespace=namespace,
            archive=archive,
            scheduler=scheduler,
            idle=mode.interactive,
        )


def _namespace() -> str:
    """For a dry run, which needs no cluster."""
    from kaiwo.engine.errors import CredentialsError

    try:
        return kit.settings().namespace or kit.connection().namespace
    except CredentialsError:
        return "default"


def _variables(texts: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE``, or ``KEY`` for the value that it has here."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals and key not in os.environ:
            raise Failure(f"--env {key}: is not set here", f"give a value: --env {key}=VALUE", code=USAGE)
        found[key] = value if equals else os.environ[key]
    return found


def _report_shipping(prepared: PreparedRun) -> None:
    """Say what is shipped, and all that is not although one could expect it."""
    archive = prepared.archive
    if archive is None:
        return
    size = len(archive.content) / 1024
    kit.say(f"shipping {counted(archive.files, 'file')} ({size:.1f} KiB packed) to /workdir")
    for note in archive.notes:
        kit.say(f"warning: {note}")
    shown = archive.left_out if kit.settings().verbosity > 0 else archive.left_out[:_SHOWN]
    for path, why in shown:
        kit.say(f"warning: {path} is left out: {why}")
    if more := len(archive.left_out) - len(shown):
        kit.say(f"warning: {more} more are left out (-v shows them)")
    if any("secret" in why or "key" in why for _, why in archive.left_out):
        kit.say("hint: give secrets with --secret, or ship a file all the same with !NAME in .kaiwoignore")


def _documents(prepared: PreparedRun) -> list[Object]:
    return [*([prepared.config_map] if prepared.config_map else []), prepared.manifest]


def _save(prepared: PreparedRun, target: str) -> None:
    from kaiwo.cli.output.serialization import to_yaml

    text = to_yaml(_documents(prepared), documents=True)
    if target == "-":
        click.echo(text, nl=False)
        return
    Path(target).write_text(text, encoding="utf-8")
    tool = "kubectl apply" if prepared.config_map else "kaiwo submit"
    kit.say(f"manifest written to {target} (send it again with {tool} -f {target})")


def _show(prepared: PreparedRun, mode: _Mode) -> None:
    """Everything that would be sent; the archive only as its size and its files."""
    import io
    import tarfile

    from kaiwo.cli.output.serialization import to_yaml

    _explain(prepared.manifest)
    _report_shipping(prepared)
    if prepared.archive is not None:
        with tarfile.open(fileobj=io.BytesIO(prepared.archive.content)) as tar:
            for member in tar:
                kit.say(f"  {member.name}{'/' if member.isdir() else ''}")
    if mode.save:
        _save(prepared, mode.save)
    if mode.save != "-":
        if kit.settings().output == "json":
            kit.dump(prepared.manifest, "json")
        else:
            click.echo(to_yaml(prepared.manifest), nl=False)
    kit.say(f"{label(prepared.manifest)} not sent (dry run)")


def _write(prepared: PreparedRun, live: Object) -> None:
    """The result on standard output if ``-o`` is given."""
    from kaiwo.cli.output.objects import name_of, without_owners

    match kit.settings().output:
        case "json" | "yaml" as form:
            import msgspec

            kit.dump(msgspec.to_builtins(prepared.record(without_owners(live))), form)
        case "name":
            click.echo(clean(name_of(live)))
