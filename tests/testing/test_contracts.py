"""The contracts of ``kaiwo.testing`` let good declarations pass and name what is wrong with bad ones."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import pytest
from pydantic import BaseModel

from kaiwo import testing
from kaiwo.cli import kit
from kaiwo.plugin.commands import Command
from kaiwo.plugin.diagnosis import DiagnosisRule
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.lifecycle import Lifecycle, Transition, TransitionListener
from kaiwo.plugin.observation import Finding, Observation
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueFacts, QueueSystem
from kaiwo.plugin.rendering import PodContribution, RenderInput
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.observe import pod_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object

MODULE = "contracts_of_acme"


class Settings(BaseModel):
    """Settings of a plugin."""

    word: str = "a"


def diagnose(observation: Observation) -> Finding | None:
    """Explains exit code 79."""
    for pod in observation.pods:
        for container in pod_status.containers(pod):
            ended = lenient_map(lenient_map(container.get("state")).get("terminated"))
            if ended.get("exitCode") == 79:
                return Finding("GpuLinkDown", f"pod {pod_status.pod_name(pod)} lost a GPU link")
    return None


DOWN = testing.observation(pods=[testing.pod(exit_code=79)])
FINE = testing.observation(pods=[testing.pod()])


def rule(function: Callable[[Observation], Any]) -> None:
    """Check a rule with this function."""
    testing.assert_rule_contract(
        DiagnosisRule("link", function), finds=[(DOWN, "GpuLinkDown")], silent=[FINE]
    )


def fragile(observation: Observation) -> Finding | None:
    """Takes for granted what a pod need not have."""
    for pod in observation.pods:
        if pod["status"]["containerStatuses"][0]["state"].get("terminated"):
            return Finding("GpuLinkDown", "a GPU link is down")
    return None


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _: None, "link finds nothing, expected GpuLinkDown"),
        (lambda _: Finding("Other", "x"), "expected the reason GpuLinkDown"),
        (lambda _: Finding("GpuLinkDown", "x"), "expected nothing"),
        (lambda _: Finding("two words", "x"), "not one CamelCase word"),
        (lambda _: Finding("GpuLinkDown", "x\ny"), "not one line of text"),
        (lambda _: "text", "returned str, expected a Finding or None"),
        (lambda o: Finding("GpuLinkDown", str(time.time())) if o.pods else None, "the second time"),
        (fragile, "link: diagnose raised"),
    ],
)
def test_a_bad_rule_fails_with_what_is_wrong(function: Callable[[Observation], Any], message: str) -> None:
    """It explains what it should, nothing else, and survives pods that make no sense."""
    rule(diagnose)
    with pytest.raises(AssertionError, match=message):
        rule(function)


def contribute(inp: RenderInput, template: Object) -> Object:
    """Adds a variable to every container."""
    word = inp.settings.word if isinstance(inp.settings, Settings) else ""
    spec = template["spec"]
    containers = [
        {**each, "env": [*each.get("env", []), {"name": "WORD", "value": word}]}
        for each in spec["containers"]
    ]
    return {**template, "spec": {**spec, "containers": containers}}


def changed(**fields: Any) -> Callable[[RenderInput, Object], Object]:
    """A contribution that sets fields of the first container."""

    def contribution(inp: RenderInput, template: Object) -> Object:
        del inp
        first, *others = template["spec"]["containers"]
        return {**template, "spec": {**template["spec"], "containers": [{**first, **fields}, *others]}}

    return contribution


def in_place(inp: RenderInput, template: Object) -> Object:
    """Changes what it is given."""
    del inp
    template["spec"]["hostNetwork"] = True
    return template


USERS = {
    "metadata": {"annotations": {"team": "a"}},
    "spec": {"containers": [{"name": "main", "image": "a:1", "env": [{"name": "MODE", "value": "fast"}]}]},
}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (in_place, "changed what it was given"),
        (changed(image="b:1"), "it changed image of container"),
        (changed(name="other"), "it removed container"),
        (changed(env=[{"name": "MODE", "value": "slow"}]), r"env\[0\].value, which the user wrote"),
        (changed(resources=None), "null"),
        (lambda _, template: {**template, "metadata": {}}, "label"),
        (
            lambda _, template: {**template, "spec": {**template["spec"], "nodeName": os.environ["HOME"]}},
            "environment",
        ),
        (lambda _inp, _template: None, "no pod template"),
    ],
)
def test_a_bad_contribution_fails_with_what_is_wrong(
    function: Callable[[RenderInput, Object], Any], message: str
) -> None:
    """It keeps what users wrote and what Kaiwo needs."""

    def check(function: Callable[[RenderInput, Object], Any]) -> None:
        contribution = PodContribution("acme", function, settings=Settings)
        given = [testing.job(), testing.service()]
        testing.assert_contribution_contract(
            contribution, given, templates=[USERS], settings=[Settings(word="b")]
        )

    check(contribute)
    with pytest.raises(AssertionError, match=message):
        check(function)


LABEL = "acme.com/queue"


def assign(workload: Workload, facts: QueueFacts) -> QueueAssignment | Blocked:
    """The queue that is asked for, or the default."""
    queue = workload.spec.cluster_queue or facts.default_queue
    return QueueAssignment(queue, {LABEL: queue})


def admission(child: Object, facts: QueueFacts) -> Admission | None:
    """What an annotation says."""
    del facts
    conditions = lenient_map(lenient_map(child.get("status")).get("quota"))
    if conditions.get("granted") is True:
        return Admission("admitted", "Admitted", "admitted by Acme")
    return Admission("pending", "Queued", "waits for Acme")


QUEUE = QueueSystem("acme", assign, admission, queue_label=LABEL)
RUNS = {"metadata": {"name": "train", "labels": {LABEL: "a"}}, "status": {"quota": {"granted": True}}}
ADMITTED = Admission("admitted", "Admitted", "admitted by Acme")


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        (
            replace(QUEUE, assign=lambda *_: Blocked("NoQueue", "no queue")),
            "cannot be queued: NoQueue: no queue",
        ),
        (replace(QUEUE, assign=lambda *_: {}), "assign returned dict, expected QueueAssignment or Blocked"),
        (replace(QUEUE, assign=lambda *_: QueueAssignment("a", {})), f"the labels lack {LABEL}"),
        (replace(QUEUE, assign=lambda *_: QueueAssignment("a", {LABEL: "a b"})), "is no label"),
        (replace(QUEUE, assign=lambda *_: QueueAssignment("", {LABEL: "a"})), "names no queue"),
        (replace(QUEUE, admission=lambda *_: ADMITTED), "a new suspended child is admitted"),
        (replace(QUEUE, admission=lambda *_: None), "admission of train is None, not admitted"),
        (replace(QUEUE, admission=lambda *_: "admitted"), "admission returned str"),
        (replace(QUEUE, admission=lambda child, _: child["status"]["quota"]), "admission raised KeyError"),
        (replace(QUEUE, queues=lambda _: ["a"]), "queues returned list"),
    ],
)
def test_a_bad_queue_system_fails_with_what_is_wrong(queue: QueueSystem, message: str) -> None:
    """Labels that an object can have, and no admission that nobody gave."""

    def check(queue: QueueSystem) -> None:
        testing.assert_queue_contract(
            queue, [testing.job(), testing.service(clusterQueue="a")], children=[(RUNS, "admitted")]
        )

    check(QUEUE)
    with pytest.raises(AssertionError, match=message):
        check(queue)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module that declarations name."""
    made = types.ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, made)
    return made


