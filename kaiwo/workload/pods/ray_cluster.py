"""The Ray cluster in a RayJob or RayService: one head, and worker groups that get the workload's GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kaiwo.api.errors import shorten
from kaiwo.workload.errors import SpecError
from kaiwo.workload.gpus import allocation
from kaiwo.workload.json_access import (
    as_integer,
    as_map,
    as_maps,
    as_strings,
    is_blank,
    kind_of,
    lenient_map,
    lenient_maps,
    without_nulls,
)
from kaiwo.workload.metadata import MAX_LABEL
from kaiwo.workload.pods.field_names import check_field_names
from kaiwo.workload.pods.template import PodRole, pod_template

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.facts import Allocation, Blocked
    from kaiwo.plugin.rendering import AllocationInput, RenderInput
    from kaiwo.workload.pods.origins import Origins

WORKER_GROUP = "default-worker-group"
"""Name of the generated worker group."""

WORKER_SHARED_MEMORY = "200Gi"
"""Size of /dev/shm of generated workers: Ray keeps its object store there."""

MAX_POD_SETS = 8
"""Pod sets that Kueue's Workload and AppWrapper take; a Ray head and a submitter are one each."""

_GROUPS = ("headGroupSpec", "workerGroupSpecs")
_GROUP_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_COUNTS = ("replicas", "minReplicas", "maxReplicas")
_GROUP_FIELDS = ("groupName", "numOfHosts", "rayStartParams", "template", *_COUNTS)
_AUTOSCALER_V2 = "RAY_enable_autoscaler_v2"
"""The variable of a Ray head by which autoscaler v2 was chosen before KubeRay had a field for it."""
_GPUS_FOR_RAY = (("rayStartParams", "num-gpus"), ("resources", "GPU"))
"""Where a worker group may say how many GPUs Ray counts in each pod; the second since KubeRay 1.5."""


def check_cluster(cluster: object, path: str, others: Sequence[str]) -> None:
    """Look for shapes that cannot be rendered or run.

    Args:
        cluster: the embedded cluster spec.
        path: where the user writes it (``spec.rayJob.spec.rayClusterSpec``).
        others: names of the object's pod sets that are no worker groups.

    Raises:
        SpecError: what is wrong.
    """
    spec = as_map(cluster, path)
    check_field_names(spec, path, _GROUPS)
    head = as_map(spec.get("headGroupSpec"), f"{path}.headGroupSpec")
    _check_template(head, f"{path}.headGroupSpec")
    groups = as_maps(spec.get("workerGroupSpecs"), f"{path}.workerGroupSpecs")
    if len(groups) + len(others) > MAX_POD_SETS:
        raise SpecError(
            f"{path}.workerGroupSpecs",
            f"has {len(groups)} groups, at most {MAX_POD_SETS - len(others)} are possible: a queue takes "
            f"{MAX_POD_SETS} sets of pods; put pods of the same kind into one group",
        )
    taken = dict.fromkeys(others, "")
    for position, group in enumerate(groups):
        where = f"{path}.workerGroupSpecs[{position}]"
        _check_template(group, where)
        hosts = as_integer(group.get("numOfHosts"), f"{where}.numOfHosts")
        if hosts is not None and hosts < 1:
            raise SpecError(f"{where}.numOfHosts", f"must be at least 1, not {hosts}")
        _check_name(group.get("groupName"), f"{where}.groupName", taken)


def check_owner(spec: Object, path: str, known: Sequence[str], cluster: str) -> None:
    """Look in the spec of a RayJob or RayService for fields of its cluster, and fields in the wrong case.

    Args:
        spec: the embedded spec.
        path: where the user writes it.
        known: fields that it has; there may be more.
        cluster: where the user writes the cluster.

    Raises:
        SpecError: the first one.
    """
    check_field_names(spec, path, known, dict.fromkeys(_GROUPS, cluster))


