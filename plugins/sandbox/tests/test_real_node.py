"""The parts of the real node that need no root: requirements, networks, cgroups, volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo_sandbox import control_plane
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.real_node import cgroups, configuration, network, requirements, volumes
from kaiwo_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from pathlib import Path


def test_missing_programs_are_named_with_the_command_that_installs_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is built or started."""
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0)
    absent = {"containerd", "/usr/lib/cni/bridge", "runc"}
    monkeypatch.setattr(requirements, "find", lambda name: None if name in absent else f"/bin/{name}")
    with pytest.raises(SandboxError) as caught:
        Sandbox.up("mine", real_node=True)
    assert "containerd, " in caught.value.message
    assert "/usr/lib/cni/bridge" in caught.value.message
    command, *packages = caught.value.hint.split("--no-install-recommends ")
    assert command == "apt-get install "
    assert set(packages[0].split()) == {"containerd", "containernetworking-plugins", "runc"}
    assert not list(home.glob("state/*"))


def test_only_packages_with_missing_programs_are_named() -> None:
    """The command must not ask for what is there."""
    found = requirements.missing(lambda name: None if name == "ctr" else f"/usr/bin/{name}")
    assert found == {"containerd": ["ctr"]}


def test_a_user_who_is_not_root_gets_an_error_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the requirements is of no use to them."""
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 1000)
    with pytest.raises(SandboxError, match="the real node needs root") as caught:
        Sandbox.up("mine", real_node=True)
    assert "--real-node" in caught.value.hint
    assert not list(home.glob("state/*"))


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        (["default", "192.0.2.0/24", "127.0.0.0/8"], None),
        (["10.0.0.0/8"], ("10.255.255.0/30", "10.0.0.0/8")),
        (["10.96.4.0/24"], ("10.96.0.0/16", "10.96.4.0/24")),
        (["10.245.0.17"], ("10.245.0.0/24", "10.245.0.17")),
        (["0.0.0.0/0", "unreachable"], None),
    ],
)
def test_a_network_of_this_machine_is_not_taken(routes: list[str], expected: tuple[str, str] | None) -> None:
    """The routes to pods and Services must not hide a network that the machine uses."""
    assert network.conflict(routes) == expected


def test_the_cgroup_is_removed_with_all_below_it_and_nothing_else(tmp_path: Path) -> None:
    """In every hierarchy of a machine with cgroup v1."""
    for controller in ("cpu", "memory"):
        (tmp_path / controller / "system.slice").mkdir(parents=True)
        (tmp_path / controller / "cgroup.procs").touch()
    cgroups.create("kaiwo-sandbox-x", tmp_path)
    deep = tmp_path / "cpu" / "kaiwo-sandbox-x" / "kubepods" / "burstable"
    deep.mkdir(parents=True)
    cgroups.remove("kaiwo-sandbox-x", tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*/*/")) == ["system.slice", "system.slice"]


def test_a_sandbox_without_a_real_node_has_no_cgroup_to_remove(tmp_path: Path) -> None:
    """`down` works on machines without cgroups, too."""
    cgroups.remove("kaiwo-sandbox-x", tmp_path / "absent")
    cgroups.remove("kaiwo-sandbox-x", tmp_path)


def claim(**spec: Any) -> dict[str, Any]:
    """A pending claim of the default class."""
    requested = {"requests": {"storage": "1Gi"}}
    defaults = {
        "storageClassName": "sandbox-hostpath",
        "accessModes": ["ReadWriteMany"],
        "resources": requested,
    }
    metadata = {"name": "data", "namespace": "team", "uid": "7"}
    return {"metadata": metadata, "spec": defaults | spec, "status": {"phase": "Pending"}}


def test_pending_claims_of_the_two_classes_get_a_volume() -> None:
    """A claim of another class, or with a volume, is somebody else's."""
    assert volumes.wanted(claim())
    assert volumes.wanted(claim(storageClassName="sandbox-sized"))
    assert not volumes.wanted(claim(storageClassName="fast"))
    assert not volumes.wanted(claim(volumeName="mine"))
    assert not volumes.wanted(claim() | {"status": {"phase": "Bound"}})


def test_a_volume_is_bound_to_its_claim_and_deleted_after_it() -> None:
    """The claim's uid is in the reference, so that a later claim of the same name does not get the data."""
    volume = volumes.volume(claim(), "/run/x/pvc-7")
    assert volume["spec"]["claimRef"]["uid"] == "7"
    assert volume["spec"]["accessModes"] == ["ReadWriteMany"]
    assert not volumes.released(volume | {"status": {"phase": "Bound"}})
    assert volumes.released(volume | {"status": {"phase": "Released"}})
    volume["metadata"]["annotations"] = {}
    assert not volumes.released(volume | {"status": {"phase": "Released"}})


def test_nothing_of_the_node_listens_outside_of_its_namespace() -> None:
    """The kubelet runs commands in containers for whoever may call it."""
    files = configuration.files(registry_port=25000, cgroup="kaiwo-sandbox-x")
    kubelet = yaml.safe_load(files["kubelet.yaml"])
    assert kubelet["address"] == network.NODE
    assert kubelet["healthzBindAddress"] == "127.0.0.1"
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert yaml.safe_load(files["kube-proxy.yaml"])["nodePortAddresses"] == [f"{network.NODE}/32"]
    assert 'stream_server_address = "127.0.0.1"' in files["containerd.toml"]


@pytest.mark.parametrize("real_node", [False, True])
def test_only_a_real_node_routes_the_addresses_of_services(tmp_path: Path, *, real_node: bool) -> None:
    """Without one the API server calls the endpoints of a webhook's Service itself."""
    ports = dict.fromkeys(control_plane.PORT_NAMES, 1)
    layout = control_plane.Layout(tmp_path, ports, real_node=real_node)
    command = control_plane.apiserver(tmp_path / "kube-apiserver", layout)
    assert f"--enable-aggregator-routing={str(not real_node).lower()}" in command
