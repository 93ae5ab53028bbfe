"""Checking manifests before anything is sent: the same rules as the cluster's, with line and column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.cli.kit import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.api.validate import Validator
    from kaiwo.cli.input_files.problems import LocatedProblem
    from kaiwo.cli.input_files.workload_file import WorkloadFile


def check_workloads(manifests: Iterable[WorkloadFile], validator: Validator) -> list[LocatedProblem]:
    """Validate all manifests, print their warnings, and note on each which were printed.

    Args:
        manifests: with the flags' changes made.
        validator: knows the fields that loaded plugins contribute.

    Returns:
        every problem of all of them.
    """
    problems: list[LocatedProblem] = []
    for manifest in manifests:
        validation = validator.validate(manifest.obj)
        problems += map(manifest.locate, validation.problems)
        for warning in validation.warnings:
            say(f"warning: {manifest.locate(warning)}")
            manifest.warned.append(f"{warning.path}: {warning.message}")
    return problems
