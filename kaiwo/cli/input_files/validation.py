"""Checking manifests before anything is sent: the same rules as the cluster's, with line and column."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.cli.kit import say
from kaiwo.plugin.registry import declared_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.api.validate import Validator
    from kaiwo.cli.input_files.problems import LocatedProblem
    from kaiwo.cli.input_files.workload_file import WorkloadFile
    from kaiwo.plugin.registry import Plugins


def check_workloads(
    manifests: Iterable[WorkloadFile], validator: Validator, plugins: Plugins | None = None
) -> list[LocatedProblem]:
    """Validate all manifests, print their warnings, and note on each which were printed.

    Args:
        manifests: with the flags' changes made.
        validator: knows the fields that loaded plugins contribute.
        plugins: installed ones; an unknown field may be declared by one that is not loaded.

    Returns:
        every problem of all of them.
    """
    problems: list[LocatedProblem] = []
    for manifest in manifests:
        validation = validator.validate(manifest.obj)
        for problem in validation.problems:
            elsewhere = plugins and declared_elsewhere(
                manifest.kind, problem, plugins.broken_fields, plugins.unselected_fields
            )
            located = replace(problem, hint=elsewhere) if elsewhere else problem
            problems.append(manifest.locate(located))
        for warning in validation.warnings:
            say(f"warning: {manifest.locate(warning)}")
            manifest.warned.append(f"{warning.path}: {warning.message}")
    return problems
