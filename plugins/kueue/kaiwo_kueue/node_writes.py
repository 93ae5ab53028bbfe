"""What to write on a node so that it shows its pool, and what to take back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import GPU_MODEL
from kaiwo_kueue.kinds import NODEPOOL, WORKER
from kaiwo_kueue.pools import LABELS
from kaiwo_kueue.wrote import WROTE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.engine.resource import Object
    from kaiwo_kueue.pools import PoolNode

TAINT_VALUE, TAINT_EFFECT = "true", "NoSchedule"


def pool_of(node: PoolNode, names: Mapping[str, str]) -> str:
    """The pool that a node belongs to, empty for none. A cordoned node keeps its own: its pods stay.

    Args:
        node: the node.
        names: names of pools that were merged, to the merged pool's name.
    """
    if node.shape is None:
        return ""
    return node.pool or names.get(node.shape.name, node.shape.name)


def node_patch(node: PoolNode, pool: str, taint: str) -> Object:
    """The merge patch for a node, empty when it is right as it is.

    Labels and the taint that somebody else wrote are left alone, also where they say what Kaiwo would.

    Args:
        node: the node.
        pool: its pool, empty for none.
        taint: key of the taint of GPU nodes, empty for none.
    """
    wanted: dict[str, str] = {}
    if pool:
        wanted = {WORKER: "true", **({} if node.pool else {NODEPOOL: pool})}
        if node.gpu_model:
            wanted[GPU_MODEL] = node.gpu_model
        wanted |= node.topology
    written = {
        key: value for key, value in lenient_map(node.wrote.get("labels")).items() if isinstance(value, str)
    }
    labels, ours = _labels(node, wanted, written)
    key = taint if pool and node.has_gpus else ""
    taints, our_taint = _taints(node, key)
    note: Object = {**({"labels": ours} if ours else {}), **({"taint": our_taint} if our_taint else {})}
    patch: Object = {}
    metadata: Object = {}
    if labels:
        metadata["labels"] = labels
    if note != node.wrote:
        text = msgspec.json.encode(note, order="sorted").decode() if note else None
        metadata["annotations"] = {WROTE: text}
    if metadata:
        patch["metadata"] = metadata
    if taints is not None:
        patch["spec"] = {"taints": taints or None}
    return patch


def _labels(
    node: PoolNode, wanted: Mapping[str, str], written: Mapping[str, str]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """What to change, and what is Kaiwo's afterwards."""
    changes: dict[str, str | None] = {}
    ours: dict[str, str] = {}
    for key in LABELS:
        want, there = wanted.get(key), node.labels.get(key)
        mine = there is not None and written.get(key) == there
        if want is not None and (there is None or mine):
            ours[key] = want
            if there != want:
                changes[key] = want
        elif want is None and mine:
            changes[key] = None
    return changes, ours


def _taints(node: PoolNode, key: str) -> tuple[list[Object] | None, str]:
    """The whole new list of taints (None for no change), and the key of the taint that is Kaiwo's."""
    written = str(node.wrote.get("taint") or "")
    there = {(name, effect) for name, _, effect in node.taints}
    mine = (written, TAINT_EFFECT) in there
    if key and mine and written == key:
        return None, key
    kept = [taint for taint in node.taints if not (mine and (taint[0], taint[2]) == (written, TAINT_EFFECT))]
    add = bool(key) and (key, TAINT_EFFECT) not in {(name, effect) for name, _, effect in kept}
    if not add and len(kept) == len(node.taints):
        return None, ""
    new = [*kept, (key, TAINT_VALUE, TAINT_EFFECT)] if add else kept
    taints = [
        {"key": name, **({"value": value} if value else {}), "effect": effect} for name, value, effect in new
    ]
    return taints, key if add else ""


def leaves(node: PoolNode, patch: Object) -> str:
    """The pool whose label a patch takes from a node, empty when it takes none."""
    labels = lenient_map(lenient_map(patch.get("metadata")).get("labels"))
    return node.labels.get(NODEPOOL, "") if NODEPOOL in labels else ""
