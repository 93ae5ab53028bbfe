"""Set M: plugins raise, hang, return something else, are slow, clash with others, or have another version.

Each case writes a plugin, with a real entry point beside those that are installed. The host has to go on: the
state of the plugin says what is wrong with it, and a workload that does not need it is planned as ever.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from campaign.case import StandaloneCase
from campaign.plugin_sources import BODIES, DECLARATIONS, PLUGIN, install, source
from campaign.violation import ViolationError
from kaiwo.testing.builders import job
from kaiwo.testing.operator import COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaiwo.engine.resource import Object

_FIRST_PARTY: Final = "batch_job"
"""The plugin that the workload of every case needs."""

_TOO: Final = f"{PLUGIN}_too"
_SECONDS: Final = 120.0
_OTHER_QUEUE: Final = "kueue"


@dataclass(frozen=True, slots=True)
class Expected:
    """What is to be said of a plugin.

    Attributes:
        state: of the plugin.
        reason: of the state.
        words: part of the message.
    """

    state: str = "loaded"
    reason: str = ""
    words: str = ""


_LOADED: Final = Expected()
_BY_BODY: Final = {
    "raise": Expected("broken", "LoadFailed", "campaign"),
    "hang": Expected("broken", "LoadTimeout", "did not load within"),
    "wrong-type": Expected("broken", "InvalidDeclaration", "list with int"),
    "slow": _LOADED,
}

_RUNS: Final = {
    "raise": "fail",
    "hang": "hang",
    "wrong-type": "wrong",
    "slow": "slow",
}
"""By fault: the function that is called in place of the right one."""

_SLOW: Final = """
def slow(*arguments, **more):
    time.sleep(0.3)
    return right(*arguments, **more)
"""

_ASYNC: Final = """
import asyncio

async def hang(*_):
    await asyncio.Event().wait()

async def fail(*_):
    raise RuntimeError("campaign")

async def wrong(*_):
    return 42

async def slow(*_):
    await asyncio.sleep(0.5)

async def block(*_):
    while True:
        time.sleep(0.01)

async def leave(*_):
    raise SystemExit(3)
"""

_RUNS_BESIDE: Final = {**_RUNS, "block": "block", "exit": "leave"}
"""The same for functions that run beside reconciliation: one may keep the event loop, or end the process."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a declaration that the host calls later.

    Attributes:
        hook: of the declaration.
        more: code that puts the faulty function into the declaration, with ``{function}`` for its name, and
            ``{mark}`` where the function notes its calls.
        user: the workload that needs it; None where all do, or none.
        everybody: whether every workload needs it, so that all of them have to be blocked for it.
        beside: whether it runs beside reconciliation.
        broken: by fault, the state of the plugin where that is not loaded.
    """

    hook: str
    more: str
    user: Object | None = None
    everybody: bool = False
    beside: bool = False
    broken: Mapping[str, Expected] = field(default_factory=dict)


def _replaced(field: str, right: str) -> str:
    return (
        f"right = {right}\n{_SLOW}\n{{mark}}\nimport dataclasses\n"
        f"declared = [dataclasses.replace(declared[0], {field}={{function}})]\n"
    )


_BACKEND: Final = f"""
from kaiwo_batch_job.backend import BatchJobBackend

right = BatchJobBackend("{PLUGIN}Job").render
{_SLOW}
{{mark}}

class Faulty(BatchJobBackend):
    def serves(self, workload):
        return self.block in workload.blocks

    def render(self, inp):
        return {{function}}(inp)

