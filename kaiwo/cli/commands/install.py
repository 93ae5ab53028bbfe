"""``kaiwo install``: write what ``kaiwo manifests`` prints into the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaiwo.cli import cluster_installation, kit, options, rendering
from kaiwo.cli.confirmation import confirm_writing
from kaiwo.cli.rendering_options import RenderingOptions, rendering_options
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.installing import InstallChange


@click.command()
@rendering_options
@click.option("--force-conflicts", is_flag=True, help="Overwrite fields that somebody else has changed.")
@click.option("--dry-run", is_flag=True, help="Show what would be written.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def install(*, force_conflicts: bool, dry_run: bool, yes: bool, **given: Any) -> None:
    """Install Kaiwo in the cluster, or upgrade it: CRDs, roles, the operator, the scheduler.

    \b
      kaiwo install --image registry.example.com/ml/kaiwo-operator:0.1.0
      kaiwo install --plugins batch_job,kueue,gpu_amd --dry-run

    The same as kaiwo manifests --from-cluster | kubectl apply --server-side -f -, after a question. Nothing
    is removed; what an earlier installation has left is named. kaiwo uninstall removes everything.
    """
    from kaiwo.cli.installing import apply_changes, read_changes
    from kaiwo.install.render import PARTS

    options.one_namespace()
    parts = ("crds", *PARTS)
    request = RenderingOptions(**given)
    installation = rendering.installation(request, shard=None, parts=parts)
    found = cluster_installation.read_installation(installation.namespace)
    cluster_installation.warn_of_version(installation.scheduler_image, found.version)
    made = rendering.render(request, installation, parts, found.crds, found.config)
    cluster_installation.warn_of_left_out(found, made.plugins)
    cluster_installation.warn_of_leftovers(found, [manifest.obj for manifest in made.rest])
    with kit.cluster() as cluster:
        changes = cluster.run(lambda client: read_changes(client, made.objects, force=force_conflicts))
        pending = [change for change in changes if change.action != "unchanged"]
        if dry_run:
            _show(pending, err=False)
        elif pending:
            if not yes:
                confirm_writing("kaiwo install", len(pending), lambda: _show(pending, err=True))
            cluster.run(lambda client: apply_changes(client, changes, kit.say, force=force_conflicts))
    if not pending:
        kit.say("nothing to write; everything is as rendered")
    elif not dry_run:
        kit.say("installed; kaiwo doctor checks it, kaiwo init sets up the default queue")


def _show(changes: Sequence[InstallChange], *, err: bool) -> None:
    for change in changes:
        click.echo(clean(f"{change.action} {change.name}"), err=err)
