"""What a backend does that implements only the three methods it must."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo import testing
from kaiwo.api.plugin_fields import Field
from kaiwo.api.workload import Workload
from kaiwo.engine.resource import JOB, SERVICE
from kaiwo.plugin.backend_base import BACKEND_METHODS, BackendBase, VariantInput
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.lazy import Lazy


class Minimal(BackendBase):
    """Nothing but the abstract methods."""

    def allocate(self, inp: object) -> Any:
        """Not called here."""

    def render(self, inp: object) -> Any:
        """Not called here."""

    def observe(self, observation: object) -> Any:
        """Not called here."""


def backend(**changes: Any) -> Backend:
    """A backend that owns ``spec.acmeJob``."""
    fields = (Field("KaiwoJob", ("acmeJob",), dict, "A block."),)
    return Backend(**{"name": "acme", "kind": "KaiwoJob", "child": JOB, "fields": fields, **changes})


def test_it_serves_workloads_with_its_own_block() -> None:
    """A backend for one kind of object needs no rule of its own."""
    minimal = backend(implementation=Minimal).load()
    assert minimal.serves(Workload.from_object(testing.job(acmeJob={})))
    assert not minimal.serves(Workload.from_object(testing.job(job={})))


def test_the_other_defaults_change_nothing() -> None:
    """Every workload is valid, nothing is replaced, patched or merged, and there is one form."""
    minimal = backend(implementation=Minimal).load()
    workload = Workload.from_object(testing.job())
    child = {"spec": {"x": 1}}
    minimal.validate(workload)
    assert minimal.immutable_part(child) is None
    assert minimal.tune_secondary(workload, {SERVICE: {}}) == {}
    assert minimal.merge_live(child, {"spec": {"x": 2}}) is child
    assert minimal.select_variant(VariantInput(None, lambda _: True)) is None


def test_every_public_method_is_called_by_the_host() -> None:
    """The list that checks, time limits and test kit use is the class itself."""
    assert set(BACKEND_METHODS) == {name for name in dir(BackendBase) if not name.startswith("_")}


def test_a_backend_without_a_class_cannot_be_loaded() -> None:
    """It is declared: its fields exist, nothing runs them."""
    assert not backend().built
    with pytest.raises(TypeError, match="backend acme is declared, but not built"):
        backend().load()


def test_a_class_of_another_type_is_an_error() -> None:
    """The message says what was expected."""
    wrong = backend(implementation=Lazy("builtins:str"))
    with pytest.raises(TypeError, match="expected a subclass of BackendBase, got str"):
        wrong.load()
