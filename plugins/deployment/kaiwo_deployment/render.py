"""From a KaiwoService to a Deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit import allocation
from kaiwo.plugin.kit.json_access import as_map, lenient_map, without_nulls
from kaiwo.plugin.kit.names import NAME, RUN_ID
from kaiwo.plugin.kit.render import Origins, PodRole, child_metadata, pod_template, system_labels
from kaiwo.plugin.rendering import Rendered
from kaiwo_deployment.service import service

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.rendering import RenderInput

BLOCK = "spec.deployment"
APP = "app"
"""Label of the pods with the workload's name. Pods of others may have the same."""

_SELECTS_RUN_SINCE = 2
"""The first version of the generated templates whose selector has the label of the run."""

_SELECTS_BOTH_SINCE = 4
"""The first version of the generated templates whose selector has both labels."""

_SPARES_VOLUMES_SINCE = 4
"""The first version of the generated templates that leaves volumes of one node to the old pods."""

_SINGLE_NODE = ("ReadWriteOnce", "ReadWriteOncePod")


def render(inp: RenderInput) -> Rendered:
    """The Deployment of a workload, and its Service where the primary container declares ports.

    Raises:
        SpecError: the embedded Deployment has an impossible shape.
        PluginError: a plugin's contribution to the pods failed.
    """
    origins = Origins(f"{BLOCK}.")
    block = as_map(inp.workload.blocks.get("deployment"), BLOCK)
    spec: Object = without_nulls(as_map(block.get("spec"), f"{BLOCK}.spec"))
    warnings = allocation.recalculated(inp.workload)
    warnings += _replicas(spec, inp, origins)
    warnings += _selector(spec, inp, origins)
    warnings += _strategy(spec, inp, origins)
    role = PodRole(path=f"{BLOCK}.spec.template", restart_policy="Always")
    template, more = pod_template(inp, spec.get("template"), role, origins)
    more += _app_label(template["metadata"]["labels"], inp.workload.name)
    origins.note(f"{BLOCK}.spec.template.metadata.labels.{APP}", "system", "the workload's name")
    spec["template"] = template
    child = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": child_metadata(inp, block, BLOCK, origins),
        "spec": spec,
    }
    secondary, port_warnings = service(inp.workload, template["spec"]["containers"][0], _pod_labels(inp))
    return Rendered(
        child, warnings=(*warnings, *more, *port_warnings), origins=origins.known(), secondary=secondary
    )


def _strategy(spec: Object, inp: RenderInput, origins: Origins) -> list[str]:
    """Set the strategy of a rollout that cannot start new pods beside the old ones, in place.

    A surge pod would wait for GPUs, or for a volume, that only the pods it is to replace can give back. What
    an embedded Deployment says stays, with a warning where a volume blocks it.
    """
    given, mode = spec.get("strategy"), _single_node_mode(inp)
    if given:
        return _surges(lenient_map(given), mode) if mode else []
    why = ""
    if inp.resolved.allocation.gpus_per_replica:
        why = "a rollout takes no GPUs beyond its own"
    elif mode and inp.resolved.template_version >= _SPARES_VOLUMES_SINCE:
        why = f"new pods wait for the {mode} volume of the old ones"
    if why:
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
        origins.note(f"{BLOCK}.spec.strategy", "default", why)
    return []


def _surges(strategy: Object, mode: str) -> list[str]:
    """A warning where an embedded strategy starts new pods before old ones have ended."""
    surge = lenient_map(strategy.get("rollingUpdate")).get("maxSurge")
    if strategy.get("type") == "Recreate" or surge in (0, "0%"):
        return []
    text = (
        f"{BLOCK}.spec.strategy: a rollout starts new pods beside the old ones, and these hold the {mode} "
        "volume, so it may never end; write type Recreate, or rollingUpdate with maxSurge 0 and "
        "maxUnavailable 1"
    )
    return [text]


def _single_node_mode(inp: RenderInput) -> str:
    """The access mode of the workload's volumes where pods on other nodes cannot use them; else empty."""
    storage = inp.workload.spec.storage
    if storage is None or not storage.storage_enabled or storage.access_mode not in _SINGLE_NODE:
        return ""
    sections = (storage.data, storage.hugging_face)
    return storage.access_mode if any(part and part.storage_size for part in sections) else ""


def _app_label(labels: dict[str, str], name: str) -> list[str]:
    """Give the pods the label with the workload's name, in place; a warning where they had another one."""
    given = labels.get(APP, name)
    labels[APP] = name
    if given == name:
        return []
    text = f"Services and policies that select pods by {APP}={given} find none; use another label for them"
    return [f"label {APP}={given} of the pods is not used, it is {name}: {text}"]


def _replicas(spec: Object, inp: RenderInput, origins: Origins) -> list[str]:
    wanted, given = inp.resolved.allocation.replicas, spec.get("replicas")
    spec["replicas"] = wanted
    origins.note(f"{BLOCK}.spec.replicas", "user", "spec.replicas")
    if given is None or given == wanted:
        return []
    return [f"{BLOCK}.spec.replicas: {given} is not used, it is {wanted}; set spec.replicas instead"]


def _pod_labels(inp: RenderInput) -> dict[str, str]:
    """The labels by which the Deployment and its Service find the pods, and no pods of others.

    A Deployment keeps its selector, which is immutable. A workload that was never sent to a cluster has no
    uid yet: then its name takes the place.
    """
    version, app = inp.resolved.template_version, {APP: inp.workload.name}
    if version < _SELECTS_RUN_SINCE:
        return app
    labels = system_labels(inp.workload)
    key = RUN_ID if RUN_ID in labels else NAME
    run = {key: labels[key]}
    return {**app, **run} if version >= _SELECTS_BOTH_SINCE else run


def _selector(spec: Object, inp: RenderInput, origins: Origins) -> list[str]:
    labels = _pod_labels(inp)
    wanted, given = {"matchLabels": labels}, spec.get("selector")
    spec["selector"] = wanted
    origins.note(f"{BLOCK}.spec.selector", "system", "labels that only pods of the workload have")
    if not given or given == wanted:
        return []
    return [f"{BLOCK}.spec.selector is not used: pods are found by {' and '.join(labels)}"]
