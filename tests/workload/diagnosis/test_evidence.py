"""What a pod needs is found wherever its spec names it."""

from __future__ import annotations

from kaiwo.workload.diagnosis.evidence import references


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
