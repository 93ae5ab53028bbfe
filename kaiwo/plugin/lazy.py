"""A class or function that is imported when it is first called, so that loading a plugin is quick."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)

_import = cache(pkgutil.resolve_name)


@dataclass(frozen=True, slots=True)
class Lazy(Generic[T_co]):
    """A callable that stands for a class or function in a module that need not be imported yet.

    Calling it raises what importing or calling the target raises. With the class in the annotation of a
    variable, imported for type checkers only, they see whether it is what the declaration needs::

        if TYPE_CHECKING:
            from kaiwo_acme.backend import RunBackend

        BACKEND: Lazy[RunBackend] = Lazy("kaiwo_acme.backend:RunBackend")

        Backend(..., implementation=BACKEND)

    Attributes:
        target: ``module:name``.
    """

    target: str

    def __call__(self, *args: Any) -> T_co:
        """The result of the target: an instance of the class, or what the function returns."""
        result: T_co = _import(self.target)(*args)
        return result
