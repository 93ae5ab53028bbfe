"""Which nodes a pod may use, as far as its node selector, node affinity and the nodes' taints say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.kit.kinds import Object

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def required_labels(place: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Labels of nodes with the values that a pod requires, as far as they are listed.

    Args:
        place: ``nodeSelector`` and ``affinity`` of the pod.
    """
    found = {key: frozenset({str(value)}) for key, value in lenient_map(place.get("nodeSelector")).items()}
    terms = _required_terms(place)
    for one in lenient_maps(terms[0].get("matchExpressions")) if len(terms) == 1 else ():
        if one.get("operator") == "In":
            key, values = lenient_text(one.get("key")), frozenset(map(str, one.get("values") or ()))
            found[key] = values & found.get(key, values)
    return found


def may_use(place: Mapping[str, Any], node: Object) -> bool:
    """Whether a pod may be scheduled to a node, apart from what the node has free.

    Args:
        place: ``nodeSelector``, ``affinity`` and ``tolerations`` of the pod.
        node: the node.
    """
    metadata, spec = lenient_map(node.get("metadata")), lenient_map(node.get("spec"))
    labels = lenient_map(metadata.get("labels"))
    if spec.get("unschedulable") is True:
        return False
    if any(labels.get(key) != value for key, value in lenient_map(place.get("nodeSelector")).items()):
        return False
    terms = _required_terms(place)
    name = lenient_text(metadata.get("name"))
    if terms and not any(_term(term, labels, name) for term in terms):
        return False
    tolerations = lenient_maps(place.get("tolerations"))
    return all(
        any(_tolerates(one, taint) for one in tolerations)
        for taint in lenient_maps(spec.get("taints"))
        if taint.get("effect") in _KEEPS_AWAY
    )


def _required_terms(place: Mapping[str, Any]) -> list[Object]:
    affinity = lenient_map(lenient_map(place.get("affinity")).get("nodeAffinity"))
    required = lenient_map(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    return lenient_maps(required.get("nodeSelectorTerms"))


def _term(term: Mapping[str, Any], labels: Mapping[str, Any], name: str) -> bool:
    expressions = lenient_maps(term.get("matchExpressions"))
    fields = lenient_maps(term.get("matchFields"))
    if not expressions and not fields:
        return False  # an empty term matches nothing
    return all(_matches(one, labels) for one in expressions) and all(
        _matches(one, {"metadata.name": name}) for one in fields
    )


def _matches(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, operator = lenient_text(expression.get("key")), expression.get("operator")
    values = expression.get("values") or []
    value = labels.get(key)
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt":
            try:
                left, right = int(str(value)), int(str(values[0]))
            except (ValueError, IndexError):
                return False
            return left > right if operator == "Gt" else left < right
    return False


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    effect = toleration.get("effect")
    if effect and effect != taint.get("effect"):
        return False
    key = toleration.get("key")
    if toleration.get("operator") == "Exists":
        return not key or key == taint.get("key")
    return key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")
