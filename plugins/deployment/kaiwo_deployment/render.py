"""From a KaiwoService to a Deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit import allocation
from kaiwo.plugin.kit.json_access import as_map, without_nulls
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
    if inp.resolved.allocation.gpus_per_replica and not spec.get("strategy"):
        # A surge pod would wait for GPUs that only the pods it is to replace can give back.
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
        origins.note(f"{BLOCK}.spec.strategy", "default", "a rollout takes no GPUs beyond its own")
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
