from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo_kueue.conversion import normal_form
from kaiwo_kueue.desired import ClusterState, desired
from kaiwo_kueue.models import QueueConfigSpec
from kaiwo_kueue.objects import LiveObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo_kueue.desired import DesiredObjects
    from kaiwo_kueue.objects import DesiredObject


@pytest.fixture(scope="session")
def vendors() -> tuple[GpuVendor, ...]:
    """The first-party vendors."""
    return load(PluginSelection(names=("gpu_amd", "gpu_nvidia"))).vendors


OWNER = "owner-uid"


def live_of(item: DesiredObject, **changes: Any) -> LiveObject:
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
        "normal_spec": normal_form(item.kind, item.spec),
        "spec": item.spec,
    }
    return LiveObject(**{**values, **changes})


@pytest.fixture(name="live")
def live_fixture() -> Callable[..., LiveObject]:
    """Make a live object of a wanted one: ``live(wanted, deleting=True)``."""
    return live_of


@pytest.fixture
def wants() -> Callable[..., DesiredObjects]:
    """The desired objects of a spec: ``wants({"clusterQueues": [...]}, namespaces={"a"})``."""

    def ask(spec: Object, **around: Any) -> DesiredObjects:
        return desired(QueueConfigSpec.read(spec), ClusterState(**around))

    return ask
