"""`kaiwo sandbox`: up, down, status, env, reset, build."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import kit
from kaiwo_sandbox import addons as addons_module
from kaiwo_sandbox import binaries as binaries_module
from kaiwo_sandbox import catalogue
from kaiwo_sandbox import nodes as nodes_module
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.sandbox import DEFAULT_NAME, Sandbox
from kaiwo_sandbox.sandbox import down as take_down

if TYPE_CHECKING:
    from kaiwo_sandbox.sandbox import Status


class _Group(click.Group):
    """A group whose commands show a sandbox's error as text, and never as a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was called."""
        try:
            return super().invoke(ctx)
        except SandboxError as error:
            raise kit.Failure(f"{error.what} {error.why}".strip(), error.next_step) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            used = error.filename or "a file or connection"
            raise kit.Failure(
                f"the sandbox could not use {used}: {error.strerror or error}",
                "check the disk and the permissions of `~/.cache/kaiwo` and `~/.local/state/kaiwo`",
            ) from error


def _say(line: str) -> None:
    kit.say(line)


name_option = click.option(
    "--name", default=DEFAULT_NAME, show_default=True, help="Which sandbox; several can run at once."
)


@click.group(cls=_Group)
def sandbox() -> None:
    """A real Kubernetes control plane on this machine, with fake GPU nodes.

    Needs no containers and no root. Nothing is computed on the nodes: annotations on pods say how long they
    seem to run and how they end (see 'kaiwo sandbox up --help').
    """


def _addon_names(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(addon.name for addon in addons_module.load(filter(None, value.split(","))))


with_option = click.option(
    "--with",
    "addons",
    default="",
    callback=_addon_names,
    metavar="LIST",
    help=f"Controllers to start as well, separated by commas: {', '.join(addons_module.ADDONS)}.",
)
binaries_option = click.option(
    "--binaries",
    type=click.Path(path_type=Path),
    help="Take programs from this directory first. [env: KUBEBUILDER_ASSETS]",
)
generation_option = click.option(
    "--generation",
    type=click.Choice(list(catalogue.GENERATIONS)),
    default=catalogue.NEWER.name,
    show_default=True,
    help="Which releases of these controllers, on the same Kubernetes.",
)


_UP_HELP = """Start a sandbox and print its KUBECONFIG.

Annotations on a pod (or a pod template) drive what its fake node does with it:

\b
  kaiwo-sandbox/start-delay: 5s          containers start that much later
  kaiwo-sandbox/run-time: 2s             and end that long after they started
  kaiwo-sandbox/exit-code: "3"           with that code
  kaiwo-sandbox/hold: "true"             they do not start until the annotation is removed
  kaiwo-sandbox/forever: "true"          they never end
  kaiwo-sandbox/image-pull-error: TEXT   the image cannot be pulled

On a RayJob or RayService they say how Ray seems to do:

\b
  kaiwo-sandbox/ray-run-time: 2s           the job ends that long after its submitter started
  kaiwo-sandbox/ray-job-status: FAILED     with that status
  kaiwo-sandbox/ray-app-status: UNHEALTHY  all Serve applications have that status
  kaiwo-sandbox/ray-message: TEXT          what Ray says about it
"""
"""The character \\b keeps the lines of a paragraph apart."""


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
@binaries_option
def up(name: str, nodes: str, addons: tuple[str, ...], generation: str, binaries: Path | None) -> None:
    """Start a sandbox and print its KUBECONFIG."""
    started = time.monotonic()
    running = Sandbox.up(name, nodes=nodes, addons=addons, generation=generation, binaries=binaries, say=_say)
    if kit.settings().output:
        kit.emit([_document(running.status())], one=True)
    else:
        click.echo(f"export KUBECONFIG={running.kubeconfig}")
    flag = "" if name == DEFAULT_NAME else f" --name {name}"
    _say(f"The sandbox {name!r} is ready after {time.monotonic() - started:.1f} s.")
    _say(f"Stop it with `kaiwo sandbox down{flag}`.")


@sandbox.command()
@name_option
@click.option("--all", "everything", is_flag=True, help="Every sandbox of this user.")
def down(name: str, everything: bool) -> None:
    """Stop a sandbox and remove all of its files."""
    names = Sandbox.names() if everything else [name]
    for each in names:
        found = take_down(each)
        _say(f"The sandbox {each!r} is gone." if found else f"There is no sandbox {each!r}; nothing to do.")


@sandbox.command()
@name_option
def reset(name: str) -> None:
    """Remove all objects made since 'up', in seconds."""
    started = time.monotonic()
    _existing(name).reset()
    _say(f"Reset in {time.monotonic() - started:.1f} s. Restart programs that watch it: time went back.")


@sandbox.command()
def status() -> None:
    """Show which sandboxes run, and their programs."""
    found = [running.status() for name in Sandbox.names() if (running := Sandbox.find(name)) is not None]
    if kit.settings().output not in {None, "table", "wide"}:
        kit.emit([_document(each) for each in found])
    elif found:
        for each in found:
            _print(each)
    else:
        _say("No sandbox is up. Start one with `kaiwo sandbox up`.")


def _document(each: Status) -> dict[str, Any]:
    """A sandbox for programs; `metadata.name` is what `-o name` prints."""
    fields = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(each).items()}
    return {"kind": "Sandbox", "metadata": {"name": each.name}, **fields}


def _print(each: Status) -> None:
    total = sum(process.memory for process in each.processes) >> 20
    state = "ready" if each.ready else "not ready"
    versions = catalogue.generation(each.generation).versions
    extra = f", with {', '.join(f'{name} {versions[name]}' for name in each.addons)}" if each.addons else ""
    click.echo(f"{each.name}: {state}, {each.url}, {total} MiB{extra}")
    click.echo(f"  kubeconfig  {each.kubeconfig}")
    click.echo(f"  logs        {each.directory / 'logs'}")
    for process in each.processes:
        memory = f"{process.memory >> 20} MiB" if process.alive else "ended"
        click.echo(f"  {process.name:<24} pid {process.pid:<8} {memory}")


@sandbox.command()
@name_option
def env(name: str) -> None:
    """Print the export of KUBECONFIG, for the shell.

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
    help="Controllers whose programs are wanted as well; '' for none.",
)
@generation_option
@binaries_option
def build(addons: tuple[str, ...], generation: str, binaries: Path | None) -> None:
    """Make sure that the programs are there."""
    found = binaries_module.ensure(addons, directory=binaries, generation=generation, say=_say)
    for program, path in sorted(found.programs.items()):
        _say(f"{program:<24} {path}")


def _existing(name: str) -> Sandbox:
    running = Sandbox.find(name)
    if running is None:
        raise kit.Failure(
            f"the sandbox {name!r} is not up", f"kaiwo sandbox up --name {name}", code=kit.NOT_FOUND
        )
    return running
