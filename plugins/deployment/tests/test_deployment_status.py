from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.workload import Workload
from kaiwo.plugin.observation import Finding, Observation, Outcome
from kaiwo.plugin.queues import Admission
from kaiwo.testing import service
from kaiwo.testing.builders import NOW
from kaiwo_deployment.observe import observe

NEW, OLD = "chat-new", "chat-old"
STARTED = "2026-01-02T03:04:05Z"


def pod(
    name: str, revision: str = NEW, *, state: Any = None, gated: bool = False, born: str = STARTED
) -> dict[str, Any]:
    """A pod of a revision; running by default."""
    state = {"running": {"startedAt": STARTED}} if state is None else state
    return {
        "metadata": {
            "name": name,
            "labels": {"kueue.x-k8s.io/managed": "true"},
            "creationTimestamp": born,
            "ownerReferences": [{"kind": "ReplicaSet", "name": revision, "controller": True}],
        },
        "spec": {
            "nodeName": "n",
            **({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]} if gated else {}),
        },
        "status": {"phase": "Pending", "containerStatuses": [{"name": "c", "image": "i", "state": state}]},
    }


WAITS = {"waiting": {"reason": "ContainerCreating"}}
PULLS = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
CRASHES = {"waiting": {"reason": "CrashLoopBackOff"}}
QUOTA = Admission("pending", "Pending", "insufficient quota for amd.com/gpu")
ADMITTED = Admission("admitted", "Admitted", "The workload is admitted")
GATED = pod("g", state=WAITS, gated=True)


def status(
    updated: int, total: int, available: int, *, stuck: bool = False, generation: int = 3, **more: Any
) -> dict[str, Any]:
    """A Deployment's status as its controller writes it."""
    return {
        "observedGeneration": generation,
        "updatedReplicas": updated,
        "replicas": total,
        "availableReplicas": available,
        "conditions": [
            {
                "type": "Progressing",
                "status": "False" if stuck else "True",
                "reason": "ProgressDeadlineExceeded" if stuck else "ReplicaSetUpdated",
                "message": f'ReplicaSet "{NEW}" is progressing.',
            }
        ],
        **more,
    }


def seen(
    state: Any,
    *pods: Any,
    replicas: int = 2,
    queued: bool = False,
    admission: Any = None,
    warning_event: Finding | None = None,
    scaler: str = "",
    **spec: Any,
) -> Outcome:
    """What is made of a Deployment."""
    child = {
        "metadata": {"name": "chat", "uid": "u", "generation": 3},
        "spec": {"replicas": replicas, "progressDeadlineSeconds": 60, **spec},
        "status": state,
    }
    workload = Workload.from_object(service())
    owners = {("spec", "replicas"): scaler} if scaler else {}
    return observe(
        Observation(workload, child, pods, admission, queued, NOW, warning_event=warning_event, owners=owners)
    )


RUN, RUN2 = pod("a"), pod("b")


@pytest.mark.parametrize(
    ("found", "word", "reason"),
    [
        (seen(status(2, 2, 2), RUN, RUN2), "READY", "Ready"),
        (seen(status(2, 3, 2), RUN, RUN2), "RUNNING", "Running"),
        (seen(status(2, 2, 1), RUN, RUN2), "RUNNING", "Running"),
        (seen(status(2, 2, 2, generation=2), RUN, RUN2), "RUNNING", "Running"),
        (seen(status(0, 0, 0), replicas=0), "PENDING", "ScaledToZero"),
        (seen(status(1, 2, 1), pod("n", state=WAITS), pod("o", OLD)), "STARTING", "Starting"),
        (seen(status(1, 1, 0), pod("n", state=PULLS)), "STARTING", "ErrImagePull"),
        (seen(status(1, 1, 0), pod("n", state=CRASHES)), "STARTING", "CrashLoopBackOff"),
        (seen(status(2, 2, 1), RUN, pod("n", state=CRASHES)), "RUNNING", "CrashLoopBackOff"),
        (seen(status(1, 1, 0, stuck=True), pod("n", state=PULLS)), "ERROR", "ProgressDeadlineExceeded"),
        (seen(status(1, 1, 0, stuck=True), pod("n", state=WAITS, gated=True)), "PENDING", "Queued"),
        (seen(status(2, 2, 1), RUN, pod("g", state=WAITS, gated=True)), "RUNNING", "Queued"),
        (seen({}, queued=True), "PENDING", "Queued"),
        (seen({}), "STARTING", "Starting"),
        (seen(None), "STARTING", "Starting"),
        (seen(status(0, 0, 0), queued=True, admission=QUOTA), "PENDING", "Pending"),
        (seen(status(1, 1, 0), GATED, queued=True, admission=ADMITTED), "STARTING", "Starting"),
        (seen(status(2, 2, 1), RUN, GATED, queued=True, admission=ADMITTED), "RUNNING", "Queued"),
    ],
)
def test_what_a_live_deployment_means(found: Outcome, word: str, reason: str) -> None:
    """One row per documented state, and the combinations that are easily mistaken."""
    assert (found.status, found.reason) == (word, reason)
    assert "\n" not in found.message


