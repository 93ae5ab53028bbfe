"""The pod that submits the job to its Ray cluster."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import as_map, as_maps, without_nulls
from kaiwo.plugin.kit.render import completed, contributed, identity, merged, restricted_pod, set_metadata

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.render import Origins
    from kaiwo.plugin.rendering import RenderInput

CONTAINER = "ray-job-submitter"
"""KubeRay's own name for it."""

RESOURCES = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
"""The resource requests of KubeRay's own submitter."""

_LIKE_THE_HEAD = ("schedulerName", "tolerations", "priorityClassName")
"""Fields without which the submitter could not run where the head does."""

_ACCOUNT = ("serviceAccountName", "serviceAccount")
"""Both names of the field; the API server takes either."""


def submitter(inp: RenderInput, template: object, head: Object, path: str, origins: Origins) -> Object:
    """The submitter's pod template: the embedded one with what it lacks, or a generated one.

    KubeRay's own has no labels of the workload, no pull secrets, no tolerations and no scheduler, so an image
    of a private registry would never run.

    Args:
        inp: the render input.
        template: the template the user embedded; None or absent for a generated one.
        head: the rendered pod spec of the Ray head.
        path: where the user writes the template.
        origins: where to note what came from where.

    Raises:
        SpecError: the embedded template has an impossible shape.
        PluginError: a plugin's contribution failed.
    """
    result: Object = without_nulls(as_map(template, path))
    pod = as_map(result.setdefault("spec", {}), f"{path}.spec")
    set_metadata(result, inp, f"{path}.metadata", origins)
    pod.setdefault("restartPolicy", "Never")
    for name in _LIKE_THE_HEAD:
        if name in head and name not in pod:
            pod[name] = copy.deepcopy(head[name])
            origins.note(f"{path}.spec.{name}", "system", "as of the Ray head")
    if not any(name in pod for name in _ACCOUNT):
        # It has pull secrets and rights of its own: an image that only it may pull would never run.
        for name in (*_ACCOUNT, "automountServiceAccountToken"):
            if name in head and name not in pod:
                pod[name] = head[name]
                origins.note(f"{path}.spec.{name}", "system", "as of the Ray head")
    if secrets := as_maps(head.get("imagePullSecrets"), f"{path}.spec.imagePullSecrets"):
        own = as_maps(pod.get("imagePullSecrets"), f"{path}.spec.imagePullSecrets")
        pod["imagePullSecrets"] = merged([*own, *(dict(item) for item in secrets)], ("name",))
    given = as_maps(pod.get("containers"), f"{path}.spec.containers")
    pod["containers"] = containers = given or [{"name": CONTAINER}]
    first = containers[0]
    _set_contexts(pod, head, f"{path}.spec", origins, generated=not given)
    if image := head["containers"][0].get("image"):
        first.setdefault("image", image)
    first["resources"] = completed(first, RESOURCES, f"{path}.spec.containers[0]", origins)
    return contributed(inp, result, path, origins)


def _set_contexts(pod: Object, head: Object, path: str, origins: Origins, *, generated: bool) -> None:
    """Let the submitter run as the head does, in place.

    A container that the user gave may need what the standard ``restricted`` forbids, so of a generated head
    it gets the user and the groups alone.
    """
    context = head.get("securityContext")
    if not generated and context == restricted_pod():
        context = identity()
    targets = [(pod, path, context)]
    if generated:
        first = head["containers"][0].get("securityContext")
        targets.append((pod["containers"][0], f"{path}.containers[0]", first))
    for target, where, wanted in targets:
        if wanted is not None and "securityContext" not in target:
            target["securityContext"] = copy.deepcopy(wanted)
            origins.note(f"{where}.securityContext", "system", "as of the Ray head")
