"""The set-up of ``kaiwo init`` without a cluster: differences, and what was changed meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.client.errors import ClientError, PluginFailed
from kaiwo.client.queue_setup import QueueSetupState, apply_setup, shown, with_predicted_labels
from kaiwo.engine.errors import AlreadyExists, Conflict
from kaiwo.plugin.controllers import ExtraController
from kaiwo.plugin.loader import load
from kaiwo.plugin.queue_setup import SetupChange
from kaiwo.plugin.registry import LoadedPlugin, Plugins
from kaiwo.testing import node

LIVE = {"metadata": {"name": "kaiwo", "uid": "u", "resourceVersion": "7"}}


def change(before: Any, after: Any, **more: Any) -> SetupChange:
    """A change of KaiwoConfig."""
    return SetupChange(KAIWO_CONFIG, "kaiwo", before, after, **more)


@pytest.mark.parametrize(
    ("before", "after", "action", "diff"),
    [
        (None, {"a": 1}, "create", ("+a: 1",)),
        ({"a": 1}, {"a": 1}, "unchanged", ()),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "update", ("@@ -1,2 +1,2 @@", " a: 1", "-b: 2", "+b: 3")),
        (None, {}, "create", ("+{}",)),
    ],
)
def test_a_difference_is_that_of_the_specs(before: Any, after: Any, action: str, diff: Any) -> None:
    """As a unified diff of YAML, without headers for what is new."""
    found = shown(change(before, after))
    assert (found.action, found.diff, found.written_by) == (action, diff, "init")
    assert shown(change(before, after, by_operator=True)).written_by == "operator"


class RecordingApi:
    """An API that keeps writes, or rejects them."""

    def __init__(self, error: Exception | None = None) -> None:
        self.writes: list[Any] = []
        self.error = error

    async def create(self, resource: Any, obj: Any, **more: Any) -> Any:
        """Keep it."""
        await self._write(("create", str(resource), obj["spec"], more))

    async def merge_patch(self, resource: Any, namespace: Any, name: str, patch: Any, **more: Any) -> Any:
        """Keep it."""
        await self._write(("patch", str(resource), namespace, name, patch, more))

    async def _write(self, what: Any) -> None:
        self.writes.append(what)
        if self.error is not None:
            raise self.error


async def test_only_what_differs_is_written_and_only_on_what_was_read() -> None:
    """A patch has the changed keys, null for those that go, and the version that was compared."""
    api = RecordingApi()
    live = {(KAIWO_CONFIG, "kaiwo"): LIVE}
    changes = (change({"a": 1, "b": [1], "c": 2}, {"a": 1, "b": [2]}), change({}, {"x": 1}, by_operator=True))
    await apply_setup(api, QueueSetupState(changes, live, (), "kaiwo"))  # type: ignore[arg-type]
    expected = {"uid": "u", "resource_version": "7", "field_manager": "kaiwo"}
    assert api.writes == [
        ("patch", str(KAIWO_CONFIG), None, "kaiwo", {"spec": {"b": [2], "c": None}}, expected)
    ]


@pytest.mark.parametrize("error", [AlreadyExists(409), Conflict(409)])
async def test_an_object_that_changed_meanwhile_is_not_overwritten(error: Exception) -> None:
    """The operator may have been quicker; the next run shows what is left."""
    state = QueueSetupState((change(None, {"a": 1}),), {}, (), "kaiwo")
    with pytest.raises(ClientError, match="KaiwoConfig kaiwo changed since it was read"):
        await apply_setup(RecordingApi(error), state)  # type: ignore[arg-type]


def test_a_node_without_a_pool_gets_the_predicted_one_and_others_keep_theirs() -> None:
    """What an operator or an administrator wrote goes before the prediction."""
    nodes = [node("new"), node("old", labels={"kaiwo/nodepool": "by-hand"})]
    found = with_predicted_labels(nodes, load(), ResolvedConfig.defaults())
    assert found[0]["metadata"]["labels"]["kaiwo/nodepool"].startswith("cpu-only-0gpu-")
    assert found[1] == nodes[1]


def test_a_plugin_that_cannot_predict_labels_is_named() -> None:
    """Its authors can mend it; the command called it a defect of Kaiwo."""

    def fail(*_: object) -> dict[str, dict[str, str]]:
        raise KeyError("cpu")

    extra = ExtraController("pools", "acme:build", node_labels=fail, plugin="acme")
    plugins = Plugins((LoadedPlugin("acme", "kaiwo-acme", "1", "kaiwo_acme.plugin", controllers=(extra,)),))
    with pytest.raises(
        PluginFailed, match="plugin acme failed to predict the labels of nodes: KeyError: 'cpu'"
    ):
        with_predicted_labels([node("new")], plugins, ResolvedConfig.defaults())
