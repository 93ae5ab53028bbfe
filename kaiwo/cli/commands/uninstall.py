"""``kaiwo uninstall``: remove an installation, and what the operator wrote on objects of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit, options
from kaiwo.cli.confirmation import confirm
from kaiwo.cli.duration import SECONDS
from kaiwo.cli.failures import NOT_FOUND, USAGE, Failure
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from kaiwo.cli.uninstalling.plan import AdoptedChoice, UninstallPlan, WorkloadChoice
    from kaiwo.engine.client import Client


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--workloads",
    type=click.Choice(["delete", "hand-over"]),
    help="Delete workloads with everything they own, or leave their objects running without Kaiwo.",
)
@click.option(
    "--adopted-jobs",
    type=click.Choice(["hand-back", "delete"]),
    default="hand-back",
    help="With --workloads=delete: leave Jobs that users made and Kaiwo adopted (default), or delete them.",
)
@click.option(
    "--operator-only",
    is_flag=True,
    help="Remove the programs, their roles and policies alone; workloads go on under another operator.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@click.option("--timeout", type=SECONDS, default="5m", metavar="DURATION", help="For each step (5m).")
def uninstall(
    *,
    yes: bool,
    workloads: WorkloadChoice | None,
    adopted_jobs: AdoptedChoice,
    operator_only: bool,
    dry_run: bool,
    timeout: float,
) -> None:
    """Remove the installation of a namespace (-n, default: kaiwo-system), in order.

    \b
      kaiwo uninstall --dry-run
      kaiwo uninstall --workloads=delete

    What is removed, in this order:

    \b
      1. the webhook configurations, then the operator
      2. workloads, if --workloads says how; without it nothing is removed while there are any
      3. queues that Kaiwo made; its labels, taints and annotations on nodes and namespaces
      4. the scheduler, roles, bindings and policies
      5. the CRDs, with KaiwoConfig and KaiwoQueueConfig

    Namespaces stay, and what Kaiwo did not write. While another installation is in the cluster, 3 and 5
    stay, too. Asks first. Objects of a Helm release are left to helm uninstall. An uninstallation that was
    interrupted is continued by the same command.
    """
    from kaiwo.api.installation import DEFAULT_NAMESPACE
    from kaiwo.cli.uninstalling.plan import UninstallRequest, read_plan
    from kaiwo.cli.uninstalling.run import Uninstallation

    options.one_namespace()
    if operator_only and workloads:
        raise Failure(
            "--operator-only and --workloads exclude each other: workloads stay with --operator-only",
            "give one of them",
            code=USAGE,
        )
    request = UninstallRequest(
        kit.settings().namespace or DEFAULT_NAMESPACE, workloads, operator_only, adopted_jobs
    )
    loaded = kit.plugins()
    kit.warn_broken(loaded)
    with kit.cluster() as cluster:
        plan = cluster.run(lambda client: read_plan(client, request, loaded))
        if not plan.removals() and not plan.left_to_helm:
            raise Failure(
                f"no installation of Kaiwo found in namespace {request.namespace}",
                "kubectl get deployments -A -l app.kubernetes.io/part-of=kaiwo",
                code=NOT_FOUND,
            )
        if dry_run:
            _show(plan, err=False)
            return
        if not yes and plan.removals():
            _confirm(plan)

        def removing(client: Client) -> Uninstallation:
            return Uninstallation(client, request, loaded, timeout=timeout, say=kit.say)

        cluster.run(lambda client: removing(client).run(plan))
    _say_notes(plan)


def _show(plan: UninstallPlan, *, err: bool) -> None:
    from kaiwo.cli.uninstalling.run import described

    for item in plan.removals():
        click.echo(clean(described(item)), err=err)
    _say_notes(plan)


def _say_notes(plan: UninstallPlan) -> None:
    for note in (*plan.notes, *plan.left_to_helm):
        kit.say(note)


def _confirm(plan: UninstallPlan) -> None:
    otherwise = "kaiwo uninstall --dry-run shows what would be removed, --yes removes it"
    confirm("Remove all of this?", "nothing was removed", otherwise, lambda: _show(plan, err=True))
