"""Calls every pure function of a plugin with random input, and notes what it does that it must not."""

from __future__ import annotations

import copy
import hashlib
import json
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kaiwo.testing.conformance.backend_probes import backend_probes, contribution_probes, rule_probes
from kaiwo.testing.conformance.chain_probes import chain_probes
from kaiwo.testing.conformance.declaration_probes import (
    controller_probes,
    defaults_probes,
    field_probes,
    queue_probes,
    source_probes,
    vendor_probes,
)
from kaiwo.testing.conformance.documents import Documents
from kaiwo.testing.conformance.results import ProbeReport, Violation
from kaiwo.testing.effects import foreign, line_of, watched_effects
from kaiwo.testing.pure import comparable
from kaiwo.testing.sampling import Sampler, shrunk, vocabulary_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

    from kaiwo.plugin.registry import LoadedPlugin
    from kaiwo.testing.conformance.probes import Case, Probe

PURE_CASES: Final = 12
"""Cases of each function that are called twice and watched."""

FEWEST_CASES: Final = 20
"""Random cases of each function, however little time there is."""

CPU_SECONDS: Final = 0.5
"""CPU that one call may take; the operator interrupts a function after a second."""

_MEASURED_AGAIN: Final = 3
"""Calls with the input of a slow one, of which the quickest counts: a busy machine slows single calls."""

HANG_SECONDS: Final = 1.0
"""CPU after which a call is interrupted."""

_MOST_VIOLATIONS: Final = 3
_MOST_TEXT: Final = 300

_IMPURE = (
    "kaiwo plan, validation and the operator call the same function, and must get the same result",
    "decide from the arguments; the time is in Observation.now, settings are in the input",
)
_NOT_TOTAL = (
    "a workload with such a value gets the condition PluginError",
    "read values of unknown shape with lenient_map and its like, or raise SpecError for a user's mistake",
)
_WRONG_RESULT = ("the host refuses the result with PluginError", "return what the hook's documentation says")
_SLOW = (
    "one call holds up all other workloads of the operator",
    "do the work once outside of the function, or bound what it goes through",
)


class _CallHung(BaseException):
    """A call took so much CPU that it was interrupted."""


def probes_of(plugin: LoadedPlugin) -> tuple[Probe, ...]:
    """Every pure function of a plugin."""
    keys = tuple(key for vendor in plugin.vendors for key in vendor.resource_keys) or ("amd.com/gpu",)
    documents = Documents(plugin, keys)
    makers = (
        backend_probes,
        contribution_probes,
        rule_probes,
        vendor_probes,
        source_probes,
        field_probes,
        queue_probes,
        controller_probes,
        defaults_probes,
        chain_probes,
    )
    return tuple(chain.from_iterable(make(plugin, documents) for make in makers))


def probe(plugin: LoadedPlugin, seconds: float) -> ProbeReport:
    """Call the functions: first a few cases under watch, then random ones for so much CPU."""
    run = _Run(plugin)
    run.watched()
    run.random(seconds)
    return run.report


def outputs(plugin: LoadedPlugin) -> dict[str, list[str]]:
    """By function the results of the watched cases, for a comparison with another process."""
    run = _Run(plugin)
    for each in run.probes:
        for number in range(PURE_CASES):
            run.output(each, run.case(each, f"pure-{number}"))
    return run.report.outputs


