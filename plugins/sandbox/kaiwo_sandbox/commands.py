"""The command group `kaiwo sandbox`: up, down, status, env, reset, build."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import kit
from kaiwo_sandbox import addons as addons_module
from kaiwo_sandbox import binaries as binaries_module
from kaiwo_sandbox import generations, teardown
from kaiwo_sandbox import nodes as nodes_module
from kaiwo_sandbox.binaries import sources
from kaiwo_sandbox.failures import errors_as_failures
from kaiwo_sandbox.sandbox import DEFAULT_NAME, Sandbox

if TYPE_CHECKING:
    from kaiwo_sandbox.status import SandboxStatus


class _Group(click.Group):
    """A command group that reports errors of the sandbox without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        with errors_as_failures():
            return super().invoke(ctx)


def _progress(line: str) -> None:
    kit.say(line)


name_option = click.option(
    "--name", default=DEFAULT_NAME, show_default=True, help="Name of the sandbox; several can run at once."
)


@click.group(cls=_Group)
def sandbox() -> None:
    """Run a Kubernetes control plane with fake GPU nodes on this machine.

    \b
      kaiwo sandbox up --with kueue    start one with Kueue, and print its KUBECONFIG
      eval "$(kaiwo sandbox env)"      let kubectl and kaiwo use it
      kaiwo sandbox down               stop it

    It needs no containers and no root. The nodes run no containers either: annotations on pods set how long
    they run and how they end (see 'kaiwo sandbox up --help').
    """


def _addon_names(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(addon.name for addon in addons_module.load(filter(None, value.split(","))))


with_option = click.option(
    "--with",
    "addons",
    default="",
    callback=_addon_names,
    metavar="LIST",
    help=f"Addons to start, separated by commas: {', '.join(addons_module.ADDONS)}.",
)
binaries_option = click.option(
    "--binaries",
    type=click.Path(path_type=Path),
    help="Directory of programs, used before all other sources. [env: KUBEBUILDER_ASSETS]",
)
generation_option = click.option(
    "--generation",
    type=click.Choice(list(generations.GENERATIONS)),
    default=generations.NEWER.name,
    show_default=True,
    help="Releases of the addons, on the same Kubernetes.",
)


_UP_HELP = """Start a sandbox and print its KUBECONFIG.

Annotations on a pod (or a pod template) control the simulation of its containers:

\b
  kaiwo-sandbox/start-delay: 5s          time from scheduling to start
  kaiwo-sandbox/run-time: 2s             time from start to end
  kaiwo-sandbox/exit-code: "3"           exit code
  kaiwo-sandbox/hold: "true"             do not start until the annotation is removed
  kaiwo-sandbox/forever: "true"          never end
  kaiwo-sandbox/image-pull-error: TEXT   the image cannot be pulled
  kaiwo-sandbox/start-error: TEXT        the runtime cannot start the containers

Annotations on a RayJob or RayService control the simulation of Ray:

\b
  kaiwo-sandbox/ray-run-time: 2s           time from the start of the job's submitter to the end of the job
  kaiwo-sandbox/ray-job-status: FAILED     final status of the job
  kaiwo-sandbox/ray-app-status: UNHEALTHY  status of all Serve applications
  kaiwo-sandbox/ray-message: TEXT          message of the job or the applications
"""
"""Help of `up`; the character \\b keeps the line breaks of a paragraph."""


@sandbox.command(help=_UP_HELP)
@name_option
@click.option(
    "--nodes",
    default=nodes_module.DEFAULT_PRESET,
    show_default=True,
    metavar="PRESET|FILE",
    help=f"Fake nodes: {', '.join(nodes_module.PRESETS)}, or a YAML file with Node objects.",
)
@with_option
@generation_option
@click.option(
    "--real-node",
    is_flag=True,
    help="Add a node on which containers really run. It needs root and Debian packages.",
)
@binaries_option
def up(
    name: str,
    *,
    nodes: str,
    addons: tuple[str, ...],
    generation: str,
    real_node: bool,
    binaries: Path | None,
) -> None:
    """Start a sandbox and print its KUBECONFIG."""
    started = time.monotonic()
    running = Sandbox.up(
        name,
        nodes=nodes,
        addons=addons,
        generation=generation,
        real_node=real_node,
        binaries=binaries,
        progress=_progress,
    )
    if kit.settings().output:
        kit.emit([_document(running.status())], one=True)
    else:
        click.echo(f"export KUBECONFIG={running.kubeconfig}")
    flag = "" if name == DEFAULT_NAME else f" --name {name}"
    _progress(f'sandbox "{name}" is ready ({time.monotonic() - started:.1f} s)')
    _progress(f"hint: stop it with kaiwo sandbox down{flag}")


@sandbox.command()
@name_option
@click.option("--all", "everything", is_flag=True, help="All sandboxes of this user.")
def down(name: str, everything: bool) -> None:
    """Stop a sandbox and remove all of its files."""
    names = Sandbox.names() if everything else [name]
    for each in names:
        existed = teardown.down(each)
        _progress(f'sandbox "{each}" deleted' if existed else f'sandbox "{each}" not found; nothing to do')


@sandbox.command()
@name_option
def reset(name: str) -> None:
    """Restore the state right after 'up', which takes seconds."""
    started = time.monotonic()
    _existing(name).reset()
    _progress(f'sandbox "{name}" reset ({time.monotonic() - started:.1f} s)')
    _progress("hint: restart its clients, because resource versions went back")


@sandbox.command()
@click.option("--name", help="Only the sandbox of this name.")
def status(name: str | None) -> None:
    """List the running sandboxes and their programs."""
    if name is None:
        every = (Sandbox.find(each) for each in Sandbox.names())
        found = [running.status() for running in every if running is not None]
    else:
        found = [_existing(name).status()]
    if kit.settings().output not in {None, "table", "wide"}:
        kit.emit([_document(each) for each in found])
    elif found:
        for each in found:
            _print(each)
    else:
        _progress("no sandbox is running")
        _progress("hint: start one with kaiwo sandbox up")


def _document(each: SandboxStatus) -> dict[str, Any]:
    """The status as a document for `-o`; `-o name` prints `metadata.name`."""
    fields = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(each).items()}
    return {"kind": "Sandbox", "metadata": {"name": each.name}, **fields}


