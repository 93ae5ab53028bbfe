"""Whether a flavor lets in pods, by the rules of Kueue's scheduler (pkg/scheduler/flavorassigner)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from kaiwo.plugin.kit.kinds import Object

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def lets_in(flavor: Object, keys: Collection[str], pod: Object) -> bool:
    """Whether pods may run on the nodes of a flavor, as far as Kueue looks.

    Args:
        flavor: spec of the ResourceFlavor.
        keys: labels of all flavors of the resource group; Kueue ignores what pods say of others.
        pod: spec of the pods.
    """
    tolerations = [*lenient_maps(pod.get("tolerations")), *lenient_maps(flavor.get("tolerations"))]
    taints = [t for t in lenient_maps(flavor.get("nodeTaints")) if t.get("effect") in _KEEPS_AWAY]
    if not all(any(_tolerates(one, taint) for one in tolerations) for taint in taints):
        return False
    labels = lenient_map(flavor.get("nodeLabels"))
    selector = lenient_map(pod.get("nodeSelector"))
    if any(labels.get(key) != value for key, value in selector.items() if key in keys):
        return False
    affinity = lenient_map(lenient_map(pod.get("affinity")).get("nodeAffinity"))
    required = lenient_map(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    terms = [
        [item for item in lenient_maps(term.get("matchExpressions")) if lenient_text(item.get("key")) in keys]
        for term in lenient_maps(required.get("nodeSelectorTerms"))
    ]
    # A term that says nothing of these labels matches, and the terms are alternatives.
    return not all(terms) or not terms or any(all(_matches(item, labels) for item in term) for term in terms)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key = toleration.get("key")
    if toleration.get("operator") == "Exists":
        return not key or key == taint.get("key")
    return key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def _matches(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
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
