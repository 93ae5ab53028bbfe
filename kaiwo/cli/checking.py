"""Checking manifests before anything is sent: the same rules as the cluster's, with line and column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.cli.kit import say
from kaiwo.cli.manifest import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.api.field import Field
    from kaiwo.cli.manifest import Complaint, Manifest


def check(
    manifests: Iterable[Manifest], fields: Iterable[Field], consequence: str = "nothing was sent"
) -> None:
    """Validate all manifests; say their warnings.

    Args:
        manifests: with the flags' changes made.
        fields: what loaded plugins contribute.
        consequence: what did not happen, for the message.

    Raises:
        Refused: with every problem of all of them.
    """
    from kaiwo.api.compose import validate  # noqa: PLC0415  brings in the models

    known = tuple(fields)
    complaints: list[Complaint] = []
    for manifest in manifests:
        validation = validate(manifest.obj, known)
        complaints += [manifest.complain(p.path, p.message, p.hint) for p in validation.problems]
        for warning in validation.warnings:
            say(f"warning: {manifest.complain(warning.path, warning.message, warning.hint)}")
    if complaints:
        raise Refused(complaints, consequence)