def _print(each: SandboxStatus) -> None:
    total = sum(process.memory for process in each.processes) >> 20
    state = "ready" if each.ready else "not ready"
    versions = generations.generation(each.generation).versions
    extra = f", with {', '.join(f'{name} {versions[name]}' for name in each.addons)}" if each.addons else ""
    click.echo(f"{each.name}: {state}, {each.url}, {total} MiB{extra}")
    click.echo(f"  kubeconfig  {each.kubeconfig}")
    click.echo(f"  logs        {each.directory / 'logs'}")
    for process in each.processes:
        memory = f"{process.memory >> 20} MiB" if process.alive else "exited"
        click.echo(f"  {process.name:<24} pid {process.pid:<8} {memory}")
    click.echo("  where the programs came from")
    for program, source in each.sources.items():
        click.echo(f"    {program:<24} {source}")


@sandbox.command()
@name_option
def env(name: str) -> None:
    """Print a shell command that sets KUBECONFIG.

    Use it as: eval "$(kaiwo sandbox env)"
    """
    click.echo(f"export KUBECONFIG={_existing(name).kubeconfig}")


@sandbox.command()
@click.option(
    "--with",
    "addons",
    default=",".join(addons_module.ADDONS),
    show_default=True,
    callback=_addon_names,
    metavar="LIST",
    help="Addons to build as well, separated by commas; '' for none.",
)
@generation_option
@click.option("--real-node", is_flag=True, help="Also the programs of a real node.")
@click.option("--helm", is_flag=True, help="Also Helm, which the tests of the chart need.")
@binaries_option
def build(
    addons: tuple[str, ...], *, generation: str, real_node: bool, helm: bool, binaries: Path | None
) -> None:
    """Find the programs in the cache, download or build them, and say where each came from.

    With -o yaml it prints the images and their digests. This is a file for KAIWO_SANDBOX_IMAGES, which makes
    the digests mandatory.
    """
    found = binaries_module.ensure(
        addons, directory=binaries, generation=generation, real_node=real_node, progress=_progress
    )
    for program, path in sorted(found.programs.items()):
        _progress(f"{program:<24} {path}")
        _progress(f"{'':<24} {sources.describe(program, path)}")
    if helm:
        _progress(f"{'helm':<24} {binaries_module.ensure_helm(_progress)}")
    if kit.settings().output:
        records = {
            program: record
            for program, path in sorted(found.programs.items())
            if (record := sources.image_record(program, path)) is not None
        }
        kit.emit([{"kind": "SandboxImages", "metadata": {"name": generation}, "programs": records}], one=True)


def _existing(name: str) -> Sandbox:
    running = Sandbox.find(name)
    if running is None:
        raise kit.Failure(
            f'sandbox "{name}" is not running',
            f"start it with kaiwo sandbox up --name {name}",
            code=kit.NOT_FOUND,
        )
    return running
