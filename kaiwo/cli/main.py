"""The entry point ``kaiwo`` (for kubectl also ``kubectl-kaiwo``): the table of commands and exit codes.

Nothing is imported for ``kaiwo --help`` but click: the table knows each command's one line.
Standard output carries data, standard error everything else.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

import click

from kaiwo.cli import failures, options
from kaiwo.cli.command_group import CommandEntry, LazyGroup
from kaiwo.cli.option_completion import complete_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

COMMANDS: dict[str, CommandEntry] = {
    "submit": CommandEntry(
        "kaiwo.cli.commands.submit:submit", "Send workloads to the cluster, new or changed."
    ),
    "run": CommandEntry("kaiwo.cli.commands.run:run", "Run a command, in a copy of the working directory."),
    "list": CommandEntry("kaiwo.cli.commands.list:list_command", "List workloads, your own first."),
    "status": CommandEntry(
        "kaiwo.cli.commands.status:status", "Show one workload: state, reason, objects, pods, events."
    ),
    "describe": CommandEntry("kaiwo.cli.commands.status:status", "The same as status.", hidden=True),
    "why": CommandEntry(
        "kaiwo.cli.commands.why:why", "Say why a workload does not run, and what to do next."
    ),
    "logs": CommandEntry("kaiwo.cli.commands.logs:logs", "Print the logs of a workload's pods."),
    "exec": CommandEntry("kaiwo.cli.commands.exec:exec_command", "Run a command in a pod of a workload."),
    "port-forward": CommandEntry(
        "kaiwo.cli.commands.port_forward:port_forward", "Forward local ports to a pod of a workload."
    ),
    "monitor": CommandEntry("kaiwo.cli.commands.monitor:monitor", "Show the GPU use of a workload's pods."),
    "queue": CommandEntry("kaiwo.cli.commands.queue:queue", "Show quotas, who holds them and who waits."),
    "nodes": CommandEntry("kaiwo.cli.commands.nodes:nodes", "Show nodes: GPUs, and who uses them."),
    "report": CommandEntry(
        "kaiwo.cli.commands.report:report", "Show GPU-hours reserved, used, idle and waiting."
    ),
    "delete": CommandEntry("kaiwo.cli.commands.delete:delete", "Delete workloads."),
    "cancel": CommandEntry("kaiwo.cli.commands.delete:delete", "The same as delete.", hidden=True),
    "plan": CommandEntry(
        "kaiwo.cli.commands.plan:plan", "Show the objects that a workload would create, and why."
    ),
    "manage": CommandEntry("kaiwo.cli.commands.manage:manage", "Show the workloads on a full screen, live."),
    "ui": CommandEntry("kaiwo.cli.commands.manage:manage", "The same as manage.", hidden=True),
    "doctor": CommandEntry(
        "kaiwo.cli.commands.doctor:doctor", "Check the cluster and say how to fix what fails."
    ),
    "init": CommandEntry(
        "kaiwo.cli.commands.init:init_command", "Show the default queue set-up, and write it on yes."
    ),
    "manifests": CommandEntry(
        "kaiwo.cli.commands.manifests:manifests", "Print what an administrator installs."
    ),
    "install": CommandEntry("kaiwo.cli.commands.install:install", "Install or upgrade Kaiwo in the cluster."),
    "uninstall": CommandEntry("kaiwo.cli.commands.uninstall:uninstall", "Remove an installation, in order."),
    "plugins": CommandEntry("kaiwo.cli.commands.plugins:plugins", "List the plugins and their state."),
    "plugin": CommandEntry("kaiwo.cli.commands.plugin:plugin", "Write a plugin, and check it."),
    "operator": CommandEntry("kaiwo.cli.commands.operator:operator", "Run the operator."),
    "version": CommandEntry(
        "kaiwo.cli.commands.version:version", "Print the versions of the command and the cluster."
    ),
    "completion": CommandEntry(
        "kaiwo.cli.commands.completion:completion", "Print the shell completion script."
    ),
}
"""The host's own commands, in the order of the list."""


def _plugin_commands() -> Mapping[str, CommandEntry]:
    from kaiwo.cli import plugin_commands

    return plugin_commands.listed_commands()


def _find(name: str) -> CommandEntry | None:
    from kaiwo.cli import plugin_commands

    return plugin_commands.find_command(name)


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"kaiwo {version('kaiwo')}")
        ctx.exit()


kaiwo = LazyGroup(
    name="kaiwo",
    table=COMMANDS,
    listed=_plugin_commands,
    find=_find,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Run AI workloads on GPU clusters from one short description.

    \b
      kaiwo run --gpus 2 --image IMAGE -- python train.py    run a command, without YAML
      kaiwo submit -f job.yaml                               send a workload
      kaiwo list                                             what runs and what waits
      kaiwo why my-job                                       why it waits or failed
      kaiwo logs my-job -f                                   what it writes

    The options below work before and after a command's name.""",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_print_version,
            help="Print the version of this command.",
        )
    ],
    epilog="Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 timed out, 130 interrupted.",
)
complete_options(options.watchable(options.share(kaiwo, hidden=False)))


def program(argv0: str) -> str:
    """How the user called it: ``kaiwo``, or ``kubectl kaiwo`` through kubectl."""
    return "kubectl kaiwo" if os.path.basename(argv0).startswith("kubectl-") else "kaiwo"  # noqa: PTH119  a string


def _encode(stream: TextIO) -> None:
    """Write every text: UTF-8 to a file or pipe, as kubectl does, and what a terminal lacks as escapes."""
    if not isinstance(stream, io.TextIOWrapper):
        return
    if stream.isatty():
        stream.reconfigure(errors="backslashreplace")
    else:
        stream.reconfigure(encoding="utf-8")


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    # Python has no such stream at all when the caller closed it.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115  for as long as the process lives
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    _encode(sys.stdout)
    sys.exit(failures.run(kaiwo, list(sys.argv[1:] if args is None else args), program(sys.argv[0])))
