"""The input of ``submit`` and ``plan``: read manifests, apply flags and kaiwoconfig.yaml, validate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from kaiwo.cli import kit
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.cli.input_files import overrides
from kaiwo.cli.input_files.file_reading import STDIN_NAMES, read_files
from kaiwo.cli.input_files.problems import STDIN, InvalidInput, in_order
from kaiwo.cli.input_files.validation import check_workloads
from kaiwo.cli.input_files.workload_file import duplicates
from kaiwo.cli.options import ShortOption, complete_files, config_option, one_namespace
from kaiwo.client import user_config
from kaiwo.client.names import random_suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo.cli.input_files.workload_file import WorkloadFile
    from kaiwo.plugin.registry import Plugins

F = TypeVar("F", bound="Callable[..., object]")

_OPTIONS = (
    click.argument("files", nargs=-1, metavar="[FILE|DIR|-]...", shell_complete=complete_files),
    click.option(
        "-f", "--filename", "--file", "sources", multiple=True, metavar="FILE|DIR|-",
        shell_complete=complete_files, cls=ShortOption,
        help="The same as FILE; may be given several times.",
    ),
    click.option("--user", metavar="NAME", help="Owner of the workloads, usually an e-mail address."),
    click.option("--queue", metavar="NAME", help="Queue to wait in (spec.clusterQueue)."),
    click.option(
        "--set", "sets", multiple=True, metavar="FIELD=VALUE",
        help="Change a field, for example gpus=4 or env[0].value=x; an empty value removes it.",
    ),
    config_option,
)  # fmt: skip


def input_options(command: F) -> F:
    """Add the options that choose and change workloads; a command passes them on as `InputOptions`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """The values of `input_options`.

    Attributes:
        sources: ``-f``.
        files: arguments, as a shell makes them of ``-f *.yaml``.
        user: ``--user``.
        queue: ``--queue``.
        sets: ``--set``.
        config: ``--config``.
    """

    sources: Sequence[str]
    files: Sequence[str]
    user: str | None
    queue: str | None
    sets: Sequence[str]
    config: str | None


def read_workloads(
    request: InputOptions,
    plugins: Plugins,
    context_namespace: Callable[[], str],
    consequence: str,
    suffix: Callable[[], str] = random_suffix,
) -> list[WorkloadFile]:
    """Read, change and check everything.

    Args:
        request: what the user gave.
        plugins: what contributes fields.
        context_namespace: called when neither a flag, a manifest nor kaiwoconfig.yaml names a namespace.
        consequence: what did not happen, for the error message.
        suffix: ends generated names, which the API server cannot generate for objects applied by name.

    Raises:
        InvalidInput: every problem of every manifest.
        Failure: a flag or kaiwoconfig.yaml that cannot be used.
    """
    one_namespace()
    named = (*request.sources, *request.files)
    command = click.get_current_context().command_path
    if not named:
        raise Failure("a file is required", f"{command} FILE, or - for standard input", code=USAGE)
    config = user_config.load(request.config)
    assignments = overrides.assignments(request.sets)
    manifests, problems = read_files(named, command=command)
    overrides.override(
        manifests,
        user=request.user,
        queue=request.queue,
        namespace=kit.settings().namespace,
        config=config,
        sets=assignments,
    )
    kit.warn_broken(plugins)
    problems += duplicates(manifests)
    from kaiwo.api.metadata_checks import generated

    problems += check_workloads(manifests, plugins.validator())
    if problems:
        sources = [STDIN if source in STDIN_NAMES else source for source in named]
        raise InvalidInput(in_order(problems, sources), consequence)
    for manifest in manifests:
        base = manifest.metadata.pop("generateName", None)
        if not manifest.name:
            manifest.metadata["name"] = generated(base, suffix())
    unplaced = [manifest for manifest in manifests if not manifest.metadata.get("namespace")]
    namespace = context_namespace() if unplaced else ""
    for manifest in unplaced:
        manifest.metadata["namespace"] = namespace
    return manifests
