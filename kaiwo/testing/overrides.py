"""A backend with other code, for tests of what the host does with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kaiwo.plugin.backend_base import BACKEND_METHODS, BackendBase

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.backends import Backend


def override_methods(backend: Backend, **methods: Callable[..., Any]) -> Backend:
    """The backend with functions in place of some methods of its class; they take no ``self``.

    Methods that neither the class nor the arguments define raise NotImplementedError.

    Raises:
        TypeError: the host calls no method of that name.
    """
    if unknown := sorted(methods.keys() - set(BACKEND_METHODS)):
        raise TypeError(f"no methods of a backend: {', '.join(unknown)}")
    base = type(backend.load()) if backend.built else _Unimplemented
    members = {name: staticmethod(method) for name, method in methods.items()}
    return replace(backend, implementation=type(base.__name__, (base,), members))


class _Unimplemented(BackendBase):
    def allocate(self, inp: object) -> Any:
        raise NotImplementedError

    def render(self, inp: object) -> Any:
        raise NotImplementedError

    def observe(self, observation: object) -> Any:
        raise NotImplementedError
