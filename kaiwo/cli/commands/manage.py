"""``kaiwo manage``: the workloads on a full screen, live, with the keys for what is done to them."""

from __future__ import annotations

import logging
import os
import sys

import click

from kaiwo.cli import kit, options
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.client import user_config


@click.command()
@click.option("--user", metavar="NAME", help="Whose workloads are shown (default: kaiwoconfig.yaml).")
@click.option("--all-users", is_flag=True, help="Everybody's.")
@options.config_option
def manage(*, user: str | None, all_users: bool, config: str | None) -> None:
    """Show the workloads on a full screen: errors first, live, with details, logs, shell, delete.

    \b
      kaiwo manage                the context's namespace
      kaiwo manage -n team        another one
      kaiwo manage -A             all of them

    Keys: Enter details, l logs, e shell, f forward a port, d delete, / filter, ? help, q quit.
    """
    if user and all_users:
        raise Failure("--user and --all-users exclude each other", "give one of them", code=USAGE)
    # Textual draws on standard error.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        what = "kaiwo manage needs a terminal for standard input, output and error"
        raise Failure(what, "kaiwo list -w", code=USAGE)
    settled = user_config.load(config)
    options.use_configured_namespace(settled)
    reached = kit.connection()
    chosen = kit.settings()
    namespace = None if chosen.all_namespaces else chosen.namespace or reached.namespace
    if not chosen.color:
        os.environ["NO_COLOR"] = "1"
    # What the engine logs would be written across the screen; the state line says what matters.
    logging.getLogger("kaiwo").addHandler(logging.NullHandler())
    logging.getLogger("kaiwo").propagate = False
    from kaiwo.cli.manage.app import ManageApp
    from kaiwo.cli.manage.source import ClusterSource

    app = ManageApp(
        ClusterSource(reached, namespace),
        namespace=namespace,
        user=None if all_users else user or settled.user,
    )
    app.run()
    if app.failure is not None:
        raise app.failure
