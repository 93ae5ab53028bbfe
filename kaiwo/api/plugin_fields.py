"""Declares a field that a plugin adds to one of Kaiwo's kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaiwo.api.errors import Problem

WorkloadKind: TypeAlias = Literal["KaiwoJob", "KaiwoService"]


@dataclass(frozen=True, slots=True)
class Field:
    """One contributed field, as it appears in the CRD, in validation and in the generated reference.

    Attributes:
        kind: the kind that gains the field: ``KaiwoJob``, ``KaiwoService`` or ``KaiwoConfig``.
        path: where it goes below ``spec``, in JSON names: ``("job",)`` or
            ``("storage", "data", "download", "s3")``.
        annotation: the type as a pydantic annotation; it is always optional for the user.
        description: one or two sentences for the reference and for ``kubectl explain``.
        warn: returns warnings about a valid value, with paths below the field; None for no warnings.
    """

    kind: Literal["KaiwoJob", "KaiwoService", "KaiwoConfig"]
    path: tuple[str, ...]
    annotation: Any
    description: str
    warn: Callable[[object], Iterable[Problem]] | None = None


@dataclass(frozen=True, slots=True)
class Contributed:
    """Marks a field of a host model that exists for users only as far as plugins contribute to it."""
