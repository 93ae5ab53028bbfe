"""An uninstallation takes from nodes what the plugin recorded to have written, and nothing else."""

from __future__ import annotations

from kaiwo_node_pools.removals import removal

RECORD = '{"labels":{"kaiwo/nodepool":"pool","kaiwo/worker":"true"},"taint":"amd.com/gpu"}'
TAINT = {"key": "amd.com/gpu", "value": "true", "effect": "NoSchedule"}


def node(labels: dict[str, str], record: str = "", *taints: dict[str, str]) -> dict[str, object]:
    """A node with labels, the plugin's record and taints."""
    annotations = {"kaiwo.silogen.ai/node-wrote": record} if record else {}
    metadata = {"name": "a", "uid": "u", "resourceVersion": "7"}
    return {
        "metadata": {**metadata, "labels": labels, "annotations": annotations},
        "spec": {"taints": list(taints)},
    }


def test_what_was_recorded_goes_and_the_rest_stays() -> None:
    """A label with another value than the recorded one is somebody else's, like any other taint."""
    other = {"key": "maintenance", "effect": "NoExecute"}
    found = removal(node({"kaiwo/nodepool": "mine", "kaiwo/worker": "true"}, RECORD, TAINT, other))
    assert found is not None
    assert found.patch == {
        "metadata": {
            "labels": {"kaiwo/worker": None},
            "annotations": {"kaiwo.silogen.ai/node-wrote": None},
        },
        "spec": {"taints": [other]},
    }
    assert found.what == "kaiwo/worker, kaiwo.silogen.ai/node-wrote, taint amd.com/gpu"


def test_a_node_that_kaiwo_never_wrote_is_left_alone() -> None:
    """Also one whose labels an administrator has set by hand."""
    assert removal(node({"kaiwo/nodepool": "mine", "kaiwo/worker": "true"}, "", TAINT)) is None
