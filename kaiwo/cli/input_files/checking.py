"""Checking manifests before anything is sent: the same rules as the cluster's, with line and column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.cli.kit import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.api.errors import Problem
    from kaiwo.api.validate import Validator
    from kaiwo.cli.input_files.workload_files import LocatedProblem, WorkloadFile
    from kaiwo.plugin.registry import Plugins


_UNKNOWN = "is not a known field"


def check(
    manifests: Iterable[WorkloadFile], validator: Validator, plugins: Plugins | None = None
) -> list[LocatedProblem]:
    """Validate all manifests; say their warnings, and note on each what was said.

    Args:
        manifests: with the flags' changes made.
        validator: knows the fields that loaded plugins contribute.
        plugins: say who declares a field that is not known, where they are installed and not loaded.

    Returns:
        every problem of all of them.
    """
    complaints: list[LocatedProblem] = []
    for manifest in manifests:
        validation = validator.validate(manifest.obj)
        for problem in validation.problems:
            elsewhere = _declared_elsewhere(manifest.kind, problem, plugins)
            complaints.append(manifest.complain(problem.path, problem.message, elsewhere or problem.hint))
        for warning in validation.warnings:
            say(f"warning: {manifest.complain(warning.path, warning.message, warning.hint)}")
            manifest.told.append(f"{warning.path}: {warning.message}")
    return complaints


def _declared_elsewhere(kind: str, problem: Problem, plugins: Plugins | None) -> str:
    """Why nobody here knows a field that an installed plugin declares; empty for other problems."""
    if plugins is None or problem.message != _UNKNOWN:
        return ""
    key = (kind, problem.path.removeprefix("spec."))
    if broken := plugins.broken_fields.get(key):
        return broken
    distribution = plugins.unselected_fields.get(key)
    return f"{distribution} is installed and declares it: select it as a plugin" if distribution else ""
