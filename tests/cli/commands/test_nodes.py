"""``kaiwo nodes``: GPUs by vendor and model, who uses them, and what is not available."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.cli import live_completion
from kaiwo.cli.commands import nodes as command
from kaiwo.cli.options import GlobalOptions
from kaiwo.client.node_use import narrowed, nodes_from
from kaiwo.client.nodes import list_nodes
from kaiwo.engine.errors import Forbidden, NotFound
from kaiwo.plugin.loader import load
from kaiwo.plugin.queues import QueueSystem
from kaiwo.plugin.registry import LoadedPlugin
from kaiwo.plugin.selection import PluginSelection
from kaiwo.testing.golden import assert_golden
from kaiwo_sandbox.nodes import amd_node, nvidia_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.client.node_records import NodeList
    from kaiwo.engine.resource import Object, Resource

GOLDEN = Path(__file__).parents[1] / "golden"
PLUGINS = load(PluginSelection(names=("batch_job", "gpu_amd", "gpu_nvidia")))


def node(made: Object, *, pool: str = "", ready: bool = True, cordoned: bool = False, **taint: str) -> Object:
    """A node of the sandbox in some state."""
    status = "True" if ready else "False"
    condition = {"type": "Ready", "status": status, "message": "" if ready else "container runtime is down"}
    made["status"]["conditions"] = [condition]
    made["metadata"].setdefault("labels", {}).update({"kaiwo/nodepool": pool} if pool else {})
    made["spec"] = {"unschedulable": cordoned, "taints": [taint] if taint else []}
    return made


def pod(name: str, on: str, gpus: int, *, key: str = "amd.com/gpu", **more: Any) -> Object:
    """A pod of a Deployment, or of the KaiwoJob ``job``."""
    job = more.get("job", "")
    labels = {"name": job, "type": "job", "run-id": "r", "user": more.get("user", "")} if job else {}
    return {
        "metadata": {
            "name": name,
            "namespace": more.get("namespace", "team"),
            "labels": {f"kaiwo.silogen.ai/{key}": value for key, value in labels.items()},
            "ownerReferences": [] if job else [{"kind": "ReplicaSet", "name": "web", "controller": True}],
        },
        "spec": {"nodeName": on, "containers": [{"resources": {"requests": {key: str(gpus), "cpu": "2"}}}]},
        "status": {"phase": more.get("phase", "Running")},
    }


def scene() -> tuple[list[Object], list[Object]]:
    """Two vendors; one node is cordoned, one is not ready, one has no GPUs."""
    nodes = [
        node(amd_node("amd-1"), pool="amd-mi300x-8gpu", key="amd.com/gpu", value="true", effect="NoSchedule"),
        node(amd_node("amd-2"), pool="amd-mi300x-8gpu", cordoned=True),
        node(nvidia_node("nvidia-1"), ready=False),
        node({"metadata": {"name": "cpu-1"}, "status": {"allocatable": {"cpu": "32", "memory": "64Gi"}}}),
    ]
    pods = [
        pod("train-0", "amd-1", 4, job="train", user="ada"),
        pod("train-1", "amd-1", 1, job="train", user="ada"),
        pod("web-1", "amd-1", 2, namespace="web"),
        pod("done", "amd-1", 8, phase="Succeeded"),
        pod("waits", "", 8),
        pod("held", "amd-2", 3, job="held"),
        pod("tiny", "cpu-1", 0),
    ]
    return nodes, pods


def expecting() -> ResolvedConfig:
    """A configuration that names nodes of an autoscaler."""
    expected = [{"vendor": "amd", "model": "mi355x", "gpusPerNode": 8, "maxNodes": 4}]
    return ResolvedConfig.from_object(
        {"metadata": {"name": "kaiwo"}, "spec": {"nodes": {"expectedGpus": expected}}}
    )


def found() -> NodeList:
    """What is known of the scene."""
    flavors = {"mi300x": {"kaiwo/nodepool": "amd-mi300x-8gpu"}, "any": {}, "other": {"kaiwo/nodepool": "x"}}
    return nodes_from(*scene(), PLUGINS.vendors, expecting(), flavors)


def test_use_and_totals_by_vendor_and_model() -> None:
    """A pod counts on its node until it ends; what is cordoned or not ready is free for nobody."""
    known = {item.name: item for item in found().items}
    (gpus,) = known["amd-1"].gpus
    assert (gpus.vendor, gpus.model, gpus.allocatable, gpus.used, gpus.free) == ("amd", "mi300x", 8, 7, 1)
    users = known["amd-1"].used_by
    assert [(u.kind, u.namespace, u.name, u.user, u.gpus, u.pods) for u in users] == [
        ("KaiwoJob", "team", "train", "ada", 5, 2),
        ("ReplicaSet", "web", "web", "", 2, 1),
    ]  # fmt: skip
    states = {name: (item.state, sum(gpu.free for gpu in item.gpus)) for name, item in known.items()}
    assert states == {
        "amd-1": ("Ready", 1), "amd-2": ("Cordoned", 0), "nvidia-1": ("NotReady", 0), "cpu-1": ("Ready", 0),
    }  # fmt: skip
    totals = {(item.vendor, item.model): item for item in found().totals}
    amd = totals["amd", "mi300x"]
    assert (amd.nodes, amd.allocatable, amd.used, amd.free, amd.unavailable) == (2, 16, 10, 1, 5)
    assert (known["amd-1"].flavors, known["nvidia-1"].flavors) == (("mi300x",), ())
    assert known["amd-1"].taints == ("amd.com/gpu=true:NoSchedule",)
    assert known["nvidia-1"].reason == "container runtime is down"


def test_the_model_is_what_workloads_name() -> None:
    """By the label that an administrator set; a node of two vendors has each vendor's own."""
    by_hand = node({"metadata": {"name": "a"}, "status": {"allocatable": {"amd.com/gpu": "8"}}})
    by_hand["metadata"]["labels"]["kaiwo/gpu-model"] = "mi355x"
    both = node({"metadata": {"name": "b"}, "status": {"allocatable": {"amd.com/gpu": "1"}}})
    both["metadata"]["labels"] |= {"kaiwo/gpu-model": "h100", "nvidia.com/gpu.product": "H100"}
    both["status"]["allocatable"]["nvidia.com/gpu"] = "4"
    known = nodes_from([by_hand, both], [], PLUGINS.vendors, None)
    models = [(gpu.vendor, gpu.model) for item in known.items for gpu in item.gpus]
    assert models == [("amd", "mi355x"), ("amd", "unknown"), ("nvidia", "h100")]


