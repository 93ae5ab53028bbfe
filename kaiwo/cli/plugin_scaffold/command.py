"""``kaiwo plugin new``."""

from __future__ import annotations

from pathlib import Path

import click

from kaiwo.cli import kit
from kaiwo.cli.plugin_scaffold.names import KINDS, ScaffoldError


@click.command("new", short_help="Write the distribution of a new plugin.")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory of the new plugin; by default kaiwo-NAME.",
)
@click.option("--dry-run", is_flag=True, help="Print the files that would be written, and write nothing.")
def new(kind: str, name: str, directory: Path | None, dry_run: bool) -> None:
    """Write a new plugin: a distribution with tests, types, a README and a sample.

    \b
      vendor     GPUs of a vendor that Kaiwo does not know
      source     downloads before a workload starts
      backend    workloads as objects of another kind
      queue      a queue system that decides when workloads start
      rule       a cause of failures that kaiwo why explains
      listener   code that is called when a status changes
      command    a command of kaiwo

    Its tests pass as they are. Change them with the code: they say what Kaiwo relies on.
    """
    from kaiwo.cli.plugin_scaffold.create import check_folder, check_name, new_plugin, write

    try:
        names, files = new_plugin(kind, name)
    except ScaffoldError as error:
        raise kit.Failure(str(error), error.next_step, code=kit.USAGE) from error
    try:
        check_name(kind, names, kit.plugins())
        folder = directory or Path(names.distribution)
        check_folder(folder)
        if not dry_run:
            write(folder, files)
    except ScaffoldError as error:
        raise kit.Failure(str(error), error.next_step) from error
    for path in files:
        click.echo(folder / path)
    if not dry_run:
        kit.say(f"hint: cd {folder} && python -m pytest")
