"""The merge patch that makes a node show its pool, and removes what no longer applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map
from kaiwo.plugin.kit.names import GPU_MODEL
from kaiwo.plugin.kit.nodes import NODEPOOL, NODEPOOL_MERGED_FROM, NODEPOOL_PENDING, WORKER
from kaiwo_node_pools.pools import LABELS
from kaiwo_node_pools.written_record import WRITTEN, encode_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_node_pools.pools import PoolNode

TAINT_VALUE, TAINT_EFFECT = "true", "NoSchedule"


def node_patch(node: PoolNode, pool: str, taint: str) -> Object:
    """The merge patch for a node, empty when nothing has to change.

    Labels and the taint that somebody else wrote are not touched, even where they are equal to Kaiwo's.

    Args:
        node: the node.
        pool: its pool, empty for none.
        taint: key of the taint of GPU nodes, empty for none.
    """
    wanted: dict[str, str] = {}
    if pool:
        wanted = {WORKER: "true", **({} if node.pool_by_hand else {NODEPOOL: pool})}
        if node.gpu_model:
            wanted[GPU_MODEL] = node.gpu_model
        wanted |= node.topology
    written = {
        key: value for key, value in lenient_map(node.written.get("labels")).items() if isinstance(value, str)
    }
    labels, our_labels = _labels(node, wanted, written)
    taints, our_taint = _taints(node, taint if pool and node.gpu_model else "")
    record: Object = {
        **({"labels": our_labels} if our_labels else {}),
        **({"taint": our_taint} if our_taint else {}),
    }
    annotations: dict[str, str | None] = {}
    if record != node.written:
        annotations[WRITTEN] = encode_record(record)
    if node.pending:
        annotations[NODEPOOL_PENDING] = None
    merged_from = _merged_from(node, pool)
    if merged_from != node.merged_from:
        annotations[NODEPOOL_MERGED_FROM] = merged_from or None
    metadata: Object = {
        **({"labels": labels} if labels else {}),
        **({"annotations": annotations} if annotations else {}),
    }
    patch: Object = {"metadata": metadata} if metadata else {}
    if taints is not None:
        patch["spec"] = {"taints": taints or None}
    return patch


def pending_patch(node: PoolNode, pool: str) -> Object:
    """The merge patch for a node whose new pool has to wait, empty when the node is already annotated.

    Args:
        node: the node.
        pool: the pool that it is going to join, empty when it is going to leave all pools.
    """
    if node.pending == pool:
        return {}
    return {"metadata": {"annotations": {NODEPOOL_PENDING: pool or None}}}


def pool_left(node: PoolNode, patch: Object) -> str:
    """The pool whose label a patch removes or replaces, empty when it does neither."""
    labels = lenient_map(lenient_map(patch.get("metadata")).get("labels"))
    return node.labels.get(NODEPOOL, "") if NODEPOOL in labels else ""


def _merged_from(node: PoolNode, pool: str) -> str:
    """The node's pool before merging, empty when it was not merged with others."""
    if not pool or node.shape is None or node.pool_by_hand or node.shape.name == pool:
        return ""
    return node.shape.name


def _labels(
    node: PoolNode, wanted: Mapping[str, str], written: Mapping[str, str]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """The labels to change, and those that are Kaiwo's afterwards."""
    changes: dict[str, str | None] = {}
    ours: dict[str, str] = {}
    for key in LABELS:
        want, live = wanted.get(key), node.labels.get(key)
        is_ours = live is not None and written.get(key) == live
        if want is not None and (live is None or is_ours):
            ours[key] = want
            if live != want:
                changes[key] = want
        elif want is None and is_ours:
            changes[key] = None
    return changes, ours


def _taints(node: PoolNode, key: str) -> tuple[list[Object] | None, str]:
    """The whole new list of taints (None for no change), and the key of the taint that is Kaiwo's."""
    written = str(node.written.get("taint") or "")
    is_ours = (written, TAINT_EFFECT) in map(_identity, node.taints)
    if key and is_ours and written == key:
        return None, key
    kept = [taint for taint in node.taints if not (is_ours and _identity(taint) == (written, TAINT_EFFECT))]
    add = bool(key) and (key, TAINT_EFFECT) not in map(_identity, kept)
    if not add and len(kept) == len(node.taints):
        return None, ""
    ours: list[Object] = [{"key": key, "value": TAINT_VALUE, "effect": TAINT_EFFECT}] if add else []
    return [*kept, *ours], key if add else ""


def _identity(taint: Object) -> tuple[object, object]:
    """What is unique among the taints of a node."""
    return taint.get("key"), taint.get("effect")
