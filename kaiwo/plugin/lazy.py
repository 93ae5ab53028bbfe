"""Functions of a declaration that are imported when first called, so that loading a plugin is quick."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Any

_resolve = cache(pkgutil.resolve_name)


@dataclass(frozen=True, slots=True)
class Lazy:
    """A function that stands for another one, which need not be imported yet.

    Calling it raises what importing or calling the other one raises.

    Attributes:
        target: ``module:function``.
    """

    target: str

    def __call__(self, *args: Any) -> Any:
        """The function's answer."""
        return _resolve(self.target)(*args)
