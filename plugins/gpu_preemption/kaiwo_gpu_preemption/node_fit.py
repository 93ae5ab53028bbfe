"""Which nodes a pod may use, as far as its node selector, node affinity and the nodes' taints say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.plugin.kit.scheduling import expression_matches, required_node_terms, tolerated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.kit.kinds import Object


def required_labels(place: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Labels of nodes with the values that a pod requires, as far as they are listed.

    Args:
        place: ``nodeSelector`` and ``affinity`` of the pod.
    """
    found = {key: frozenset({str(value)}) for key, value in lenient_map(place.get("nodeSelector")).items()}
    terms = required_node_terms(place)
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
    terms = required_node_terms(place)
    name = lenient_text(metadata.get("name"))
    if terms and not any(_term(term, labels, name) for term in terms):
        return False
    return tolerated(lenient_maps(spec.get("taints")), lenient_maps(place.get("tolerations")))


def _term(term: Mapping[str, Any], labels: Mapping[str, Any], name: str) -> bool:
    expressions = lenient_maps(term.get("matchExpressions"))
    fields = lenient_maps(term.get("matchFields"))
    if not expressions and not fields:
        return False  # an empty term matches nothing
    return all(expression_matches(one, labels) for one in expressions) and all(
        expression_matches(one, {"metadata.name": name}) for one in fields
    )
