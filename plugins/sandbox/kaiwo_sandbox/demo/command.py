"""The command `kaiwo demo`."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import click
import yaml

from kaiwo.cli import kit
from kaiwo_sandbox import binaries, teardown
from kaiwo_sandbox.demo import download_servers, texts
from kaiwo_sandbox.demo.display import Display
from kaiwo_sandbox.demo.environment import SANDBOX, DemoEnvironment
from kaiwo_sandbox.demo.scenario import BARE, FULL, FULL_WITH_DOWNLOADS, JOINING_NODE, REAL
from kaiwo_sandbox.demo.scenario_run import ScenarioRun
from kaiwo_sandbox.failures import errors_as_failures
from kaiwo_sandbox.real_node import requirements
from kaiwo_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from kaiwo_sandbox.demo.scenario import Scenario

_POLL_SECONDS = 0.5
_TIMEOUT_SECONDS = 120.0
_READING_SECONDS = 2.0
"""Pause before the node joins, so that a reader sees the job that waits for it."""


@click.command()
@click.option("--bare", is_flag=True, help="Kubernetes only: no queues, no services, no Ray.")
@click.option(
    "--real-node", is_flag=True, help="Containers really run, on a node of this machine; needs root."
)
@click.option("--keep", is_flag=True, help="Leave control plane and operator running, to explore them.")
@click.option("--stop", is_flag=True, help="Stop what an earlier --keep left running.")
def demo(*, bare: bool, real_node: bool, keep: bool, stop: bool) -> int:
    """See workloads run, queue, fail and recover on a control plane with fake GPU nodes.

    \b
      kaiwo demo           with Kueue and KubeRay; everything is removed at the end
      kaiwo demo --bare    jobs alone, which starts faster
      kaiwo demo --keep    leave it running, to explore; --stop stops it
    """
    if bare and real_node:
        raise click.UsageError("--bare and --real-node cannot be used together")
    with errors_as_failures():
        return _stop() if stop else _run(_scenario(bare=bare, real_node=real_node), keep=keep)


def _scenario(*, bare: bool, real_node: bool) -> Scenario:
    """The scenario that the options select, without addons if no source can have these.

    Raises:
        SandboxError: this machine cannot run a real node.
    """
    if real_node:
        requirements.check()
        return REAL
    if bare:
        return BARE
    reason = binaries.why_no_addons(FULL.addons)
    if reason:
        kit.say(f"warning: the demo runs without {', '.join(FULL.addons)}: {reason}")
        kit.say("hint: set GOPROXY to a Go module proxy, or install Go 1.26 or newer")
        return BARE
    return FULL_WITH_DOWNLOADS if download_servers.available() else FULL


def _run(scenario: Scenario, *, keep: bool) -> int:
    if Sandbox.find(SANDBOX) is not None:
        raise kit.Failure("a previous demo is still running", "stop it with kaiwo demo --stop")
    _require_plugins(scenario)
    display = Display(color=kit.settings().color)
    display.print(texts.introduction(scenario, keep=keep))
    environment: DemoEnvironment | None = None
    kept = False
    with _termination_as_interrupt():
        try:
            environment = _start_control_plane(display, scenario, keep=keep)
            _prepare(display, environment, scenario)
            run = _watch(display, environment, scenario)
            pages = _explain(display, environment, scenario)
            if keep:
                environment.stop_downloads()
                kept = True
        finally:
            if environment is not None and not kept:
                with display.step(
                    "removing operator and control plane", "operator and control plane removed"
                ):
                    environment.remove()
    steps = texts.next_steps(environment, scenario, keep=keep)
    for line in (*texts.summary(run), *texts.explanations(pages), *steps):
        display.print(line)
    return kit.OK if run.finished() else kit.FAILED


def _require_plugins(scenario: Scenario) -> None:
    """Check that the plugins of the scenario are installed.

    Raises:
        Failure: some are not.
    """
    installed = entry_points(group="kaiwo.plugins").names
    missing = [name for name in scenario.plugins if name not in installed]
    if missing:
        raise kit.Failure(
            f"plugins not installed: {', '.join(missing)}",
            'install them with pip install "kaiwo-sandbox[demo]"',
        )


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP as Ctrl-C, so that everything is removed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    previous = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)


def _start_control_plane(display: Display, scenario: Scenario, *, keep: bool) -> DemoEnvironment:
    addons = f" and {', '.join(scenario.addons)}" if scenario.addons else ""
    nodes = (
        "control plane with a real node: it counts 8 AMD MI300X"
        if scenario.real_node
        else "control plane with fake nodes: 2 with 8 AMD MI300X, 1 without GPUs"
    )
    with display.step(f"starting the control plane{addons}", nodes):
        return DemoEnvironment.start(scenario, owned=not keep, progress=display.detail)


def _prepare(display: Display, environment: DemoEnvironment, scenario: Scenario) -> None:
    """Install Kaiwo and submit the first workloads."""
    with display.step("installing Kaiwo's CRDs", "CRDs of Kaiwo installed"):
        environment.install_crds()
        environment.configure()
    with display.step("starting the operator", "operator started (kaiwo operator run)"):
        environment.start_operator()
    if scenario.queues:
        queues = "two queues in a cohort: kaiwo (6 AMD, 8 NVIDIA), research (2 AMD)"
        if not scenario.real_node:
            queues = "queues in a cohort: kaiwo (11 AMD, 8 NVIDIA), research (4 AMD); evaluation (1 AMD)"
        with display.step("creating the queues of Kueue", queues):
            environment.wait_for_queues()
    if scenario.downloads:
        with display.step("starting the download servers", "S3 store and git server started"):
            environment.serve_downloads()
    command = " ".join(("kaiwo submit", *(f"-f {directory.name}" for directory in scenario.files)))
    with display.step(command, command):
        created = environment.submit(*scenario.files)
    for line in created:
        display.detail(line)
    if scenario.plain:
        command = f"kubectl create -f {scenario.plain.name}"
        with display.step(command, command):
            environment.create_jobs(scenario.plain)
    display.print()


def _watch(display: Display, environment: DemoEnvironment, scenario: Scenario) -> ScenarioRun:
    """Watch the workloads until all of them are done or the timeout expires."""
    run = ScenarioRun(scenario)
    # Later submissions run in a thread, so that the table stays up to date.
    with ThreadPoolExecutor(1) as pool, display.watching(run):
        competing: Future[list[str]] | None = None
        downloads: Future[list[str]] | None = None
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        join_at: float | None = None
        while not run.finished() and time.monotonic() < deadline:
            display.update(run, run.observe(environment.list_workloads()))
            if scenario.competing and run.competing_may_be_submitted():
                run.competing_submitted = True
                display.announce(f"kaiwo submit -f {scenario.competing.name}: more jobs for the same GPUs")
                competing = pool.submit(environment.submit, scenario.competing)
            if competing is not None and competing.done():
                competing.result()
                if scenario.downloads and downloads is None:
                    # After the competing jobs, which must arrive while the GPUs are in use.
                    display.announce(
                        f"kaiwo submit -f {scenario.downloads.name}: a job that downloads data and code"
                    )
                    downloads = pool.submit(environment.submit_downloads, scenario.downloads)
            if downloads is not None and downloads.done():
                downloads.result()
            if run.node_may_join():
                join_at = join_at or time.monotonic() + _READING_SECONDS
                if time.monotonic() >= join_at:
                    run.node_joined = True
                    node = yaml.safe_load(JOINING_NODE.read_text(encoding="utf-8"))
                    environment.sandbox.add_node(node, wait=False)
                    display.announce("the demo adds a node with 8 NVIDIA H100")
            time.sleep(_POLL_SECONDS)
    return run


def _explain(display: Display, environment: DemoEnvironment, scenario: Scenario) -> dict[str, str]:
    """What `kaiwo why` says of the workloads in trouble, by name."""
    names = [workload.name for workload in scenario.workloads if workload.in_trouble]
    command = f"kaiwo why, for {len(names)} workloads in trouble"
    with display.step(command, command), ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(environment.explain, names), strict=True))


def _stop() -> int:
    existed = teardown.down(SANDBOX)
    kit.say("demo stopped" if existed else "no demo is running; nothing to do")
    return kit.OK