async def notify(transition: Transition) -> None:
    """Waits as it should."""
    await asyncio.sleep(0)
    assert transition.after


async def raises(transition: Transition) -> None:
    """Fails for one status."""
    if transition.after == "FAILED":
        raise ConnectionError("no answer")


async def sleeps(transition: Transition) -> None:
    """Holds up everything else."""
    del transition
    time.sleep(0.001)  # noqa: ASYNC251  the point


async def resolves(transition: Transition) -> None:
    """Asks a name server while everything else waits."""
    del transition
    socket.getaddrinfo("localhost", 1)


async def two(transition: Transition, settings: Settings) -> None:
    """Takes settings that the declaration does not name."""
    del transition, settings


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raises, r"raised ConnectionError\('no answer'\)"),
        (sleeps, "blocks the event loop: sleeps"),
        (resolves, "blocks the event loop: does I/O .socket.getaddrinfo."),
        (two, "does not take one argument: missing a required argument: 'settings'"),
        (lambda _: None, "is not an async function"),
        (None, "cannot be imported"),
    ],
)
async def test_a_bad_listener_fails_with_what_is_wrong(
    module: types.ModuleType, function: Any, message: str
) -> None:
    """It is called as the operator does, also in a test that runs in an event loop itself."""
    listener = TransitionListener("acme", f"{MODULE}:notify")
    changes = [testing.transition("RUNNING", before="STARTING"), testing.transition("FAILED")]
    module.notify = notify  # type: ignore[attr-defined]  # a module made here
    testing.assert_listener_contract(listener, changes)
    module.notify = two  # type: ignore[attr-defined]
    testing.assert_listener_contract(replace(listener, settings=Settings), changes)
    if function is None:
        del module.notify
    else:
        module.notify = function  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match=message):
        testing.assert_listener_contract(listener, changes)


