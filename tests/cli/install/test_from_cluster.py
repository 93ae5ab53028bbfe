"""What ``kaiwo manifests --from-cluster`` reads from a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster

ARGS = ("manifests", "--from-cluster", "--plugins", "kueue")


@pytest.fixture
def reached(cli: Any, control_plane: Any, kaiwo_crds: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The command line with a kubeconfig of a cluster with a KaiwoConfig that turns labels off."""
    assert kaiwo_crds is None
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    path = KAIWO_CONFIG.path(None, "kaiwo")
    config = {
        "apiVersion": KAIWO_CONFIG.api_version,
        "kind": KAIWO_CONFIG.kind,
        "metadata": {"name": "kaiwo"},
        "spec": {"plugins": {"kueue": {"labelNamespaces": False}}},
    }
    control_plane.api.apply(path, config)
    yield cli
    control_plane.api.request("DELETE", path)


def test_rights_follow_the_settings_of_the_cluster(reached: Any, cli: Any) -> None:
    """A setting that is off in the live KaiwoConfig takes its right along."""
    result = reached(*ARGS, "rbac")
    assert result.code == 0, result.err
    assert "kaiwo-operator-labels" not in result.out
    assert "kaiwo-operator-labels" in cli("manifests", "rbac", "--plugins", "kueue").out


def test_a_scheduler_that_does_not_fit_the_cluster_is_warned_of(reached: Any) -> None:
    """The objects are printed all the same; the hint names the option."""
    fits = reached(*ARGS, "scheduler")
    assert fits.code == 0
    assert "scheduler" not in fits.err
    other = reached(*ARGS, "scheduler", "--scheduler-image", "registry.example/kube-scheduler:v1.30.1")
    assert other.code == 0
    assert "warning: scheduler image registry.example/kube-scheduler:v1.30.1 does not fit" in other.err
    assert "hint: name another image with --scheduler-image" in other.err