@pytest.mark.parametrize(
    ("scaler", "said"),
    [
        ("", "set spec.replicas to start it"),
        ("kaiwo", "set spec.replicas to start it"),
        ("kube-controller-manager", "by a HorizontalPodAutoscaler (field manager kube-controller-manager)"),
        ("keda", "by KEDA, for a ScaledObject (field manager keda)"),
        ("kubectl", "by kubectl; spec.replicas, 1, is not used"),
    ],
)
def test_who_scaled_a_deployment_to_zero_is_said(scaler: str, said: str) -> None:
    """Replicas that another manager owns are not those of the workload: to set them there starts nothing."""
    found = seen(status(0, 0, 0), replicas=0, scaler=scaler)
    assert (found.status, found.reason) == ("PENDING", "ScaledToZero")
    assert said in found.message
    assert ("set spec.replicas" in found.message) is (scaler in ("", "kaiwo"))


def crashing(state: Any) -> dict[str, Any]:
    """A pod whose container ended with exit code 1 and was restarted four times."""
    found = pod("a", state=state)
    found["status"]["phase"] = "Running"
    last = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": STARTED}}
    found["status"]["containerStatuses"][0] |= {"restartCount": 4, "lastState": last}
    return found


@pytest.mark.parametrize(
    "state",
    [
        {"waiting": {"reason": "CrashLoopBackOff"}},
        {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": STARTED}},
    ],
)
def test_a_container_in_its_back_off_is_reported_with_its_exit_code(state: Any) -> None:
    """A kubelet shows it as waiting or as terminated, and the status must not change between the two."""
    found = seen(status(1, 1, 0), crashing(state), replicas=1)
    assert (found.status, found.reason) == ("STARTING", "CrashLoopBackOff")
    assert found.message == (
        "container c of pod a: CrashLoopBackOff, at least 2 restarts, last exited with code 1"
    )


def test_a_gated_pod_of_a_serving_service_is_reported_and_no_more() -> None:
    """The service continues; the reason is the queue's."""
    found = seen(status(2, 2, 1), RUN, pod("g", state=WAITS, gated=True), queued=True, admission=QUOTA)
    assert (found.status, found.reason) == ("RUNNING", "Pending")
    assert QUOTA.message in found.message
    some = Admission("admitted", "Admitted", f"some pods wait: {QUOTA.message}", pods_wait=True)
    found = seen(status(2, 2, 1), RUN, pod("g", state=WAITS, gated=True), queued=True, admission=some)
    assert (found.status, found.reason) == ("RUNNING", "Queued")
    assert found.message.endswith(some.message)


def test_a_paused_deployment_says_so() -> None:
    """It makes no pods, or keeps those of the old template, until somebody lets it go on."""
    conditions = [{"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused"}]
    queue = Admission("pending", "Queued", "waits in queue kaiwo")
    new = seen({"observedGeneration": 3, "conditions": conditions}, paused=True, queued=True, admission=queue)
    assert (new.status, new.reason) == ("PENDING", "Suspended")
    assert "spec.deployment.spec.paused" in new.message
    old = seen(status(0, 2, 2, conditions=conditions), pod("a", OLD), pod("b", OLD), paused=True)
    assert (old.status, old.reason) == ("RUNNING", "Running")
    assert "paused" in old.message


def test_the_deadline_counts_from_the_admission() -> None:
    """The Deployment's own clock ran while its pods waited for the queue."""
    since = (NOW - timedelta(seconds=20)).isoformat()
    admitted = Admission("admitted", "Admitted", "admitted", since)
    found = seen(status(1, 1, 0, stuck=True), pod("n", state=WAITS), queued=True, admission=admitted)
    assert found.status == "STARTING"
    assert found.requeue_after == 40
    late = Admission("admitted", "Admitted", "admitted", (NOW - timedelta(seconds=61)).isoformat())
    found = seen(status(1, 1, 0, stuck=True), pod("n", state=WAITS), queued=True, admission=late)
    assert found.status == "ERROR"


def test_pods_of_an_older_revision_prove_nothing() -> None:
    """Without the Deployment's revision, the newest pod decides which one is current."""
    old, new = pod("o", OLD), pod("n", state=WAITS, born="2026-01-02T03:04:06Z")
    found = seen({"observedGeneration": 3, "updatedReplicas": 1, "replicas": 2}, old, new)
    assert found.status == "STARTING"


def test_pods_that_cannot_even_be_created_are_reported() -> None:
    """A quota or a policy speaks through the Deployment's condition."""
    state = status(0, 0, 0)
    state["conditions"].append(
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded\nquota"}
    )
    found = seen(state)
    assert (found.status, found.reason, found.message) == ("STARTING", "FailedCreate", "exceeded quota")
    state["conditions"][-1]["lastTransitionTime"] = (NOW - timedelta(seconds=1)).isoformat()
    found = seen(state)
    assert (found.reason, found.requeue_after) == ("Starting", 2.0), "the next try may be taken"


def test_the_newest_refusal_of_pods_is_reported() -> None:
    """The Deployment's condition keeps the first text; its ReplicaSet's newest warning is read."""
    state = status(0, 0, 0)
    state["conditions"].append(
        {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": "a webhook was down",
        }
    )
    found = seen(state)
    assert (found.needs_events is not None, found.pod_owner) == (True, ("ReplicaSet", NEW))
    found = seen(state, warning_event=Finding("FailedCreate", 'pods "x" is forbidden: exceeded quota'))
    assert found.message == "each pod is forbidden: exceeded quota"
    assert found.requeue_after == 30.0
    again = '(combined from similar events): Error creating: pods "y" is forbidden: exceeded quota'
    found = seen(state, warning_event=Finding("FailedCreate", again))
    assert found.message == "Error creating: each pod is forbidden: exceeded quota"


REFUSED = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreate",
    "message": 'pods "x" is forbidden: exceeded quota',
}