def test_a_lifecycle_is_started_changed_and_stopped(module: types.ModuleType) -> None:
    """In the operator's order, each time with the settings of that moment; a task that stays is named."""
    seen: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def start(settings: Settings) -> None:
        seen.append(f"start {settings.word}")
        tasks.append(asyncio.create_task(asyncio.sleep(60), name="acme loop"))

    async def change(settings: Settings) -> None:
        seen.append(f"change {settings.word}")

    async def stop(settings: Settings) -> None:
        seen.append(f"stop {settings.word}")
        tasks[-1].cancel()
        await asyncio.wait(tasks[-1:])

    module.__dict__.update(start=start, change=change, stop=stop)
    named = {"start": f"{MODULE}:start", "settings_changed": f"{MODULE}:change", "stop": f"{MODULE}:stop"}
    whole = Lifecycle("acme", settings=Settings, **named)
    testing.assert_lifecycle_contract(whole, settings=[Settings(word="a"), Settings(word="b")])
    assert seen == ["start a", "change b", "stop b"]
    with pytest.raises(AssertionError, match="lifecycle acme leaves tasks behind: acme loop"):
        testing.assert_lifecycle_contract(replace(whole, stop=None))


@click.command()
@click.argument("model")
@click.option("--loud", is_flag=True, help="In capitals.")
def acme(model: str, *, loud: bool) -> None:
    """Print a model."""
    if not model.islower():
        raise kit.Failure(f"model {model!r} has upper-case letters")
    click.echo(model.upper() if loud else model)


@click.command()
@click.option("--loud", is_flag=True)
def unhelpful(*, loud: bool) -> None:
    """Print nothing."""
    if loud:
        raise KeyError("loud")


@pytest.mark.parametrize(
    ("command", "runs", "fails", "message"),
    [
        (unhelpful, [], [], "option --loud has no help"),
        (click.Command("acme"), [], [], "has no help; write a docstring"),
        (acme, [["Upper"]], [], "ended with 1: error: model 'Upper' has upper-case letters"),
        (acme, [], [["lower"]], "succeeded, expected it to fail"),
        (print, [], [], "is not a click command"),
    ],
)
def test_a_bad_command_fails_with_what_is_wrong(
    module: types.ModuleType, command: Any, runs: list[list[str]], fails: list[list[str]], message: str
) -> None:
    """Help for everything, and the outcomes that its author names."""
    declared = Command("acme", f"{MODULE}:acme", "Print a model.")
    module.acme = acme  # type: ignore[attr-defined]  # a module made here
    testing.assert_command_contract(declared, runs=[["tiny"], ["tiny", "--loud"]], fails=[["Tiny"]])
    with pytest.raises(AssertionError, match="command plan belongs to kaiwo itself"):
        testing.assert_command_contract(replace(declared, name="plan"))
    module.acme = command  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match=message):
        testing.assert_command_contract(declared, runs=runs, fails=fails)
