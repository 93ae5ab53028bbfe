"""Whether a flavor lets in pods, by the rules of Kueue's scheduler (pkg/scheduler/flavorassigner)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.plugin.kit.scheduling import expression_matches, required_node_terms, tolerated

if TYPE_CHECKING:
    from collections.abc import Collection

    from kaiwo.plugin.kit.kinds import Object


def lets_in(flavor: Object, keys: Collection[str], pod: Object) -> bool:
    """Whether pods may run on the nodes of a flavor, as far as Kueue looks.

    Args:
        flavor: spec of the ResourceFlavor.
        keys: labels of all flavors of the resource group; Kueue ignores what pods say of others.
        pod: spec of the pods.
    """
    tolerations = [*lenient_maps(pod.get("tolerations")), *lenient_maps(flavor.get("tolerations"))]
    if not tolerated(lenient_maps(flavor.get("nodeTaints")), tolerations):
        return False
    labels = lenient_map(flavor.get("nodeLabels"))
    selector = lenient_map(pod.get("nodeSelector"))
    if any(labels.get(key) != value for key, value in selector.items() if key in keys):
        return False
    terms = [
        [item for item in lenient_maps(term.get("matchExpressions")) if lenient_text(item.get("key")) in keys]
        for term in required_node_terms(pod)
    ]
    # A term that says nothing of these labels matches, and the terms are alternatives.
    return (
        not all(terms)
        or not terms
        or any(all(expression_matches(item, labels) for item in term) for term in terms)
    )
