from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo_kueue.desired import Surroundings, desired
from kaiwo_kueue.models import QueueConfigSpec
from kaiwo_kueue.normal import normal
from kaiwo_kueue.objects import Found

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo_kueue.desired import Desired
    from kaiwo_kueue.objects import Wanted


@pytest.fixture(scope="session")
def vendors() -> tuple[GpuVendor, ...]:
    """The first-party vendors."""
    return load(PluginSelection(names=("gpu_amd", "gpu_nvidia"))).vendors


OWNER = "owner-uid"


def live_of(item: Wanted, **changes: Any) -> Found:
    """An object as it is after Kaiwo made it; keyword arguments say what is different."""
    values: dict[str, Any] = {
        "kind": item.kind,
        "namespace": item.namespace,
        "name": item.name,
        "uid": f"uid-{item.kind.plural}-{item.namespace}-{item.name}",
        "generation": 1,
        "deleting": False,
        "owner": OWNER,
        "managed": False,
        "applied": item.digest,
        "labels": dict(item.labels),
        "form": normal(item.kind, item.spec),
    }
    return Found(**{**values, **changes})


@pytest.fixture(name="live")
def live_fixture() -> Callable[..., Found]:
    """Make a live object of a wanted one: ``live(wanted, deleting=True)``."""
    return live_of


@pytest.fixture
def wants() -> Callable[..., Desired]:
    """What a spec asks for: ``wants({"clusterQueues": [...]}, namespaces={"a"})``."""

    def ask(spec: Object, **around: Any) -> Desired:
        return desired(QueueConfigSpec.read(spec), Surroundings(**around))

    return ask
