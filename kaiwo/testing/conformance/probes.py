"""What the suite calls of a plugin: each pure function with a source of random input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.testing.sampling import Sampler

Case: TypeAlias = Any
"""The input of one call as JSON, from which the arguments are built anew for each call."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One pure function of a plugin.

    Attributes:
        where: the declaration and the function (``backend acme_run: render``).
        sample: makes a random case; may call the plugin.
        build: makes the arguments of a case; returns None for a case that cannot be.
        call: the function.
        returns: types of which the result must be one.
        allowed: exceptions that are no defect.
        fault: what is wrong with a result; empty for nothing.
    """

    where: str
    sample: Callable[[Sampler], Case]
    build: Callable[[Case], tuple[Any, ...] | None]
    call: Callable[..., Any]
    returns: tuple[type, ...]
    allowed: tuple[type[Exception], ...] = ()
    fault: Callable[[Any], str] = lambda _: ""