def _check_name(name: object, path: str, taken: dict[str, str]) -> None:
    """Reject group names that a queue cannot distinguish; it would ignore the workload silently.

    Args:
        name: the name; one that is absent is filled in.
        path: where the user writes it.
        taken: names of pod sets so far, in lower case, to where they are; the new one is added.
    """
    if not name:
        return
    if not isinstance(name, str):
        raise SpecError(path, f"must be a string, not {kind_of(name)}; put it in quotes")
    known = name.lower()  # as in the names of pods, and in Kueue's names of pod sets
    if len(known) > MAX_LABEL or not _GROUP_NAME.fullmatch(known):
        raise SpecError(
            path,
            f"{name!r} cannot be part of the names of pods: use letters, digits and '-', with a letter or "
            f"digit at both ends, at most {MAX_LABEL} characters",
        )
    if known in taken:
        owner = taken[known] or f"the {known}'s own pods"
        raise SpecError(path, f"{name!r} is the name of {owner} already; each group needs one of its own")
    taken[known] = path


def _check_template(group: Object, path: str) -> None:
    place = f"{path}.template"
    below = {"metadata": place, "spec": place, "containers": f"{place}.spec"}
    check_field_names(group, path, _GROUP_FIELDS, below)
    template = as_map(group.get("template"), f"{path}.template")
    pod = as_map(template.get("spec"), f"{path}.template.spec")
    as_maps(pod.get("containers"), f"{path}.template.spec.containers")
    for name in ("rayStartParams", "resources", "labels"):
        as_strings(without_nulls(group.get(name)), f"{path}.{name}")


def allocate_cluster(inp: AllocationInput, cluster: object) -> Allocation | Blocked:
    """The split of GPUs over the workers: each pod of every group gets a replica's share.

    Where the workload requests none, those that the groups' templates request count.
    """
    groups = lenient_maps(lenient_map(cluster).get("workerGroupSpecs"))
    if inp.workload.spec.gpus or inp.workload.spec.gpus_per_replica:
        return allocation.spread(inp, sum(map(hosts_of, groups)) or 1)
    return allocation.written(
        inp, [(lenient_map(group.get("template")), hosts_of(group)) for group in groups]
    )


def hosts_of(group: Object) -> int:
    """Pods per replica of a worker group."""
    hosts = group.get("numOfHosts")
    return hosts if isinstance(hosts, int) and not isinstance(hosts, bool) and hosts > 0 else 1


def ray_cluster(inp: RenderInput, cluster: object, path: str, origins: Origins) -> tuple[Object, list[str]]:
    """The complete spec of a Ray cluster, and warnings.

    Args:
        inp: the render input.
        cluster: the cluster spec the user embedded; None or absent for a generated one.
        path: where the user writes it.
        origins: where to note what came from where.

    Raises:
        SpecError: the embedded spec has an impossible shape.
        PluginError: a plugin's contribution to the pods failed.
    """
    spec: Object = without_nulls(as_map(cluster, path))
    warnings = allocation.recalculated(inp.workload)
    if spec.get("enableInTreeAutoscaling"):
        warnings.append(
            f"{path}.enableInTreeAutoscaling is not used: a queue admits a fixed number of pods; "
            "set spec.replicas"
        )
    spec["enableInTreeAutoscaling"] = False
    origins.note(f"{path}.enableInTreeAutoscaling", "default", "a queue admits a fixed number of pods")
    warnings += _without_suspend(spec, path)
    spec["headGroupSpec"], found = _head(inp, spec.get("headGroupSpec"), f"{path}.headGroupSpec", origins)
    warnings += found
    groups = as_maps(spec.get("workerGroupSpecs"), f"{path}.workerGroupSpecs")
    warnings += _without_autoscaler(spec, groups, path)
    spec["workerGroupSpecs"] = workers = []
    for position, group in enumerate(groups or [{"groupName": WORKER_GROUP, "rayStartParams": {}}]):
        worker, found = _workers(inp, group, position, path, origins)
        workers.append(worker)
        warnings += found
    return spec, warnings


def _without_suspend(part: Object, path: str) -> list[str]:
    """Take `suspend` out of a cluster or a group, in place, with a warning: nobody would ever start it."""
    if not part.get("suspend"):
        return []
    del part["suspend"]
    return [f"{path}.suspend is not used: nobody would end it, and the pods would never start"]


