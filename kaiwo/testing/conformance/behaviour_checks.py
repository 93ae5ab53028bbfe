"""Purity, totality and time: what calling the functions of a plugin showed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.testing.conformance.results import CheckOutput, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.testing.conformance.results import CheckInput

IMPORT_SECONDS: Final = 0.5
"""CPU that importing a plugin's module may take; a good one takes a few milliseconds."""

_FOR_HOOKS: Final = {"annotated_types", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"}
"""What a hook may import: it returns pydantic models."""

_HEAVY = (
    "every command and the operator import all plugins when they start",
    "import it inside of the function that uses it",
)


def purity(given: CheckInput) -> CheckOutput:
    """No I/O, no clock, no global state, the same output for the same input, the input unchanged."""
    report = given.report
    if not report.functions:
        return CheckOutput("")
    violations = (*report.impure, *_differing(given))
    return CheckOutput(f"{_counted(report.functions)} without effects", violations)


def _differing(given: CheckInput) -> Iterator[Violation]:
    """Functions whose results in another process differ for the same cases."""
    for where, here in given.report.outputs.items():
        there = dict(case.split(" ") for case in given.fresh.outputs.get(where, ()))
        if any(there.get(case, result) != result for case, result in (text.split(" ") for text in here)):
            yield Violation(
                where,
                "returns another result in another process",
                "after a restart the operator would change objects that are right",
                "sort what comes out of a set, and use neither hash() nor id()",
            )


def totality(given: CheckInput) -> CheckOutput:
    """Any input gets a result of the right type."""
    report = given.report
    if not report.functions:
        return CheckOutput("")
    return CheckOutput(f"{report.calls} calls with random input", tuple(report.partial))


def time(given: CheckInput) -> CheckOutput:
    """Import and calls are quick."""
    fresh = given.fresh
    violations = (*given.report.slow, *_imports(given))
    text = f"import {fresh.import_seconds * 1000:.0f} ms"
    if given.report.functions:
        text += f", slowest call {given.report.slowest * 1000:.0f} ms"
    return CheckOutput(text, violations)


def _imports(given: CheckInput) -> Iterator[Violation]:
    fresh, module = given.fresh, f"module {given.plugin.module}"
    if fresh.error:
        next_step = "run kaiwo plugins, and repair what it says"
        yield Violation(module, f"fails in a new process: {fresh.error}", "so does the operator", next_step)
    if fresh.import_seconds > IMPORT_SECONDS:
        text = f"takes {fresh.import_seconds:.2f} s of CPU to import, expected at most {IMPORT_SECONDS:g} s"
        yield Violation(module, text, *_HEAVY)
    for name in fresh.imported:
        yield Violation(module, f"imports {name} when it is imported", *_HEAVY)
    for name in sorted(set(fresh.imported_by_hooks) - _FOR_HOOKS):
        yield Violation(module, f"imports {name} when its hooks are called", *_HEAVY)


def _counted(number: int) -> str:
    return f"{number} function{'s' if number != 1 else ''}"