class _Run:
    """One pass over all functions of a plugin."""

    def __init__(self, plugin: LoadedPlugin) -> None:
        self.report = ProbeReport()
        self._package = plugin.module.partition(".")[0]
        self._vocabulary = vocabulary_of(self._package)
        self._plugin = plugin.name
        self.probes = probes_of(plugin)
        self.report.functions = len(self.probes)
        self._hung: set[str] = set()

    def case(self, probe: Probe, seed: str) -> Case:
        """A case, the same for the same seed."""
        return probe.sample(Sampler(f"{self._plugin} {probe.where} {seed}", self._vocabulary))

    def output(self, probe: Probe, case: Case) -> str | None:
        """Call a function and keep its result in a comparable form; None for no case."""
        arguments = probe.build(copy.deepcopy(case))
        if arguments is None or probe.where in self._hung:
            return None
        found = comparable(self._call(probe, arguments, case))
        text = f"{_digest(comparable(case))} {_digest(found)}"
        self.report.outputs.setdefault(probe.where, []).append(text)
        return found

    def watched(self) -> None:
        """Purity: no effects, the input unchanged, the same result again, no variables of modules changed."""
        cases = [(each, self.case(each, f"pure-{n}")) for each in self.probes for n in range(PURE_CASES)]
        first = [self.output(each, case) for each, case in cases]
        before = _globals(self._package)
        for (each, case), expected in zip(cases, first, strict=True):
            if expected is not None:
                self._watch(each, case, expected)
        for name, value in _globals(self._package).items():
            if before.get(name, value) != value:
                self._impure(name, "changes while functions are called")

    def _watch(self, probe: Probe, case: Case, expected: str) -> None:
        if probe.where in self._hung:
            return
        arguments, untouched = probe.build(copy.deepcopy(case)), probe.build(copy.deepcopy(case))
        if arguments is None:
            return
        result = self._call(probe, arguments, case, watched=True)
        if comparable(arguments) != comparable(untouched):
            self._impure(probe.where, "changes what it is given")
        if comparable(result) != expected:
            self._impure(probe.where, "returns another result for the same input")

    def _observed(self, probe: Probe, arguments: tuple[Any, ...]) -> Any:
        with watched_effects() as effects:
            try:
                return probe.call(*arguments)
            finally:
                for effect in effects:
                    self._impure(probe.where, effect)

    def _impure(self, where: str, what: str) -> None:
        _add(self.report.impure, Violation(where, what, *_IMPURE))

    def random(self, seconds: float) -> None:
        """Totality: any input gets a result of the right type, in time."""
        until = time.process_time() + seconds
        number = 0
        while number < FEWEST_CASES or time.process_time() < until:
            for each in self.probes:
                if each.where not in self._hung:
                    case = self.case(each, f"random-{number}")
                    arguments = each.build(copy.deepcopy(case))
                    if arguments is not None:
                        self._call(each, arguments, case)
            number += 1
            if not self.probes:
                return

    def _call(
        self,
        probe: Probe,
        arguments: tuple[Any, ...],
        case: Case,
        *,
        watched: bool = False,
        again: bool = False,
    ) -> Any:
        """The result, or the exception in a comparable form; a call that hung is tried once more."""
        self.report.calls += 1
        began = time.thread_time()
        try:
            with _interrupted_after(HANG_SECONDS):
                result = self._observed(probe, arguments) if watched else probe.call(*arguments)
        except _CallHung as error:
            if not again:
                return self._call(probe, probe.build(copy.deepcopy(case)) or (), case, again=True)
            self._hung.add(probe.where)
            text = f"did not return within {HANG_SECONDS:g} s of CPU in {_raised_at(error.__traceback__)}"
            _add(self.report.slow, Violation(probe.where, f"{text} for {_short(case)}", *_SLOW))
            return "hung"
        except probe.allowed as error:
            return f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
            self._partial(probe, case, _failure(error), _NOT_TOTAL)
            return type(error).__name__
        if not watched:
            self._measure(probe, case, time.thread_time() - began)
        if not isinstance(result, probe.returns):
            expected = " or ".join(each.__name__ for each in probe.returns)
            self._partial(
                probe, case, f"returned {type(result).__name__}, expected {expected}", _WRONG_RESULT
            )
        elif fault := probe.fault(result):
            self._partial(probe, case, fault, _WRONG_RESULT)
        return result

    def _measure(self, probe: Probe, case: Case, spent: float) -> None:
        for _ in range(_MEASURED_AGAIN):
            if spent <= CPU_SECONDS:
                break
            arguments = probe.build(copy.deepcopy(case)) or ()
            began = time.thread_time()
            with suppress(Exception):
                probe.call(*arguments)
            spent = min(spent, time.thread_time() - began)
        self.report.slowest = max(self.report.slowest, spent)
        if spent > CPU_SECONDS:
            text = f"takes more than {CPU_SECONDS:g} s of CPU for {_short(case)}"
            _add(self.report.slow, Violation(probe.where, text, *_SLOW))

    def _partial(self, probe: Probe, case: Case, failure: str, then: tuple[str, str]) -> None:
        known = [each for each in self.report.partial if each.where == probe.where]
        if len(known) >= _MOST_VIOLATIONS or any(each.what.startswith(failure) for each in known):
            return
        least = shrunk(case, lambda smaller: self._fails(probe, smaller, failure))
        self.report.partial.append(Violation(probe.where, f"{failure} for {_short(least)}", *then))

    @staticmethod
    def _fails(probe: Probe, case: Case, failure: str) -> bool:
        """Whether a smaller case fails in the same way."""
        try:
            arguments = probe.build(case)
        except Exception:  # noqa: BLE001  a case from which too much was removed
            return False
        if arguments is None:
            return False
        try:
            with _interrupted_after(HANG_SECONDS):
                probe.call(*arguments)
        except _CallHung:
            return False
        except probe.allowed:
            return False
        except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
            return _failure(error) == failure
        return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def _add(found: list[Violation], violation: Violation) -> None:
    same = [each for each in found if each.where == violation.where]
    if len(same) < _MOST_VIOLATIONS and violation not in same:
        found.append(violation)


def _failure(error: Exception) -> str:
    """What was raised, and where."""
    cause = error.__cause__ if type(error).__name__ == "PluginError" and error.__cause__ else error
    if not isinstance(cause, Exception):
        cause = error
    text = " ".join(str(cause).split())[:_MOST_TEXT]
    return f"raised {type(cause).__name__}({text}) in {_raised_at(cause.__traceback__)}"


def _raised_at(traceback: TracebackType | None) -> str:
    """The innermost place of the plugin that a traceback goes through."""
    frames: list[Any] = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    if not frames:
        return "an unknown place"
    at = next((each for each in reversed(frames) if foreign(each.tb_frame)), frames[-1])
    return line_of(at.tb_frame, at.tb_lineno)


def _short(case: Case) -> str:
    text = json.dumps(case, ensure_ascii=True, default=str)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _globals(package: str) -> dict[str, str]:
    """The variables of a package's modules that hold data."""
    found = {}
    for name, module in sorted(sys.modules.items()):
        if name == package or name.startswith(f"{package}."):
            for variable, value in vars(module).items():
                kept = isinstance(value, dict | list | set | bytearray | str | int | float | tuple | None)
                if kept and not variable.startswith("__"):
                    found[f"variable {name}.{variable}"] = comparable(value)
    return found


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """Interrupt the block after so much CPU of the process; only in the main thread."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGPROF"):
        yield
        return

    def interrupt(signum: int, frame: FrameType | None) -> None:
        del signum, frame
        raise _CallHung

    before = signal.signal(signal.SIGPROF, interrupt)
    # Code that catches everything is interrupted again.
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
