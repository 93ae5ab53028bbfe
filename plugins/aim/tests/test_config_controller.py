"""The statuses of the AIMNamespaceConfigs of one namespace."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kaiwo.plugin.kit.api_errors import ChangedBack
from kaiwo.plugin.kit.cache import Cache
from kaiwo.plugin.kit.controllers import Key
from kaiwo_aim.config_controller import NamespaceConfigController
from kaiwo_aim.kinds import NAMESPACE_CONFIG

if TYPE_CHECKING:
    from kaiwo.plugin.kit.cache import CachedObject


async def test_a_status_that_somebody_replaces_keeps_no_other_one_from_being_written() -> None:
    """Of two in one namespace, another installation fights for the first one; it is tried when it may be."""
    cache = Cache()
    store = cache.register(NAMESPACE_CONFIG)
    found = []
    for version, name in enumerate(("a", "b"), 1):
        metadata = {"namespace": "team", "name": name, "uid": name, "resourceVersion": str(version)}
        found.append(store.decode(json.dumps({"metadata": metadata, "spec": {}}).encode()))
    store.replace(found, "2")
    written = []

    async def patch_status(entry: CachedObject, *_: Any, **__: Any) -> None:
        if entry.name == "a":
            raise ChangedBack("somebody replaces the status of AIMNamespaceConfig team/a", 32.0)
        written.append(entry.name)

    manager = SimpleNamespace(cache=cache, writer=SimpleNamespace(patch_status=patch_status))
    host: Any = SimpleNamespace(manager=manager, namespaces=())
    routes: Any = SimpleNamespace(report_to=lambda _: None, installed=True, problems={})
    controller = NamespaceConfigController(host, routes)
    assert await controller.reconcile(Key("team", "")) == 32.0
    assert written == ["b"]
