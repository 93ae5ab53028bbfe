"""What a pod requests of a node, as the Kubernetes scheduler counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.quantity import Quantity, quantity
from kaiwo.workload.json_access import lenient_map, lenient_maps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.engine.resource import Object

Amounts = dict[str, Quantity]


def is_sidecar(init_container: Object) -> bool:
    """Whether an init container runs for as long as the containers of its pod do."""
    return init_container.get("restartPolicy") == "Always"


def lasting_containers(spec: Object) -> list[Object]:
    """The containers of a pod that run together until its end, sidecars last.

    Args:
        spec: a pod's spec.
    """
    return [
        *lenient_maps(spec.get("containers")),
        *filter(is_sidecar, lenient_maps(spec.get("initContainers"))),
    ]


def pod_requests(spec: Object) -> Amounts:
    """The amounts of each resource that a pod needs: its containers together, or one init container if more.

    What the spec says of the pod as a whole counts in their place (Kubernetes 1.34).

    Args:
        spec: a pod's spec, live or in a template. A limit without a request is a request, too.
    """
    total: Amounts = {}
    for container in lenient_maps(spec.get("containers")):
        _add(total, _requests(container))
    running: Amounts = {}
    largest: Amounts = {}
    for container in lenient_maps(spec.get("initContainers")):
        requests = _requests(container)
        if is_sidecar(container):
            # It goes on beside the containers, and beside the init containers after it.
            _add(running, requests)
            _add(total, requests)
            _raise_to(largest, running)
            continue
        beside = dict(running)
        _add(beside, requests)
        _raise_to(largest, beside)
    _raise_to(total, largest)
    whole = lenient_map(spec.get("resources"))
    limits = _quantities(lenient_map(whole.get("limits")))
    total = {**limits, **total, **_quantities(lenient_map(whole.get("requests")))}
    _add(total, _quantities(lenient_map(spec.get("overhead"))))
    return total


def _requests(container: Object) -> Amounts:
    resources = lenient_map(container.get("resources"))
    return {
        **_quantities(lenient_map(resources.get("limits"))),
        **_quantities(lenient_map(resources.get("requests"))),
    }


def _quantities(values: Mapping[str, object]) -> Amounts:
    found = {key: quantity(value) for key, value in values.items()}
    return {key: value for key, value in found.items() if value is not None}


def _add(total: Amounts, more: Amounts) -> None:
    for key, amount in more.items():
        before = total.get(key)
        total[key] = amount if before is None else before + amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for key, amount in least.items():
        if key not in total or total[key] < amount:
            total[key] = amount
