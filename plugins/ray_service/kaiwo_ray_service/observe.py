"""Reads the outcome of a KaiwoService from its live AppWrapper and the RayService in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit import pod_status
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, one_line
from kaiwo.plugin.kit.observe import check_pods, waiting, with_pods_before
from kaiwo.plugin.kit.pod_status import looping, works
from kaiwo.plugin.kit.values import parse_time
from kaiwo.plugin.observation import Outcome
from kaiwo.workload.observe.ray_workers import node_type, with_workers
from kaiwo.workload.pods.ray_cluster import cluster_of
from kaiwo_ray_service.applications import is_ready, not_running, unhealthy
from kaiwo_ray_service.kinds import RAY_SERVICE

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.observation import Observation

_REFUSED = "InvalidRayService"
"""How the reasons of KubeRay's events about a RayService that it refuses begin."""
_INVALID, _GIVEN_UP = "ValidationFailed", "InitializingTimeout"
"""Reasons of the condition Ready of a RayService that KubeRay 1.6 does not run, or not any more."""


def observe(seen: Observation) -> Outcome:
    """The outcome of a wrapped RayService: the first that holds of failed, reset, waiting, active."""
    status, spec = lenient_map(seen.child.get("status")), lenient_map(seen.child.get("spec"))
    name, phase = seen.workload.name, status.get("phase")
    if phase == "Failed":
        text = _unhealthy_text(status) or "too many resets, or it could not be deployed"
        text = with_pods_before(f"AppWrapper {name} failed: {text}", seen.recorded)
        return Outcome("FAILED", "WrapperFailed", text, completed=seen.now)
    if phase == "Resetting":
        text = _unhealthy_text(status) or "its pods were not healthy for too long"
        text = f"AppWrapper {name} deletes the service and starts it again: {text}"
        return Outcome("STARTING", "WrapperReset", with_pods_before(text, seen.recorded))
    pods = pod_status.current(seen.pods)
    suspended = phase in ("Suspended", "Suspending") or (bool(spec.get("suspend")) and not phase)
    if waits := waiting(seen, f"AppWrapper {name}", pods, suspended=suspended):
        return waits if waits.reason != "Suspended" or spec.get("suspend") else _new(name)
    if not phase:
        return _new(name)
    if not seen.secondary.get(RAY_SERVICE) and _is_refused(status):
        text = (
            f"the API server rejects the RayService in AppWrapper {name}; 'kubectl create "
            "--dry-run=server' with spec.rayService as a RayService of its own shows why"
        )
        return Outcome("STARTING", "FailedCreate", text)
    return active(seen, lenient_map(seen.secondary.get(RAY_SERVICE)), pods)


def _new(name: str) -> Outcome:
    """The first moments of a wrapper: its controller suspends it before it starts what is inside."""
    return Outcome("PENDING", "Starting", f"AppWrapper {name} is about to be started")


def _is_refused(status: Object) -> bool:
    """Whether AppWrapper could not create what is in it: it tries again for a day, and does not say why."""
    return any(
        item.get("type") == "ResourcesDeployed"
        and item.get("status") == "False"
        and item.get("reason") == "ComponentCreationErrored"
        for component in lenient_maps(status.get("componentStatus"))
        for item in lenient_maps(component.get("conditions"))
    )


def _unhealthy_text(status: Object) -> str:
    for item in lenient_maps(status.get("conditions")):
        if item.get("type") == "Unhealthy" and item.get("status") == "True":
            return " ".join(f"{item.get('reason', '')} {item.get('message', '')}".split())
    return ""


def active(seen: Observation, service: Object, pods: list[Object]) -> Outcome:
    """The outcome of a RayService that was started: broken applications, ready, running, starting.

    Args:
        seen: what is known of the child.
        service: the live RayService, empty while there is none.
        pods: pods of the current run.
    """
    name, started = seen.workload.name, pod_status.started(pods)
    if broken := unhealthy(service):
        return Outcome("ERROR", "ApplicationUnhealthy", broken, started=started)
    if refused := _refused_by_kuberay(seen, service, pods):
        return refused
    check = check_pods(
        seen,
        pods,
        f"the RayCluster of RayService {name}",
        parse_time(lenient_map(service.get("metadata")).get("creationTimestamp")),
        expected=seen.workload.status.start_time is None,
    )
    finding = check.finding
    crashing = any(looping(pod, seen.now, seen.recorded) for pod in pods)
    if is_ready(service) and not crashing:
        text = f"RayService {name} serves"
        return Outcome(
            status="READY",
            reason=finding.reason if finding else "Ready",
            message=f"{text}; {finding.message}" if finding else text,
            started=started,
            passed=("STARTING",),
            requeue_after=check.requeue_after,
        )
    waits = not_running(service)
    if any(works(pod, seen.now, seen.recorded) and _is_worker(pod) for pod in pods):
        text = f"the workers of RayService {name} run, it does not serve yet" + (
            f" ({waits})" if waits else ""
        )
        if crashing:
            text = f"not all pods of RayService {name} run"  # whether it serves changes with each crash
        return Outcome(
            status="RUNNING",
            reason=finding.reason if finding else "Running",
            message=f"{text}; {finding.message}" if finding else text,
            started=started,
            passed=("STARTING",),
            requeue_after=check.requeue_after,
        )
    cluster = lenient_map(service.get("spec")).get("rayClusterConfig")
    finding, requeue_after, needs_events = with_workers(check, seen, cluster, f"RayService {name}")
    return Outcome(
        status="STARTING",
        reason=finding.reason if finding else "Starting",
        message=finding.message if finding else f"no worker of RayService {name} runs yet",
        started=started,
        requeue_after=requeue_after,
        needs_events=seen.child if needs_events else None,
        pod_owner=_ray_cluster(service) or ("RayService", name),
    )


def _refused_by_kuberay(seen: Observation, service: Object, pods: list[Object]) -> Outcome | None:
    """The outcome of a RayService that KubeRay does not run: a condition says so, or an event alone."""
    what, event = f"KubeRay rejects RayService {seen.workload.name}", seen.warning_event
    status, metadata = lenient_map(service.get("status")), lenient_map(service.get("metadata"))
    # The condition stays after a correction, until the service is ready.
    known = status.get("observedGeneration") == metadata.get("generation") and pods
    for item in () if known else lenient_maps(status.get("conditions")):
        reason, said = item.get("reason"), one_line(item.get("message"))
        if item.get("type") == "Ready" and reason == _INVALID:
            return Outcome("ERROR", _INVALID, f"{what}: {said}")
        if item.get("type") == "Ready" and reason == _GIVEN_UP:
            text = f"KubeRay gave up RayService {seen.workload.name}: {said}"
            return Outcome("ERROR", _GIVEN_UP, with_pods_before(text, seen.recorded))
    if event is not None and not pods and event.reason.startswith(_REFUSED):
        return Outcome("ERROR", event.reason, f"{what}: {event.message}")
    return None


def _ray_cluster(service: Object) -> tuple[str, str] | None:
    """The RayCluster that is to serve, or serves."""
    status = lenient_map(service.get("status"))
    for name in ("pendingServiceStatus", "activeServiceStatus"):
        if found := cluster_of(lenient_map(status.get(name))):
            return found
    return None


def _is_worker(pod: Object) -> bool:
    return node_type(pod) != "head"
