"""Every call into a plugin that the operator makes while it plans is under the time limit."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, model_validator

from kaiwo import testing
from kaiwo.api.errors import Problem
from kaiwo.api.plugin_fields import Field
from kaiwo.engine.resource import JOB
from kaiwo.host.plugin_timeout import PluginHung, TimeLimit, guarded_registry
from kaiwo.plugin import hookimpl
from kaiwo.plugin.backend_base import BACKEND_METHODS
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.queues import QueueSystem
from kaiwo.plugin.sources import DownloadSource
from kaiwo.plugin.vendors import GpuVendor
from kaiwo.testing.overrides import override_methods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.model import Registry


def hang(*_: object) -> Any:
    """Compute without end."""
    while True:
        pass


def hanging_generator(item: object) -> Iterator[Problem]:
    """Hang after the first result, when the call itself has returned."""
    yield Problem("url", str(item))
    hang()


class HangingItem(BaseModel):
    """An item whose validator does not return."""

    @model_validator(mode="before")
    @classmethod
    def check(cls, value: Any) -> Any:
        """Hang."""
        return hang(value)


def loaded(hook: str, declaration: object) -> Plugins:
    """A plugin ``acme`` with one declaration."""
    module = ModuleType("kaiwo_acme")

    def declare() -> list[object]:
        return [declaration]

    module.__dict__.update({"KAIWO_API": 1, hook: hookimpl(specname=hook)(declare)})
    return testing.plugins(module)


@pytest.fixture
def guarded() -> Iterator[Callable[[str, object], Registry]]:
    """The registry of one declaration under a short limit."""
    with TimeLimit(0.05) as limit:
        yield lambda hook, declaration: guarded_registry(loaded(hook, declaration), limit)


BACKEND = Backend("acme", "KaiwoJob", JOB, (Field("KaiwoJob", ("acmeJob",), dict, "A block."),))
SOURCE = DownloadSource(
    "oci", ("data", "download", "oci"), HangingItem, "Images.", warnings=hanging_generator
)


@pytest.mark.parametrize("method", BACKEND_METHODS)
def test_a_method_of_a_backend_that_hangs_is_interrupted(
    guarded: Callable[[str, object], Registry], method: str
) -> None:
    """Whatever the method: the operator keeps working, and the message names the method and the plugin."""
    (backend,) = guarded("kaiwo_backends", override_methods(BACKEND, **{method: hang})).backends
    with pytest.raises(PluginHung, match=f"{method} of plugin acme did not return within 0.05 s"):
        getattr(backend.load(), method)()


def test_a_class_of_a_backend_that_does_not_load_is_interrupted(
    guarded: Callable[[str, object], Registry],
) -> None:
    """An import can hang as well."""
    backend = Backend(BACKEND.name, BACKEND.kind, BACKEND.child, BACKEND.fields, implementation=hang)
    (backend,) = guarded("kaiwo_backends", backend).backends
    with pytest.raises(PluginHung, match="import of plugin acme did not return"):
        backend.load()


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("warnings", lambda source: list(source.warn([{}]))),
        ("secrets", lambda source: source.secrets({})),
        ("item validator", lambda source: source.item_error({})),
    ],
)
def test_a_download_source_that_hangs_is_interrupted(
    guarded: Callable[[str, object], Registry], what: str, call: Callable[[DownloadSource], object]
) -> None:
    """Its functions, its generators and the validators of its items."""
    source = DownloadSource(
        SOURCE.name, SOURCE.path, SOURCE.item, SOURCE.description, secrets=hang, warnings=hanging_generator
    )
    (source,) = guarded("kaiwo_download_sources", source).sources
    with pytest.raises(PluginHung, match=f"{what} of plugin acme did not return"):
        call(source)


@pytest.mark.parametrize("function", ["recognise", "requested"])
def test_a_gpu_vendor_that_hangs_is_interrupted(
    guarded: Callable[[str, object], Registry], function: str
) -> None:
    """Both functions are called while a workload is planned."""
    vendor = GpuVendor("acme", ("acme.com/gpu",), recognise=hang, requested=hang)
    (vendor,) = guarded("kaiwo_gpu_vendors", vendor).vendors
    with pytest.raises(PluginHung, match=f"{function} of plugin acme did not return"):
        getattr(vendor, function)({})


@pytest.mark.parametrize(
    "function",
    [
        "assign", "admission", "manages", "is_changing", "fewest_pods", "merge_live", "queues", "writers",
        "waiting", "relief",
    ],
)  # fmt: skip
def test_a_queue_system_that_hangs_is_interrupted(
    guarded: Callable[[str, object], Registry], function: str
) -> None:
    """Each function that planning and preemption call."""
    system = QueueSystem("acme", **{"assign": hang, "admission": hang, function: hang})
    queue = guarded("kaiwo_queue_systems", system).queue
    assert queue is not None
    with pytest.raises(PluginHung, match=f"{function} of plugin acme did not return"):
        getattr(queue, function)()