import dataclasses
declared = [dataclasses.replace(declared[0], implementation=Faulty)]
"""

CALLS: Final[dict[str, Call]] = {
    "render": Call("kaiwo_backends", _BACKEND, job("user", image="a", acmeJob={})),
    "recognise": Call("kaiwo_gpu_vendors", _replaced("recognise", "declared[0].recognise")),
    "assign": Call("kaiwo_queue_systems", _replaced("assign", "declared[0].assign"), everybody=True),
    "contribute": Call(
        "kaiwo_pod_contributions", _replaced("contribute", "declared[0].contribute"), everybody=True
    ),
    "read": Call("kaiwo_namespace_defaults", _replaced("read", "declared[0].read"), everybody=True),
    "diagnose": Call("kaiwo_diagnosis_rules", _replaced("diagnose", "declared[0].diagnose")),
    "start": Call("kaiwo_lifecycle", _ASYNC + "{mark}\nbuild = {function}\n", beside=True),
    "notify": Call("kaiwo_transitions", _ASYNC + "{mark}\nbuild = {function}\n", beside=True),
    "build": Call(
        "kaiwo_controllers",
        f"def right(host):\n    pass\n\n{_SLOW}\n{{mark}}\nbuild = {{function}}\n",
        broken={
            "raise": Expected("broken", "LoadFailed", "RuntimeError: campaign"),
            "hang": Expected("broken", "LoadTimeout", "did not return within"),
        },
    ),
}  # fmt: skip
"""By name: what is called later."""

_COMMAND: Final = """
import time
{statement}
import click

@click.command()
def build():
    click.echo("done")

{rest}
"""

_STARTED: Final = "print('imported', flush=True)\n"

COMMANDS: Final[dict[str, tuple[str, str, int, str]]] = {
    "raise": ("raise RuntimeError('campaign')", "", 1, "RuntimeError: campaign"),
    "hang": (f"{_STARTED}while True:\n    time.sleep(0.01)", "", 130, "interrupted"),
    "wrong-type": ("", "build = 42", 1, "is not a click command"),
    "slow": ("time.sleep(0.5)", "", 0, ""),
}
"""By fault: two statements in the module of a command, the exit code of the command, and its words."""


def cases() -> Iterator[StandaloneCase]:
    """A case for each hook and each fault of it, and for each call and each fault of that."""
    for hook in DECLARATIONS:
        short = hook.removeprefix("kaiwo_").replace("_", "-")
        for fault in (body for body in BODIES if body != "right"):
            yield StandaloneCase("M", f"{short}-{fault}", partial(_hook, hook, fault))
        yield StandaloneCase("M", f"{short}-same-name", partial(_same_name, hook))
        yield StandaloneCase("M", f"{short}-other-version", partial(_other_version, hook))
    for name in CALLS:
        for fault in _runs(name):
            yield StandaloneCase("M", f"call-{name}-{fault}", partial(_called, name, fault))
    for fault in COMMANDS:
        yield StandaloneCase("M", f"call-load-{fault}", partial(_command, fault))


def _runs(name: str) -> Mapping[str, str]:
    return _RUNS_BESIDE if CALLS[name].beside else _RUNS


async def _hook(hook: str, fault: str, directory: Path) -> None:
    install(directory, PLUGIN, source(hook, fault))
    found = await _host(directory, hook)
    _state(found, PLUGIN, _BY_BODY[fault])
    _serves(found)


async def _same_name(hook: str, directory: Path) -> None:
    """Two plugins declare the same. Where names are no claim, both are loaded."""
    install(directory, PLUGIN, source(hook, "right"))
    install(directory, _TOO, source(hook, "right"))
    found = await _host(directory, hook)
    shared = hook in {"kaiwo_lifecycle", "kaiwo_transitions"}
    for plugin, rival in ((PLUGIN, _TOO), (_TOO, PLUGIN)):
        _state(found, plugin, _LOADED if shared else Expected("broken", "Conflict", rival))
    _serves(found)


async def _other_version(hook: str, directory: Path) -> None:
    install(directory, PLUGIN, source(hook, "right", api="99.0"))
    found = await _host(directory, hook)
    _state(found, PLUGIN, Expected("broken", "", "99"))
    _serves(found)


async def _called(name: str, fault: str, directory: Path) -> None:
    call = CALLS[name]
    marker = directory / "called"
    function = _runs(name)[fault]
    more = call.more.replace("{function}", function)
    more = more.replace("{mark}", _marking(function, marker, call))
    install(directory, PLUGIN, source(call.hook, "right", more=more))
    found = await _host(directory, call.hook, call.user)
    _state(found, PLUGIN, call.broken.get(fault, _LOADED))
    if not marker.exists():
        raise ViolationError("fault", f"{name} was not called")
    harmless = fault == "slow" or not call.everybody
    _serves(found, blocked=not harmless)
    if call.user is not None:
        _planned(found["user"], blocked=fault != "slow")


async def _command(fault: str, directory: Path) -> None:
    """A command of a plugin cannot be imported: that is said, and all other commands work."""
    statement, rest, code, words = COMMANDS[fault]
    module = f"campaign_{PLUGIN}_command"
    text = _COMMAND.format(statement=statement, rest=rest)
    (directory / f"{module}.py").write_text(text, encoding="utf-8")
    more = f'declared = [Command(name="{PLUGIN}", load="{module}:build", help="Do it.")]\n'
    install(directory, PLUGIN, source("kaiwo_commands", "right", more=more))
    listed = await _kaiwo(directory, "--help")
    if listed.code or PLUGIN not in listed.out:
        raise ViolationError("O1", f"the command is not listed: {listed}")
    called = await _kaiwo(directory, PLUGIN, interrupted=fault == "hang")
    if called.code != code or words not in called.err:
        raise ViolationError("O10", f"expected exit code {code} and {words!r}: {called}")
    if "Traceback" in called.err or (fault == "raise" and "reinstall or disable" not in called.err):
        raise ViolationError("O10", f"the next step is not named: {called}")


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a command ended."""

    code: int | None
    out: str
    err: str


