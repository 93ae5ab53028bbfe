"""Contributions to generated pod templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.backends import RenderInput


@dataclass(frozen=True, slots=True)
class PodContribution:
    """A pure function that adds to a pod template.

    Attributes:
        name: short name; it is the origin that ``kaiwo plan --explain`` shows for what was added.
        contribute: takes the render input and the pod template made so far and returns a pod template.
            It must not change what it is given, and what the user wrote wins.
    """

    name: str
    contribute: Callable[[RenderInput, Object], Object]
