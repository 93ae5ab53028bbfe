"""``kaiwo why``: one verdict about a workload, the evidence for it, and the chain of objects behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.client import user_config
from kaiwo.client.kinds import WORKLOADS

if TYPE_CHECKING:
    from kaiwo.client.why import Verdict
    from kaiwo.engine.client import Client


_CONNECTIONS = 3
"""A dozen small requests are answered in milliseconds; more handshakes would cost more than they save."""


@click.command()
@click.argument("name", shell_complete=kit.complete_names(WORKLOADS))
@options.config_option
def why(*, name: str, config: str | None) -> None:
    """Say why a workload does not run, waits or failed, and what to do next.

    \b
      kaiwo why train
      kaiwo why job/train -n team
      kaiwo why service/chat -o json

    NAME is train, job/train or service/chat. The codes are explained in docs/status.md.
    """
    options.one_namespace()
    options.use_configured_namespace(user_config.load(config))
    with kit.cluster(connections=_CONNECTIONS) as cluster:
        from kaiwo.cli.output import verdict_page
        from kaiwo.client.lookup import find_one
        from kaiwo.client.why import why as read_verdict

        async def read(api: Client) -> Verdict:
            _, workload = await find_one(api, cluster.namespace, name)
            return await read_verdict(api, kit.plugins, workload)

        verdict = cluster.run(read)
    match kit.settings().output:
        case "json" | "yaml" as form:
            import msgspec

            kit.dump(msgspec.to_builtins(verdict), form)
        case "name":
            click.echo(kit.clean(verdict.code))
        case _:
            verdict_page.write_verdict(verdict)
