"""Whatever JSON stands in the objects of a cluster, a diagnosis comes of it."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kaiwo.plugin.observation import Outcome
from kaiwo.workload.diagnosis import questions
from kaiwo.workload.diagnosis.model import DiagnosisFacts
from kaiwo.workload.diagnosis.rules import diagnose

if TYPE_CHECKING:
    from conftest import Cluster

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
EXAMPLES = int(os.environ.get("KAIWO_EXAMPLES", "40"))
# fmt: off
KEYS = (
    "metadata", "spec", "status", "conditions", "containerStatuses", "initContainerStatuses",
    "state", "lastState", "waiting", "terminated", "running", "reason", "message", "type", "phase",
    "name", "kind", "uid", "labels", "exitCode", "restartCount", "generation", "observedGeneration",
    "deletionTimestamp", "finalizers", "creationTimestamp", "ownerReferences", "controller",
    "volumes", "secret", "secretName", "env", "valueFrom", "secretKeyRef", "containers",
    "resources", "limits", "memory", "holderIdentity", "renewTime", "leaseDurationSeconds",
    "involvedObject", "series", "count", "allocation", "queue", "storageClassName", "nodeName",
    "schedulingGates", "suspend", "kaiwo.silogen.ai/type",
)
TEXTS = (
    "", "x", "True", "False", "Pending", "Running", "Failed", "PENDING", "RUNNING", "FAILED",
    "ERROR", "COMPLETE", "Schedulable", "PodScheduled", "Unschedulable", "CrashLoopBackOff",
    "ImagePullBackOff", "OOMKilled", "Ready", "2026-01-31T11:58:00Z", "2026-01-31",
    "PersistentVolumeClaim", "Pod", "Job", "downloader", "\x1b[31m", "é\u2028",
)
# fmt: on
leaves = st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.sampled_from(TEXTS)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=24,
)
objects = st.dictionaries(st.sampled_from(KEYS), values, max_size=7)
typical = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(TEXTS),
        "metadata": st.fixed_dictionaries({"name": st.sampled_from(TEXTS), "uid": st.just("u")}) | objects,
        "spec": objects,
        "status": st.fixed_dictionaries(
            {
                "phase": st.sampled_from(TEXTS),
                "status": st.sampled_from(TEXTS),
                "reason": values,
                "conditions": st.lists(objects, max_size=3) | values,
                "containerStatuses": st.lists(objects, max_size=2) | values,
            }
        ),
    }
)
any_object = typical | objects
several = st.lists(any_object, max_size=3).map(tuple)


@settings(max_examples=EXAMPLES)
@given(
    workload=any_object,
    child=st.none() | any_object,
    others=several,
    pods=several,
    events=several,
    config=st.none() | any_object,
    lease=st.none() | any_object,
    outcome=st.none()
    | st.builds(Outcome, st.sampled_from(TEXTS), st.sampled_from(TEXTS), st.sampled_from(TEXTS)),
)
def test_no_object_makes_the_rules_fail(
    workload: Any, child: Any, others: Any, pods: Any, events: Any, config: Any, lease: Any, outcome: Any
) -> None:
    """Objects of newer schemas, of other controllers, or written by somebody who means ill."""
    facts = DiagnosisFacts(
        workload=workload,
        now=NOW,
        child=child,
        objects=others,
        pods=pods,
        events=events,
        config=config,
        lease=lease,
        lease_read=True,
        outcome=outcome,
        download=outcome,
    )
    questions.event_subjects(facts)
    questions.log_questions(facts)
    questions.wanted_references(facts)
    found = diagnose(facts)
    for cause in (found.verdict, *found.others):
        assert isinstance(cause.code, str)
        assert isinstance(cause.message, str)
    assert found.chain


def test_thousand_pods_are_diagnosed_in_a_fraction_of_a_second(cluster: Cluster) -> None:
    """One pass over the pods for each rule, not one for each pair."""
    waiting = {"reason": "ErrImagePull"}
    pods = [cluster.pod(f"p{n}", containerStatuses=cluster.container(waiting=waiting)) for n in range(1000)]
    facts = cluster.facts(pods=pods)
    begun = time.process_time()
    diagnose(facts)
    assert time.process_time() - begun < 1.0
