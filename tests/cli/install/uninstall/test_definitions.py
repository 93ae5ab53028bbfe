"""``kaiwo uninstall`` when the API server does not finish the deletion of a definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kaiwo.cli.failures import Failure
from kaiwo.cli.uninstalling import run
from kaiwo.cli.uninstalling.run import Uninstallation
from kaiwo.engine.errors import Forbidden, NotFound
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION
from kaiwo.plugin.removals import Removal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.engine.resource import Object

DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kaiwojobs.kaiwo.silogen.ai", "uid": "u"},
}
FORGOTTEN = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionFailed",
    "message": "could not list instances:\nstorage is (re)initializing",
}
"""What the API server leaves in the status when an attempt failed."""


class ForgetfulServer:
    """Holds one definition whose deletion goes on only when it is changed.

    Args:
        refuses: whether it refuses changes.
    """

    def __init__(self, *, refuses: bool = False) -> None:
        self.live: Object | None = DEFINITION
        self.patches: list[Object] = []
        self._refuses = refuses

    async def get(self, *_: object) -> Object:
        """The definition."""
        if self.live is None:
            raise NotFound("gone")
        return self.live

    async def delete(self, *_: object, **__: object) -> Object:
        """Note the deletion, try it, and fail."""
        self.live = {**DEFINITION, "status": {"conditions": [FORGOTTEN]}}
        return self.live

    async def merge_patch(
        self, _kind: object, _namespace: object, _name: str, patch: Object, **_: Any
    ) -> Object:
        """Try again."""
        if self._refuses:
            raise Forbidden("no")
        self.patches.append(patch)
        self.live = None
        return DEFINITION

    async def list(self, *_: object, **__: object) -> AsyncIterator[Object]:
        """Nothing: no pod, no workload."""
        for obj in ():
            yield obj


async def removed(server: ForgetfulServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the definition, with short times."""
    monkeypatch.setattr(run, "_INTERVAL", 0.001)
    monkeypatch.setattr(run, "_RETRY_AFTER", 0.01)
    definitions = [Removal.of(CUSTOM_RESOURCE_DEFINITION, DEFINITION)]
    uninstallation = Uninstallation(
        cast("Any", server), cast("Any", None), cast("Any", None), timeout=0.2, say=lambda _: None
    )
    await uninstallation._remove(definitions, "Background")


async def test_a_deletion_that_the_api_server_gave_up_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a change of the definition: it would come back to it after five minutes only."""
    server = ForgetfulServer()
    await removed(server, monkeypatch)
    assert server.live is None
    (patch,) = server.patches
    assert set(patch) == {"metadata"}
    assert set(patch["metadata"]) == {"annotations"}


async def test_what_the_api_server_says_is_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for who may not change definitions."""
    with pytest.raises(Failure) as raised:
        await removed(ForgetfulServer(refuses=True), monkeypatch)
    assert "kaiwojobs.kaiwo.silogen.ai (could not list instances: storage is (re)initializing)" in str(
        raised.value
    )