async def _kaiwo(site: Path, *arguments: str, interrupted: bool = False) -> _Ended:
    """Run ``kaiwo`` with the plugins of a folder; as a user who presses Ctrl-C once it has printed a line."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, env=_environment(site),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_SECONDS):
            if interrupted and process.stdout is not None:
                await process.stdout.readline()
                process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise ViolationError("O6", f"kaiwo {' '.join(arguments)} did not end within {_SECONDS:g} s") from None
    return _Ended(process.returncode, out.decode(), err.decode())


def _environment(site: Path) -> dict[str, str]:
    """Of a process that finds the plugins of a folder beside those that are installed."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(Path(__file__).parents[2])])}


def _marking(function: str, marker: Path, call: Call) -> str:
    """Code that has a function leave a file when it is called."""
    keyword = "async " if call.beside else ""
    awaited = "await " if call.beside else ""
    return (
        f"faulty = {function}\n\n{keyword}def {function}(*arguments, **more):\n"
        f"    open({str(marker)!r}, 'w').close()\n    return {awaited}faulty(*arguments, **more)\n"
    )


async def _host(site: Path, hook: str, workload: Object | None = None) -> dict[str, Any]:
    """What the host came to, with all installed plugins and those of a folder."""
    arguments = [f"--faulty={PLUGIN}", f"--faulty={_TOO}"]
    arguments += [f"--disabled={_OTHER_QUEUE}"] if hook == "kaiwo_queue_systems" else []
    arguments += [f"--workload={json.dumps(workload)}"] if workload else []
    command = [sys.executable, "-m", "campaign.plugin_host", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, env=_environment(site),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await asyncio.wait_for(process.communicate(), _SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise ViolationError("O6", f"the host did not go on within {_SECONDS:g} s") from None
    if process.returncode:
        raise ViolationError("O6", f"the host ended with {process.returncode}: {err.decode()[-1500:]}")
    found: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
    return found


def _state(found: dict[str, Any], plugin: str, expected: Expected) -> None:
    state, reason, message = found["states"].get(plugin, ("absent", "", ""))
    right = state == expected.state and expected.words in message
    if not right or (expected.reason and reason != expected.reason):
        raise ViolationError("O5", f"plugin {plugin} is {state} {reason}: {message}; expected {expected}")
    if state == "broken" and not (reason and message):
        raise ViolationError("O10", f"plugin {plugin} is broken without a reason: {reason} {message}")


def _serves(found: dict[str, Any], *, blocked: bool = False) -> None:
    """Other plugins are loaded, and a workload of theirs is planned; or blocked, and that is said."""
    if found["states"][_FIRST_PARTY][0] != "loaded":
        raise ViolationError("O1", f"plugin {_FIRST_PARTY} is not loaded: {found['states'][_FIRST_PARTY]}")
    _planned(found["bystander"], blocked=blocked)


def _planned(planned: dict[str, Any], *, blocked: bool) -> None:
    if blocked and ("Job" in planned["kinds"] or PLUGIN not in planned["message"]):
        raise ViolationError("O10", f"expected to be blocked, with the plugin's name: {planned}")
    if not blocked and "Job" not in planned["kinds"]:
        raise ViolationError("O1", f"a workload is not planned: {planned}")
