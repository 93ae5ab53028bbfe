"""Pod templates: generated where the user embedded none, completed where they did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.workload.json_access import as_map, as_maps, as_strings, check_beside_spec, is_blank, without_nulls
from kaiwo.workload.labels import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from kaiwo.workload.metadata import embedded, layered, system_labels
from kaiwo.workload.pods.contributions import contributed
from kaiwo.workload.pods.entrypoint import command, finished_script
from kaiwo.workload.pods.environment import set_environment
from kaiwo.workload.pods.list_merge import merged, tidy
from kaiwo.workload.pods.placement import place
from kaiwo.workload.pods.resources import Needs, resources_of_pod, spec_defaults, with_resources
from kaiwo.workload.pods.security import set_contexts
from kaiwo.workload.pods.volumes import add_volumes

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import RenderInput
    from kaiwo.workload.pods.origins import Origins


_TEMPLATE_FIELDS = ("metadata", "spec")
_LOG_TELLS_SINCE = 3
"""The first version of the generated templates in which the log of a failed container says why it failed.

The default of Kubernetes is a file that few programs write, so rules would have nothing but exit codes."""

_FINISHES_SCRIPTS_SINCE = 4
"""The first version of the generated templates without a backslash at the end of a script."""

_SHARES_SINCE = 4
"""The first version of the generated templates in which containers share the resources of their pod."""


@dataclass(frozen=True, slots=True)
class PodRole:
    """Which pod of a workload a template is for.

    Attributes:
        path: where the user writes the template (``spec.job.spec.template``).
        container: name of the generated primary container.
        restart_policy: what is filled in where the template says nothing.
        shm: size of the shared memory of a generated template.
        gpus: whether the pod gets the workload's GPUs; a Ray head gets none.
        entrypoint: whether the entrypoint becomes the primary container's command.
        memory: memory of the primary container that goes before ``spec.resources``, empty for none.
        memory_from: the setting that it comes from, in words.
    """

    path: str
    container: str = "workload"
    restart_policy: str = "Never"
    shm: str = "1Gi"
    gpus: bool = True
    entrypoint: bool = True
    memory: str = ""
    memory_from: str = ""


def pod_template(
    inp: RenderInput, template: object, role: PodRole, origins: Origins
) -> tuple[Object, list[str]]:
    """The complete pod template of one role, and warnings.

    Args:
        inp: the render input.
        template: the template the user embedded; absent or blank for a generated one.
        role: which pod it is for.
        origins: where to note what came from where.

    Raises:
        SpecError: the embedded template or the workload's own fields make it impossible.
        PluginError: a plugin's contribution failed.
    """
    generated = is_blank(template)
    embedded_one = as_map(template, role.path)
    check_beside_spec(embedded_one, role.path, _TEMPLATE_FIELDS, "pod template")
    result: Object = {} if generated else without_nulls(embedded_one)
    path = f"{role.path}.spec"
    pod = as_map(result.setdefault("spec", {}), path)
    _fill(pod, inp, role, generated, origins)
    set_metadata(result, inp, f"{role.path}.metadata", origins)
    _pull_secrets(pod, inp, path)
    if name := inp.resolved.priority_class:
        pod["priorityClassName"] = name
        origins.note(f"{path}.priorityClassName", "user", "spec.priorityClass")
    add_volumes(pod, inp, role.shm if generated else "", path, origins)
    primary = pod["containers"][0]
    set_environment(primary, inp, f"{path}.containers[0]", origins)
    if role.entrypoint and (words := command(_script(inp))):
        primary["command"] = words
        primary.pop("args", None)
        origins.note(f"{path}.containers[0].command", "user", "spec.entrypoint")
    warnings = _containers(pod, inp, role, generated, origins)
    placed = place(pod, inp.resolved, _gpu_keys(inp), path, origins)
    if role.gpus and inp.workload.spec.gpu_models and not placed:
        warnings.append("spec.gpuModels is ignored: the workload requests no GPUs")
    result = contributed(inp, result, role.path, origins)
    for group in ("containers", "initContainers"):
        for position, container in enumerate(as_maps(result["spec"].get(group), f"{path}.{group}")):
            warnings += tidy(container, f"{path}.{group}[{position}]")
    return result, warnings


def _script(inp: RenderInput) -> str:
    text = inp.workload.spec.entrypoint or ""
    return finished_script(text) if inp.resolved.template_version >= _FINISHES_SCRIPTS_SINCE else text


def _gpu_keys(inp: RenderInput) -> tuple[str, ...]:
    key = inp.resolved.allocation.resource_key
    return (*inp.resolved.vendor_keys, key) if key else inp.resolved.vendor_keys


def _fill(pod: Object, inp: RenderInput, role: PodRole, generated: bool, origins: Origins) -> None:
    """What makes the pod valid, and for a generated one our defaults."""
    path = f"{role.path}.spec"
    if "restartPolicy" not in pod:
        pod["restartPolicy"] = role.restart_policy
        origins.note(f"{path}.restartPolicy", "default", "the restart policy of this kind of workload")
    pod["containers"] = as_maps(pod.get("containers"), f"{path}.containers") or [{"name": role.container}]
    as_maps(pod.get("initContainers"), f"{path}.initContainers")
    if not generated:
        return
    container = pod["containers"][0]
    container["imagePullPolicy"] = "Always"
    if inp.resolved.template_version >= _LOG_TELLS_SINCE:
        container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    origins.note(f"{path}.containers[0]", "template", "the generated container")
    if inp.resolved.scheduler_name:
        pod["schedulerName"] = inp.resolved.scheduler_name
        origins.note(f"{path}.schedulerName", "config", "KaiwoConfig scheduling.kubeSchedulerName")
    if not inp.workload.spec.dangerous:
        set_contexts(pod, inp.resolved.template_version)
        for where in (path, f"{path}.containers[0]"):
            origins.note(f"{where}.securityContext", "template", "left out with spec.dangerous: true")


def set_metadata(template: Object, inp: RenderInput, path: str, origins: Origins) -> None:
    """Give a pod template its labels and annotations, in place.

    Labels: system, then podTemplateSpecLabels, then the template's, then the workload's.

    Args:
        template: the pod template.
        inp: the render input.
        path: where the user writes the metadata.
        origins: where to note what came from where.

    Raises:
        SpecError: the template's own metadata have an impossible shape.
    """
    spec = inp.workload.spec
    metadata = as_map(template.get("metadata"), path)
    labels = layered(
        f"{path}.labels",
        origins,
        (inp.resolved.labels, "user", "metadata.labels"),
        (embedded(as_strings(metadata.get("labels"), f"{path}.labels")), "user", f"{path}.labels"),
        (embedded(spec.pod_template_spec_labels or {}), "user", "spec.podTemplateSpecLabels"),
        (system_labels(inp.workload), "system", "by which Kaiwo finds what belongs to the workload"),
    )
    topology = {
        key: value
        for key, value in (
            (PREFERRED_TOPOLOGY, spec.preferred_topology_label),
            (REQUIRED_TOPOLOGY, spec.required_topology_label),
        )
        if value
    }
    annotations = layered(
        f"{path}.annotations",
        origins,
        (inp.resolved.annotations, "user", "metadata.annotations"),
        (
            embedded(as_strings(metadata.get("annotations"), f"{path}.annotations")),
            "user",
            f"{path}.annotations",
        ),
        (inp.queue.pod_annotations if inp.queue else {}, "queue", "what the queue system reads"),
        (topology, "user", "the topology label of the spec"),
    )
    others = {key: value for key, value in metadata.items() if key != "annotations"}
    template["metadata"] = {
        **others,
        "labels": labels,
        **({"annotations": annotations} if annotations else {}),
    }


def _pull_secrets(pod: Object, inp: RenderInput, path: str) -> None:
    own = as_maps(pod.get("imagePullSecrets"), f"{path}.imagePullSecrets")
    wanted = [secret.dump() for secret in inp.workload.spec.image_pull_secrets or ()]
    wanted += [{"name": name} for name in inp.resolved.image_pull_secrets]
    if own or wanted:
        pod["imagePullSecrets"] = merged([*own, *wanted], ("name",))


def _containers(pod: Object, inp: RenderInput, role: PodRole, generated: bool, origins: Origins) -> list[str]:
    """Image and resources of every container."""
    spec, allocation, keys = inp.workload.spec, inp.resolved.allocation, _gpu_keys(inp)
    defaults, warnings = spec_defaults(spec.resources, keys)
    asked = bool(spec.gpus or spec.gpus_per_replica)
    shares = inp.resolved.template_version >= _SHARES_SINCE
    of_pod = resources_of_pod(pod, f"{role.path}.spec") if shares else frozenset()
    claims = tuple(claim.dump() for claim in (spec.resources.claims or ())) if spec.resources else ()
    for group in ("initContainers", "containers"):
        for position, container in enumerate(pod.get(group) or ()):
            path = f"{role.path}.spec.{group}[{position}]"
            _image(container, inp, path, origins)
            primary = group == "containers" and position == 0
            needs = Needs(
                defaults=defaults,
                vendor_keys=keys,
                primary=primary,
                gpus=_gpus_of(role, asked, allocation.gpus_per_replica),
                gpu_key=allocation.resource_key,
                generated=generated,
                memory=role.memory if primary else "",
                memory_from=role.memory_from,
                claims=claims,
                of_pod=of_pod,
            )
            resources, more = with_resources(container, needs, path, origins)
            warnings += more
            if resources:
                container["resources"] = resources
            if primary and asked and role.gpus:
                for side in ("requests", "limits"):
                    origins.note(
                        f"{path}.resources.{side}.{allocation.resource_key}", "nodes", "spec.gpus, split"
                    )
    return warnings


def _gpus_of(role: PodRole, asked: bool, gpus: int) -> int | None:
    if not role.gpus:
        return 0
    return gpus if asked else None


def _image(container: Object, inp: RenderInput, path: str, origins: Origins) -> None:
    if container.get("image"):
        return
    if inp.workload.spec.image:
        container["image"] = inp.workload.spec.image
        origins.note(f"{path}.image", "user", "spec.image")
    elif inp.resolved.default_image:
        container["image"] = inp.resolved.default_image
        origins.note(f"{path}.image", "config", "KaiwoConfig ray.defaultRayImage")