def _without_autoscaler(spec: Object, groups: Sequence[Object], path: str) -> list[str]:
    """Take out what KubeRay refuses in a cluster that is not autoscaled, in place, with warnings."""
    warnings = []
    container = spec["headGroupSpec"]["template"]["spec"]["containers"][0]
    chosen = {"name": _AUTOSCALER_V2, "value": "1"}, {"name": _AUTOSCALER_V2, "value": "true"}
    if any(item in chosen for item in container["env"]):
        container["env"] = [item for item in container["env"] if item not in chosen]
        warnings.append(
            f"{path}.headGroupSpec: {_AUTOSCALER_V2} is not used: KubeRay refuses it without autoscaling"
        )
    if lenient_map(spec.get("autoscalerOptions")).get("version") == "v2":
        return warnings  # then KubeRay accepts the time
    for position, group in enumerate(groups):
        if group.pop("idleTimeoutSeconds", None) is not None:
            warnings.append(
                f"{path}.workerGroupSpecs[{position}].idleTimeoutSeconds is not used: the number of workers "
                "is fixed"
            )
    return warnings


def _head(inp: RenderInput, group: object, path: str, origins: Origins) -> tuple[Object, list[str]]:
    head = dict(as_map(group, path))
    if is_blank(group):
        # The dashboard is asked by Ray's operator, from another pod.
        head["rayStartParams"] = {"dashboard-host": "0.0.0.0"}  # noqa: S104 (inside the pod)
        origins.note(f"{path}.rayStartParams", "template", "the generated Ray head")
    _fill_start_params(head, path, origins)
    taken = inp.resolved.taken  # with the second name in children of earlier versions
    role = PodRole(
        path=f"{path}.template",
        container="ray-head",
        gpus=False,
        entrypoint=False,
        memory=taken.get("head_pod_memory") or taken.get("head_memory", ""),
        memory_from="KaiwoConfig ray.headPodMemory",
    )
    head["template"], warnings = pod_template(inp, head.get("template"), role, origins)
    return head, warnings


def _fill_start_params(group: Object, path: str, origins: Origins) -> None:
    """Make a group valid that gives none: KubeRay before 1.5 refuses it."""
    if "rayStartParams" not in group:
        group["rayStartParams"] = {}
        origins.note(f"{path}.rayStartParams", "default", "KubeRay before 1.5 requires it")


def _workers(
    inp: RenderInput, group: Object, position: int, path: str, origins: Origins
) -> tuple[Object, list[str]]:
    path = f"{path}.workerGroupSpecs[{position}]"
    worker = dict(group)
    warnings = _without_suspend(worker, path)
    if not worker.get("groupName"):
        worker["groupName"] = f"{WORKER_GROUP}-{position}" if position else WORKER_GROUP
        origins.note(f"{path}.groupName", "default", "a name of its own")
    _fill_start_params(worker, path, origins)
    count = inp.resolved.allocation.replicas
    warnings += [
        f"{path}.{name}: {shorten(given)} is not used, it is {count}; set spec.replicas instead"
        for name in _COUNTS
        if (given := worker.get(name)) is not None and given != count
    ]
    for name in _COUNTS:
        worker[name] = count
        origins.note(f"{path}.{name}", "nodes", "the GPU allocation")
    warnings += _start_params_warnings(inp, worker, path)
    role = PodRole(
        path=f"{path}.template", container="ray-worker", shm=WORKER_SHARED_MEMORY, entrypoint=False
    )
    worker["template"], found = pod_template(inp, worker.get("template"), role, origins)
    return worker, [*warnings, *found]


def _start_params_warnings(inp: RenderInput, worker: Object, path: str) -> list[str]:
    """The warning about a number of GPUs for Ray that is not that of the pod: Ray would leave some idle."""
    spec, each = inp.workload.spec, inp.resolved.allocation.gpus_per_replica
    if not (spec.gpus or spec.gpus_per_replica):
        return []
    return [
        f"{path}.{part}.{name}: Ray uses {given} GPUs of each pod, which has {each} from spec.gpus; "
        "remove it, KubeRay sets it"
        for part, name in _GPUS_FOR_RAY
        if (given := lenient_map(worker.get(part)).get(name)) is not None and given != str(each)
    ]


def cluster_of(status: Object) -> tuple[str, str] | None:
    """Kind and name of the RayCluster that a status of KubeRay names, which creates the pods."""
    name = status.get("rayClusterName")
    return ("RayCluster", name) if isinstance(name, str) and name else None
