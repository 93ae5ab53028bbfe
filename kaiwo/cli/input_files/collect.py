"""What ``submit`` and ``plan`` share: reading manifests, applying flags and kaiwoconfig.yaml, checking."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from kaiwo.cli import kit, user_config
from kaiwo.cli.input_files import overrides
from kaiwo.cli.input_files.checking import check
from kaiwo.cli.input_files.workload_files import InvalidInput, in_order, read, twice
from kaiwo.cli.options import complete_files, one_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo.cli.input_files.workload_files import WorkloadFile
    from kaiwo.plugin.registry import Plugins

F = TypeVar("F", bound="Callable[..., object]")

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""What the API server makes the end of a generated name of: no vowels, nothing that looks alike."""

_OPTIONS = (
    click.option(
        "-f", "--filename", "sources", multiple=True, required=True, metavar="FILE|DIR|-",
        shell_complete=complete_files,
        help="Files, directories, - for standard input; may be given several times.",
    ),
    click.option("--user", metavar="NAME", help="Owner of the workloads, usually an e-mail address."),
    click.option("--queue", metavar="NAME", help="Queue to wait in (spec.clusterQueue)."),
    click.option(
        "--set", "sets", multiple=True, metavar="FIELD=VALUE",
        help="Change a field, for example gpus=4 or env[0].value=x; an empty value removes it.",
    ),
    click.option(
        "--config", metavar="FILE", shell_complete=complete_files,
        help="kaiwoconfig.yaml (also: KAIWOCONFIG).",
    ),
)  # fmt: skip


def options(command: F) -> F:
    """Add the options that say what is meant; a command passes them on as `InputRequest`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """The values of `options`.

    Attributes:
        sources: ``-f``.
        user: ``--user``.
        queue: ``--queue``.
        sets: ``--set``.
        config: ``--config``.
    """

    sources: Sequence[str]
    user: str | None
    queue: str | None
    sets: Sequence[str]
    config: str | None


def random_tail() -> str:
    """The end of a generated name, as the API server makes it."""
    return "".join(secrets.choice(_LETTERS) for _ in range(5))


def take(
    request: InputRequest,
    plugins: Plugins,
    context_namespace: Callable[[], str],
    consequence: str,
    tail: Callable[[], str] = random_tail,
) -> list[WorkloadFile]:
    """Read, change and check everything.

    Args:
        request: what the user gave.
        plugins: what contributes fields.
        context_namespace: asked when neither a flag, a manifest nor kaiwoconfig.yaml names a namespace.
        consequence: what did not happen when something is wrong.
        tail: ends names that are to be generated: who sends by name cannot leave that to the API server.

    Raises:
        Refused: every problem of every manifest.
        Failure: a flag or kaiwoconfig.yaml that cannot be used.
    """
    one_namespace()
    config = user_config.load(request.config)
    assignments = overrides.assignments(request.sets)
    manifests, complaints = read(request.sources)
    overrides.override(
        manifests,
        user=request.user,
        queue=request.queue,
        namespace=kit.settings().namespace,
        config=config,
        sets=assignments,
    )
    kit.warn_broken(plugins)
    complaints += twice(manifests)
    from kaiwo.api.metadata_checks import generated
    from kaiwo.api.validate import Validator

    complaints += check(manifests, Validator(plugins.fields(), plugins.settings_models()), plugins)
    if complaints:
        raise InvalidInput(in_order(complaints, request.sources), consequence)
    for manifest in manifests:
        base = manifest.metadata.pop("generateName", None)
        if not manifest.name:
            manifest.metadata["name"] = generated(base, tail())
    homeless = [manifest for manifest in manifests if not manifest.metadata.get("namespace")]
    namespace = context_namespace() if homeless else ""
    for manifest in homeless:
        manifest.metadata["namespace"] = namespace
    return manifests
