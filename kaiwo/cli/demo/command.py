"""``kaiwo demo``: a guided first run on a control plane of its own."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit
from kaiwo.cli.demo import remains, stores
from kaiwo.cli.demo import stage as stage_module
from kaiwo.cli.demo.board import Board
from kaiwo.cli.demo.script import BARE, FETCHING, JOBS, JOINING_NODE, MORE, NAMESPACE, QUEUES, WHOLE
from kaiwo.cli.demo.stage import Stage
from kaiwo.cli.demo.story import DemoRun
from kaiwo.cli.kinds import WORKLOADS
from kaiwo.engine.resource import NODE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from kaiwo.cli.demo.script import Script
    from kaiwo.engine.resource import Object

_ROUTINE = ("The sandbox ", "Stop it with ")
"""What the sandbox says at every start and the demo says in its own words; the rest is shown as it is."""

_WIDTH = 79
_LOOK_SECONDS = 0.5
_TIME_LIMIT = 120.0
_READING_SECONDS = 2.0
"""Between the moment when all that can end has ended and the node's arrival, for the eye."""

INTRODUCTION = (
    "A real Kubernetes control plane on this machine (etcd, API server, scheduler), {controllers}"
    "Kaiwo's operator on it, and {cast}. The GPU nodes are fake: they report GPUs and play what kubelets "
    "would do. So no container really runs, nothing is computed, and no GPU is needed. {besides}It takes "
    "less than a minute once the control plane's programs are there; the first time it may have to make "
    "them, and says so."
)
DOWNLOADED = (
    "Only the download of one job is real: instead of a kubelet the demo runs the download program on this "
    "machine, against a little S3 store and git server of its own. "
)
CONTROLLERS = "the real controllers of Kueue, KubeRay and AppWrapper, "
REMOVED = "Everything is removed at the end; --keep leaves it running."
KEPT = "It stays when the demo ends (--keep), until you run: kaiwo demo --stop"


@click.command()
@click.option("--bare", is_flag=True, help="Kubernetes alone: no queues, no services, no Ray.")
@click.option("--keep", is_flag=True, help="Leave control plane and operator running, to look around.")
@click.option("--stop", is_flag=True, help="End what an earlier --keep left running.")
def demo(*, bare: bool, keep: bool, stop: bool) -> int:
    """See workloads run, queue, fail, wait and heal on a control plane with fake GPU nodes."""
    if stop:
        return _stop()
    if remains.kept() is not None:
        raise kit.Failure("the demo of before still runs (it was started with --keep)", "kaiwo demo --stop")
    script = BARE if bare else FETCHING if stores.available() else WHOLE
    board = Board(color=kit.settings().color)
    board.say(_introduction(script, keep=keep))
    stage = Stage(script)
    with _signals():
        try:
            _build(board, stage, script)
            story = _play(board, stage, script)
            if keep:
                stage.keep()
        finally:
            if stage.standing:
                with board.step("removing everything", "operator and control plane are gone"):
                    stage.clear()
    told = _summary(board, story)
    _next(board, stage, script, keep=keep)
    return kit.OK if told else kit.FAILED


def _introduction(script: Script, *, keep: bool) -> str:
    text = INTRODUCTION.format(
        controllers=CONTROLLERS if script.addons else "",
        cast=script.cast,
        besides=DOWNLOADED if script.downloads else "",
    )
    return "\n".join((*textwrap.wrap(text, _WIDTH), KEPT if keep else REMOVED, ""))


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM and a closed terminal end the demo as Ctrl-C does: with everything removed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _build(board: Board, stage: Stage, script: Script) -> None:
    def news(line: str) -> None:
        if not line.startswith(_ROUTINE):
            board.detail(line)

    programs = ("etcd", "API server", "controller-manager", "scheduler", *script.addons)
    with board.step(
        f"starting {', '.join(programs)} and fake nodes",
        "control plane and fake nodes: 2 with 8 AMD MI300X, 1 without GPUs",
    ):
        stage.control_plane(news)
    with board.step("installing Kaiwo's CRDs", "the API server knows KaiwoJob and KaiwoService"):
        stage.crds()
        if script.queues:
            stage.describe_queues(script.queues)
    with board.step("starting the operator", "the operator runs (kaiwo operator run)"):
        stage.operator()
    if script.queues:
        with board.step(
            "making Kueue's queues",
            "two queues in a cohort: kaiwo (12 AMD, 8 NVIDIA), research (4 AMD)",
        ):
            stage.queues()
    command = " ".join(("kaiwo submit", *(f"-f {files.name}" for files in script.files)))
    with board.step("submitting them", command):
        stage.submit(*script.files, say=board.detail)
    if script.downloads:
        with board.step("serving data and code", "a little S3 store and a git server on this machine"):
            stage.serve()
    board.say()


