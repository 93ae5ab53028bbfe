"""``kaiwo why``: one verdict about a workload, the evidence for it, and the chain of objects behind it."""

from __future__ import annotations

import click

from kaiwo.cli import kit, options, user_config
from kaiwo.cli.workload_kinds import WORKLOADS
from kaiwo.cli.workload_lookup import find_one


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
    user_config.use_configured_namespace(user_config.load(config))
    with kit.cluster() as cluster:
        _, workload = find_one(cluster, name)
        from kaiwo.cli.output import verdict_page
        from kaiwo.client.why import why as read_verdict

        verdict = cluster.run(lambda client: read_verdict(client, kit.plugins, workload))
    match kit.settings().output:
        case "json" | "yaml" as form:
            import msgspec

            kit.dump(msgspec.to_builtins(verdict), form)
        case "name":
            click.echo(kit.clean(verdict.code))
        case _:
            verdict_page.write_verdict(verdict)