def test_one_vendor_or_pool_only() -> None:
    """Totals and expectations are narrowed with the nodes."""
    one = narrowed(found(), vendor="nvidia")
    assert ([item.name for item in one.items], [item.vendor for item in one.totals]) == (
        ["nvidia-1"],
        ["nvidia"],
    )
    assert one.expected == ()
    assert [item.name for item in narrowed(found(), pool="amd-mi300x-8gpu").items] == ["amd-1", "amd-2"]


def test_overbooked_nodes_are_not_less_than_empty() -> None:
    """A node can lose GPUs below what pods request; nothing becomes negative."""
    known = nodes_from([node(amd_node("a"))], [pod("x", "a", 9)], PLUGINS.vendors, None)
    (total,) = known.totals
    assert (total.used, total.free, total.unavailable) == (9, 0, 0)


@pytest.mark.parametrize(("allocatable", "gpus"), [("0", "0 of 8 amd mi300x"), ("6", "6 of 8 amd mi300x")])
def test_a_node_whose_gpus_have_failed_is_shown(
    written: Callable[..., tuple[str, str]], allocatable: str, gpus: str
) -> None:
    """The administrator looks for exactly this node; it was counted among those without GPUs."""
    broken = node(amd_node("amd-1"))
    broken["status"]["allocatable"]["amd.com/gpu"] = allocatable
    known = nodes_from([broken, node(amd_node("amd-2"))], [], PLUGINS.vendors, None)
    unhealthy = 8 - int(allocatable)
    shown = {item.name: [(gpu.allocatable, gpu.unhealthy) for gpu in item.gpus] for item in known.items}
    assert shown == {"amd-1": [(int(allocatable), unhealthy)], "amd-2": [(8, 0)]}
    (total,) = known.totals
    assert (total.nodes, total.unavailable) == (2, unhealthy)
    assert gpus in written(known, 200)[0]


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """What the command writes to both streams: ``written(found, width=60)``."""

    def text(shown: NodeList, width: int = 0, **chosen: Any) -> tuple[str, str]:
        with pytest.MonkeyPatch.context() as patch:
            if width:
                patch.setattr("sys.stdout.isatty", lambda: True, raising=False)
                patch.setenv("COLUMNS", str(width))
            show = click.Command("show", callback=lambda: command.write(shown))
            capsys.readouterr()
            show.main([], standalone_mode=False, obj=GlobalOptions(**chosen))
        captured = capsys.readouterr()
        return captured.out, captured.err

    return text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_page_at_several_widths(written: Callable[..., tuple[str, str]], width: int) -> None:
    """No line is longer than the terminal, and no word is cut."""
    text = "\n".join(written(found(), width, color=False, output=form)[0] for form in ("table", "wide"))
    assert max(len(line) for line in text.splitlines()) <= width
    assert_golden(text, GOLDEN / f"nodes_{width}.txt")