def _play(board: Board, stage: Stage, script: Script) -> DemoRun:
    """Watch the workloads until each is where its story ends, or the time is up."""
    story = DemoRun(script)
    # In a thread, because the table goes on while another command submits.
    with ThreadPoolExecutor(1) as aside, stage.cluster() as cluster, board.showing(story):
        fetching: Future[None] | None = None
        submitting: Future[None] | None = None
        deadline = time.monotonic() + _TIME_LIMIT
        join_at: float | None = None
        while not story.over() and time.monotonic() < deadline:
            board.update(story, story.see(_workloads(cluster)))
            if script.later and story.rivals_may_come():
                story.rivals_came = True
                board.aside(f"kaiwo submit -f {script.later.name}: two more for the same 8 GPUs")
                submitting = aside.submit(stage.submit, script.later)
            if submitting is not None and submitting.done():
                submitting.result()
                if script.downloads and fetching is None:
                    # After the rivals, which must come while the GPUs are taken.
                    board.aside(f"kaiwo submit -f {script.downloads.name}: data and code come first")
                    fetching = aside.submit(stage.submit, script.downloads, sets=stage.addresses)
            if fetching is not None and fetching.done():
                fetching.result()
            if story.node_may_join():
                join_at = join_at or time.monotonic() + _READING_SECONDS
                if time.monotonic() >= join_at:
                    story.node_joined = True
                    _add_node(cluster)
                    board.aside("the demo adds a node with 8 NVIDIA H100")
            time.sleep(_LOOK_SECONDS)
    return story


def _workloads(cluster: kit.Cluster) -> list[Object]:
    return [obj for kind in WORKLOADS for obj in cluster.list(kind, NAMESPACE)]


def _add_node(cluster: kit.Cluster) -> None:
    import yaml

    node = yaml.safe_load(JOINING_NODE.read_text(encoding="utf-8"))
    # By POST: a Node's status is kept when the node is created, and a later apply would drop it.
    cluster.run(lambda client: client.create(NODE, node))


def _summary(board: Board, story: DemoRun) -> bool:
    """What was seen, chapter by chapter; False when something ended otherwise."""
    board.say()
    board.say("What you saw:")
    for chapter in story.script.chapters:
        told = story.as_told(chapter)
        board.say(f"  {'✔' if told else '✘'} {chapter.name:<13} {chapter.lesson}")
        if not told:
            board.say(f"    {story.missing(chapter)}")
    return story.over()


def _next(board: Board, stage: Stage, script: Script, *, keep: bool) -> None:
    kaiwo, job = _program(), JOBS / "1-train.yaml"
    whole = (
        (f"{kaiwo} submit -f {MORE / 'ray-chat.yaml'} --wait", "a service on Ray, in an AppWrapper"),
        *(
            (("kubectl get clusterqueues,localqueues,workloads -A", "what Kueue makes of it"),)
            if shutil.which("kubectl")
            else ()
        ),
    )
    kept = (
        (f"export KUBECONFIG={stage.kubeconfig}", "the demo's cluster"),
        (f"{kaiwo} list", "all workloads, with their reasons"),
        (f"{kaiwo} status sixteen-gpus", "one workload on one page"),
        (
            f"{kaiwo} plan -f {job} --offline --explain",
            "what would be created, and where each value comes from",
        ),
        (f"{kaiwo} delete train --yes", f"and once more: {kaiwo} submit -f {job}"),
        *(whole if script.queues else ()),
        (f"less {stage.operator_log}", "what the operator says"),
        (f"{kaiwo} demo --stop", "ends all of it and removes its files"),
    )
    gone = (
        (f"{kaiwo} demo --keep", "the same, and it stays for you to look around"),
        (f"less {job}", "one of the files that were submitted"),
        *(((f"less {QUEUES}", "the queues, as an administrator describes them"),) if script.queues else ()),
        (f"{kaiwo} --help", "all commands"),
    )
    board.say()
    board.say("What to try next:")
    for command, meaning in kept if keep else gone:
        board.say(f"  {command}")
        board.say(f"      {meaning}")


def _program() -> str:
    """How the reader's shell finds this command, which may lie in an environment that is not on the path."""
    here = Path(sys.executable).with_name("kaiwo")
    found = shutil.which("kaiwo")
    if not here.exists() or (found and Path(found).resolve() == here.resolve()):
        return "kaiwo"
    return os.path.relpath(here) if here.is_relative_to(Path.cwd()) else str(here)


def _stop() -> int:
    """End what ``--keep`` left."""
    remains.stop()
    stage_module.down()
    kit.say("nothing of a demo runs any more")
    return kit.OK
