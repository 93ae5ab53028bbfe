"""``kaiwo version``."""

from __future__ import annotations

import platform
from importlib.metadata import version as distribution_version

import click

from kaiwo.cli import kit
from kaiwo.cli.terminal import clean


@click.command()
@click.option("--client", is_flag=True, help="Do not ask the cluster.")
def version(*, client: bool) -> None:
    """Print the version of this command and, when it answers, of the cluster.

    \b
      kaiwo version
      kaiwo version --client -o json
    """
    found = {"kaiwo": distribution_version("kaiwo"), "python": platform.python_version()}
    if not client:
        kubernetes = _cluster()
        if kubernetes:
            found["kubernetes"] = kubernetes
    form = kit.settings().output
    if form in ("json", "yaml"):
        kit.dump(found, form)
        return
    for name, number in found.items():
        click.echo(clean(f"{name} {number}"))


def _cluster() -> str:
    """The API server's version, empty when it does not answer."""
    from kaiwo.engine.errors import EngineError

    try:
        with kit.cluster(timeout=5.0) as cluster:
            return str(cluster.get_json("/version").get("gitVersion", ""))
    except EngineError as error:
        kit.say(f"warning: version of the cluster unknown: {error}")
        return ""
