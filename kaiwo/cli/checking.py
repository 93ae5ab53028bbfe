"""Checking manifests before anything is sent: the same rules as the cluster's, with line and column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.cli.kit import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.api.validate import Validator
    from kaiwo.cli.manifest import Complaint, Manifest


def check(manifests: Iterable[Manifest], validator: Validator) -> list[Complaint]:
    """Validate all manifests; say their warnings, and note on each what was said.

    Args:
        manifests: with the flags' changes made.
        validator: knows the fields that loaded plugins contribute.

    Returns:
        every problem of all of them.
    """
    complaints: list[Complaint] = []
    for manifest in manifests:
        validation = validator.validate(manifest.obj)
        complaints += [manifest.complain(p.path, p.message, p.hint) for p in validation.problems]
        for warning in validation.warnings:
            say(f"warning: {manifest.complain(warning.path, warning.message, warning.hint)}")
            manifest.told.append(f"{warning.path}: {warning.message}")
    return complaints
