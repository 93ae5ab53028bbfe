"""An uninstallation removes the plugin's own objects and marks, and nothing that somebody else made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo_kueue.kinds import APPLIED, CLUSTER_QUEUE, CONFIG_UID_LABEL, MANAGED_LABEL
from kaiwo_kueue.removals import of_namespace, of_queue_object

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

OWNER = {"kind": "KaiwoQueueConfig", "name": "kaiwo", "uid": "c", "controller": True}


def queue(**metadata: Any) -> Object:
    """A ClusterQueue."""
    return {"metadata": {"name": "gpus", "uid": "u", "resourceVersion": "7", **metadata}}


def labelled(*managers: str) -> Object:
    """A namespace with Kueue's label, set by these field managers."""
    fields = {"f:metadata": {"f:labels": {"f:kueue-managed": {}}}}
    metadata = {
        "name": "team",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"kueue-managed": "true"},
        "managedFields": [{"manager": manager, "fieldsV1": fields} for manager in managers],
    }
    return {"metadata": metadata}


def test_a_queue_that_kaiwo_made_is_deleted() -> None:
    """A label names the KaiwoQueueConfig; in earlier versions it was the owner."""
    for marks in ({"labels": {CONFIG_UID_LABEL: "c"}}, {"ownerReferences": [OWNER]}):
        (removal,) = of_queue_object(CLUSTER_QUEUE, queue(**marks))
        assert (removal.name, removal.uid, removal.patch) == ("gpus", "u", None)


def test_a_queue_that_existed_before_loses_kaiwos_marks_only() -> None:
    """The administrator's queue goes on; the change holds for the version that was read."""
    before = queue(labels={MANAGED_LABEL: "true", "own": "x"}, annotations={APPLIED: "d"})
    (removal,) = of_queue_object(CLUSTER_QUEUE, before)
    assert removal.patch == {"metadata": {"labels": {MANAGED_LABEL: None}, "annotations": {APPLIED: None}}}
    assert removal.resource_version == "7"


def test_a_queue_that_kaiwo_never_wrote_is_left_alone() -> None:
    """Also one that something else owns."""
    assert of_queue_object(CLUSTER_QUEUE, queue(labels={"own": "x"})) == []
    assert of_queue_object(CLUSTER_QUEUE, queue(ownerReferences=[{**OWNER, "kind": "Other"}])) == []


def test_a_namespace_keeps_a_label_that_somebody_else_has_set_too() -> None:
    """The field managers of the label tell who set it."""
    (removal,) = of_namespace(labelled("kaiwo"))
    assert removal.patch == {"metadata": {"labels": {"kueue-managed": None}}}
    assert of_namespace(labelled("kaiwo", "kubectl")) == []
    assert of_namespace(labelled("kubectl")) == []
