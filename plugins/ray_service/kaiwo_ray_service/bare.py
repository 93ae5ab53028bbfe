"""A RayService without an AppWrapper around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit import pod_status
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo.plugin.kit.observe import waiting
from kaiwo.plugin.kit.render import Origins, merged
from kaiwo.plugin.rendering import Rendered
from kaiwo_ray_service.observe import active
from kaiwo_ray_service.render import BLOCK, ray_service

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.observation import Observation, Outcome
    from kaiwo.plugin.rendering import RenderInput

_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_CONFIG = "rayClusterConfig"


def render(inp: RenderInput) -> Rendered:
    """The RayService of a workload.

    Whether it is suspended is never sent: a queue decides that at the creation and from then on.

    Raises:
        SpecError: the embedded RayService has an impossible shape.
        PluginError: a plugin's contribution to the pods failed.
    """
    origins = Origins(f"{BLOCK}.")
    child, warnings = ray_service(inp, origins)
    child["spec"][_CONFIG].pop("suspend", None)
    return Rendered(child, warnings=tuple(warnings), origins=origins.known())


def observe(seen: Observation) -> Outcome:
    """The status of a bare RayService."""
    spec = lenient_map(seen.child.get("spec"))
    suspended = bool(lenient_map(spec.get(_CONFIG)).get("suspend"))
    pods = pod_status.current(seen.pods)
    if waits := waiting(seen, f"RayService {seen.workload.name}", pods, suspended=suspended):
        return waits
    return active(seen, seen.child, pods)


def merge(desired: Object, live: Object) -> Object:
    """The wanted RayService with what a queue put into its pod templates.

    Worker groups are a list that an apply replaces as a whole, and so are a pod's tolerations; without this
    every change would take the queue's node selectors, tolerations and gates away.
    """
    if _QUEUE_NAME not in lenient_map(lenient_map(live.get("metadata")).get("labels")):
        return desired
    config = lenient_map(lenient_map(desired.get("spec")).get(_CONFIG))
    there = lenient_map(lenient_map(live.get("spec")).get(_CONFIG))
    known = {item.get("groupName"): item for item in lenient_maps(there.get("workerGroupSpecs"))}
    groups = [
        _group(group, lenient_map(known.get(group.get("groupName"))))
        for group in lenient_maps(config.get("workerGroupSpecs"))
    ]
    head = _group(lenient_map(config.get("headGroupSpec")), lenient_map(there.get("headGroupSpec")))
    combined = {**config, "headGroupSpec": head, "workerGroupSpecs": groups}
    return {**desired, "spec": {**desired["spec"], _CONFIG: combined}}


def _group(wanted: Object, live: Object) -> Object:
    template = lenient_map(wanted.get("template"))
    there = lenient_map(lenient_map(live.get("template")).get("spec"))
    pod = dict(lenient_map(template.get("spec")))
    if selector := lenient_map(there.get("nodeSelector")):
        pod["nodeSelector"] = {**selector, **lenient_map(pod.get("nodeSelector"))}
    for name, keys in (
        ("tolerations", ("key", "operator", "value", "effect")),
        ("schedulingGates", ("name",)),
    ):
        own, theirs = lenient_maps(pod.get(name)), lenient_maps(there.get(name))
        if theirs:
            pod[name] = _union(own, theirs, keys)
    return {**wanted, "template": {**template, "spec": pod}}


def _union(own: list[Object], theirs: list[Object], keys: tuple[str, ...]) -> list[Object]:
    """Both lists in the order of the live one, so that nothing changes where nothing is new."""
    return merged([*theirs, *own], keys) if all(_plain(item, keys) for item in (*own, *theirs)) else own


def _plain(item: Object, keys: tuple[str, ...]) -> bool:
    return all(isinstance(item.get(key), str | None) for key in keys)
