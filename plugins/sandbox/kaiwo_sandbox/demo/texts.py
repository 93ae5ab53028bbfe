"""The texts before and after the table of the demo."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

from kaiwo_sandbox.demo import subcommands
from kaiwo_sandbox.demo.scenario import EXTRA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo_sandbox.demo.environment import DemoEnvironment
    from kaiwo_sandbox.demo.scenario import Scenario
    from kaiwo_sandbox.demo.scenario_run import ScenarioRun

_WIDTH = 79

_INTRODUCTION = (
    "This demo starts a real Kubernetes control plane on this machine (etcd, API server, scheduler){addons} "
    "and Kaiwo's operator. It submits {summary}. The GPU nodes are fake: they report GPUs and simulate "
    "kubelets. No container runs, nothing is computed, and no GPU is needed. {downloads}It takes about a "
    "minute. The first time, it downloads the programs of the control plane or builds them, and reports that."
)
_REAL_INTRODUCTION = (
    "This demo starts a real Kubernetes control plane on this machine (etcd, API server, scheduler), Kueue, "
    "Kaiwo's operator, and a node on which containers really run (kubelet, containerd, kube-proxy). It "
    "submits {summary}. The 8 GPUs of the node are counted but do not exist, and the programs in the "
    "containers only pass the time. One node that joins later is simulated. It takes about a minute. The "
    "first time, it downloads or builds the programs of the control plane and of the node, and reports that."
)
_ADDONS = ", the controllers of Kueue, KubeRay and AppWrapper,"
_DOWNLOADS = (
    "Only the download of one job is real: the demo runs the download program as a process, with an S3 "
    "store and a git server on this machine. "
)
_REMOVED = "Everything is removed at the end; use --keep to leave it running."
_KEPT = "Everything keeps running at the end (--keep); stop it with kaiwo demo --stop."


def introduction(scenario: Scenario, *, keep: bool) -> str:
    """What the demo starts, what is simulated, and what remains."""
    template = _REAL_INTRODUCTION if scenario.real_node else _INTRODUCTION
    text = template.format(
        addons=_ADDONS if scenario.addons else "",
        summary=scenario.summary,
        downloads=_DOWNLOADS if scenario.downloads else "",
    )
    return "\n".join((*textwrap.wrap(text, _WIDTH), _KEPT if keep else _REMOVED, ""))


def summary(run: ScenarioRun) -> list[str]:
    """The lesson of each workload, and for one that is not done what is missing."""
    lines = ["", "What you saw:"]
    for workload in run.scenario.workloads:
        done = run.is_done(workload)
        lines.append(f"  {'✔' if done else '✘'} {workload.name:<13} {workload.lesson}")
        if not done:
            lines.append(f"    {run.mismatch(workload)}")
    return lines


def explanations(pages: Mapping[str, str]) -> list[str]:
    """The pages of `kaiwo why`, each below its command."""
    lines = ["", "Why the others did not complete:"]
    for name, page in pages.items():
        lines += ["", f"$ kaiwo why {name}", *page.splitlines()]
    return lines


def next_steps(environment: DemoEnvironment, scenario: Scenario, *, keep: bool) -> list[str]:
    """Commands to try next, each with its purpose."""
    commands = _after_keep(environment, scenario) if keep else _after_removal(scenario)
    lines = ["", "What to try next:"]
    for command, purpose in commands:
        lines += [f"  {command}", f"      {purpose}"]
    return lines


def _after_keep(environment: DemoEnvironment, scenario: Scenario) -> list[tuple[str, str]]:
    kaiwo, job = subcommands.name_in_shell(), subcommands.shell_path(scenario.files[0] / "1-train.yaml")
    commands = [
        (f"export KUBECONFIG={environment.sandbox.kubeconfig}", "use the cluster of the demo"),
        (f"{kaiwo} list", "all workloads, with their reasons"),
        (f"{kaiwo} status sixteen-gpus", "one workload in detail"),
        (f"{kaiwo} why chat", "the verdict on any workload, with the chain of its objects"),
        (
            f"{kaiwo} plan -f {job} --offline --explain",
            "the objects it would create, and where each value comes from",
        ),
        (f"{kaiwo} delete train --yes", f"submit it again with: {kaiwo} submit -f {job}"),
    ]
    if "ray_service" in scenario.plugins:
        ray = subcommands.shell_path(EXTRA / "ray-chat.yaml")
        commands.append((f"{kaiwo} submit -f {ray} --wait", "a service on Ray, in an AppWrapper"))
    if scenario.queues and shutil.which("kubectl"):
        commands.append(("kubectl get clusterqueues,localqueues,workloads -A", "the objects of Kueue"))
    return [
        *commands,
        (f"less {environment.operator_log}", "the log of the operator"),
        (f"{kaiwo} demo --stop", "stop everything and remove its files"),
    ]


def _after_removal(scenario: Scenario) -> list[tuple[str, str]]:
    kaiwo, job = subcommands.name_in_shell(), subcommands.shell_path(scenario.files[0] / "1-train.yaml")
    again = f"{kaiwo} demo --real-node" if scenario.real_node else f"{kaiwo} demo"
    commands = [
        (f"{again} --keep", "the same demo; it keeps running for you to explore"),
        (f"less {job}", "one of the submitted files"),
    ]
    if scenario.queues:
        commands.append(
            (
                f"less {subcommands.shell_path(scenario.queues)}",
                "the queues, as an administrator configures them",
            )
        )
    return [*commands, (f"{kaiwo} --help", "all commands")]