def test_refused_pods_of_a_queued_service_are_no_wait_for_the_queue() -> None:
    """Kueue queues such pods one by one: it knows nothing of pods that were never created."""
    waits = Admission("pending", "Queued", "waits in queue blue", undecided=True)
    state = status(0, 0, 0)
    state["conditions"].append(dict(REFUSED))
    for admission in (waits, None):
        found = seen(state, queued=True, admission=admission)
        assert (found.status, found.reason) == ("STARTING", "FailedCreate")
        assert found.message == "each pod is forbidden: exceeded quota"
        assert found.needs_events is not None
    state["conditions"][-1]["lastTransitionTime"] = (NOW - timedelta(seconds=1)).isoformat()
    found = seen(state, queued=True, admission=waits)
    assert (found.reason, found.requeue_after) == ("Queued", 2.0), "the next try may be taken"


def test_a_service_that_made_no_progress_says_that_its_pods_are_refused() -> None:
    """The deadline is the effect, the refusal the cause."""
    state = status(0, 0, 0, stuck=True)
    state["conditions"].append(dict(REFUSED))
    found = seen(state)
    assert (found.status, found.reason) == ("ERROR", "ProgressDeadlineExceeded")
    assert "; each pod is forbidden: exceeded quota" in found.message


NO_REPLICA_SET = {
    "type": "Progressing",
    "status": "False",
    "reason": "ReplicaSetCreateError",
    "message": f'Failed to create new replica set "{NEW}": replicasets.apps "{NEW}" is forbidden: quota',
}


def test_a_replica_set_that_cannot_be_created_is_reported() -> None:
    """The Deployment controller stops there, before it notes the generation; no pod is made or queued."""
    state = {"conditions": [NO_REPLICA_SET]}
    waits = Admission("pending", "Queued", "waits in queue blue", undecided=True)
    for queue in ({}, {"queued": True}, {"queued": True, "admission": waits}):
        found = seen(state, **queue)
        assert (found.status, found.reason) == ("STARTING", "FailedCreate")
        assert found.message == NO_REPLICA_SET["message"]
    early = {**NO_REPLICA_SET, "lastTransitionTime": (NOW - timedelta(seconds=1)).isoformat()}
    found = seen({"conditions": [early]})
    assert (found.reason, found.requeue_after) == ("Starting", 2.0), "the next try may be taken"


def test_a_rollout_whose_replica_set_cannot_be_created_is_reported() -> None:
    """The pods of the revision before run on, as many as are wanted."""
    state = {**status(2, 2, 2, generation=2), "conditions": [NO_REPLICA_SET]}
    found = seen(state, pod("o", OLD), pod("p", OLD))
    assert (found.status, found.reason) == ("RUNNING", "FailedCreate")
    assert found.message == f"2 of 2 pods run, of the revision before; {NO_REPLICA_SET['message']}"


def test_a_pod_with_a_gate_that_no_queue_holds_is_not_called_queued() -> None:
    """Somebody else's scheduling gate: its name, after the half minute that gates usually last."""
    held = pod("a", gated=True, state=WAITS)
    held["metadata"]["labels"] = {}
    held["spec"] = {"schedulingGates": [{"name": "example.com/licence"}]}
    child = {"metadata": {"name": "chat", "generation": 1}, "status": {"observedGeneration": 1}}
    workload = Workload.from_object(service(image="x"))
    for seconds, reason in ((5, "Starting"), (31, "SchedulingGated")):
        now = NOW + timedelta(seconds=seconds)
        for queued, admission in ((False, None), (True, ADMITTED)):
            found = observe(Observation(workload, child, (held,), admission, queued=queued, now=now))
            assert (found.status, found.reason) == ("STARTING", reason)
    assert "pod a has the scheduling gate example.com/licence" in found.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["conditions", "type", "status", "message", "metadata", "spec", "replicas",
                             "observedGeneration", "availableReplicas", "ownerReferences", "controller",
                             "kind", "name", "schedulingGates", "containerStatuses", "state", "running"]),
            inner, max_size=4,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(child=st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON), pods=st.lists(
    st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON), max_size=3
))  # fmt: skip
def test_nothing_that_comes_back_is_a_crash(child: Any, pods: Any) -> None:
    """Whatever the live object: a status."""
    workload = Workload.from_object(service())
    assert observe(Observation(workload, child, tuple(pods), None, queued=False, now=NOW)).status
