"""The rules by which schedulers let pods onto nodes: taints, tolerations, required node affinity.

Those of kube-scheduler, and of Kueue for the nodes of a flavor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.workload.json_access import lenient_map, lenient_maps, lenient_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaiwo.engine.resource import Object

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def tolerated(taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether no taint keeps pods with these tolerations away; those that only discourage do not."""
    given = list(tolerations)
    return all(
        any(_tolerates(toleration, taint) for toleration in given)
        for taint in taints
        if taint.get("effect") in _KEEPS_AWAY
    )


def required_node_terms(pod: Mapping[str, Any]) -> list[Object]:
    """The alternatives of the required node affinity of a pod's spec; empty where it requires nothing."""
    affinity = lenient_map(lenient_map(pod.get("affinity")).get("nodeAffinity"))
    required = lenient_map(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    return lenient_maps(required.get("nodeSelectorTerms"))


def expression_matches(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether labels are as a requirement of a node selector term demands.

    Args:
        expression: ``key``, ``operator`` and ``values``.
        labels: of the node, or its fields for a requirement of ``matchFields``.
    """
    key, values = lenient_text(expression.get("key")), expression.get("values") or []
    value = labels.get(key)
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt" as operator:
            try:
                left, right = int(str(value)), int(str(values[0]))
            except (ValueError, IndexError):
                return False
            return left > right if operator == "Gt" else left < right
    return False


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key = toleration.get("key")
    if toleration.get("operator") == "Exists":
        return not key or key == taint.get("key")
    return key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")