def test_json_is_the_record_and_names_are_for_kubectl(written: Callable[..., tuple[str, str]]) -> None:
    """Programs get fields in camel case."""
    known = json.loads(written(found(), output="json")[0])
    assert known["items"][0]["usedBy"][0]["name"] == "train"
    assert known["expected"] == [{"vendor": "amd", "model": "mi355x", "nodes": 4, "gpusPerNode": 8}]
    assert written(found(), output="name")[0].splitlines()[0] == "node/amd-1"


class Api:
    """Answers lists from objects by plural; without rights as the API server does."""

    def __init__(self, nodes: list[Object], pods: list[Object], *, allowed: str = "") -> None:
        self.objects = {"nodes": nodes, "pods": pods}
        self.allowed = allowed

    async def list(
        self, kind: Resource, namespace: str | None = None, *, field_selector: str = ""
    ) -> AsyncIterator[Object]:
        """The objects; pods of the allowed namespace only where one is given."""
        del field_selector
        if self.allowed and kind.plural == "pods" and namespace != self.allowed:
            raise Forbidden(403, "Forbidden", "pods is forbidden")
        for obj in self.objects[kind.plural]:
            if namespace in (None, obj["metadata"].get("namespace")):
                yield obj

    async def get(self, kind: Resource, namespace: str | None, name: str) -> Object:
        """There is no KaiwoConfig, or it may not be read."""
        if self.allowed:
            raise Forbidden(403, "Forbidden", f"{kind} is forbidden")
        raise NotFound(404, "NotFound", f"{namespace}/{name}")


@pytest.mark.parametrize(
    ("allowed", "used", "unseen"),
    [
        ("", 7, []),
        ("team", 5, ["use by others", "expected nodes"]),
        ("nowhere", 0, ["use by others", "expected nodes"]),
    ],
)
def test_missing_rights_are_named(
    written: Callable[..., tuple[str, str]], allowed: str, used: int, unseen: list[str]
) -> None:
    """Without the right to others' pods a node may be less free than it seems, and the page says so."""
    api: Any = Api(*scene(), allowed=allowed)
    known = asyncio.run(list_nodes(api, PLUGINS, allowed or "team"))
    assert {item.name: item for item in known.items}["amd-1"].gpus[0].used == used
    assert [text.partition(":")[0] for text in known.unseen] == unseen
    err = written(known)[1]
    assert all(f"warning: not shown: {text}" in err for text in unseen)


def test_nodes_are_shown_although_the_plugin_of_their_flavors_fails() -> None:
    """The page says whose code it is; it was a defect of Kaiwo, without any node."""

    def fail(_: object) -> dict[str, dict[str, str]]:
        raise KeyError("spec")

    system = QueueSystem("acme", assign=fail, admission=fail, flavors=fail, plugin="acme")  # type: ignore[arg-type]  # not called
    acme = LoadedPlugin("acme", "kaiwo-acme", "1", "kaiwo_acme.plugin", queue_systems=(system,))
    api: Any = Api(*scene())
    known = asyncio.run(list_nodes(api, replace(PLUGINS, loaded=(*PLUGINS.loaded, acme)), "team"))
    assert {item.name: item for item in known.items}["amd-1"].gpus[0].used == 7
    assert "plugin acme failed to name the flavors of nodes: KeyError: 'spec'" in known.unseen


def test_no_nodes_say_what_to_do(written: Callable[..., tuple[str, str]]) -> None:
    """An empty result names the next command."""
    out, err = written(nodes_from([], [], PLUGINS.vendors, None))
    assert (out, err.startswith("no nodes match; kaiwo nodes shows all")) == ("", True)


def test_odd_objects_are_no_crash() -> None:
    """Another tool's node without a status, and a pod whose requests are no quantities."""
    odd = pod("x", "a", 1)
    odd["spec"]["containers"] = [{"resources": {"requests": {"amd.com/gpu": "many"}}}, "text"]
    known = nodes_from(
        [{"metadata": {"name": "a"}, "spec": None, "status": "x"}], [odd, {}], PLUGINS.vendors, None
    )
    assert (known.items[0].state, known.items[0].used_by) == ("NotReady", ())


def test_vendors_are_completed_without_a_cluster() -> None:
    """They are those of the loaded plugins; pools need a cluster, and without one the shell gets nothing."""
    ctx = click.Context(click.Command("nodes"), obj=GlobalOptions(kubeconfig="/nonexistent"))
    parameter = click.Option(["--vendor"])
    assert live_completion.gpu_vendors(ctx, parameter, "n") == ["nvidia"]
    assert live_completion.node_pools(ctx, parameter, "") == []
