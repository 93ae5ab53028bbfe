"""What a pod needs is found wherever its spec names it."""

from __future__ import annotations

from kaiwo.workload.diagnosis.evidence import event_order, references


def test_the_sources_of_a_projected_volume_are_needed() -> None:
    """The pod waits for them as for a volume of their own; not for those of its token."""
    own = [
        {"secret": {"name": "hub"}},
        {"configMap": {"name": "conf"}},
        {"secret": {"name": "x", "optional": True}},
    ]
    token = [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "kube-root-ca.crt"}}]
    volumes = [{"name": "a", "projected": {"sources": own}}, {"name": "b", "projected": {"sources": token}}]
    assert references({"spec": {"volumes": volumes}}) == [("Secret", "hub"), ("ConfigMap", "conf")]


def test_events_of_one_second_are_in_the_order_in_which_they_were_stored() -> None:
    """A start comes before what ran, whether or not a reporter writes fractions of a second."""
    events = [
        {"reason": "Ready", "lastTimestamp": "2026-01-01T00:00:05Z", "metadata": {"resourceVersion": "1000"}},
        {"reason": "Later", "lastTimestamp": "2026-01-01T00:00:06Z", "metadata": {"resourceVersion": "7"}},
        {
            "reason": "Running",
            "lastTimestamp": "2026-01-01T00:00:05Z",
            "metadata": {"resourceVersion": "999"},
        },
        {"reason": "Scheduled", "eventTime": "2026-01-01T00:00:05.9Z", "metadata": {"resourceVersion": "99"}},
        {"reason": "Undated", "metadata": {}},
    ]
    in_order = [event["reason"] for event in sorted(events, key=event_order)]
    assert in_order == ["Undated", "Scheduled", "Running", "Ready", "Later"]
