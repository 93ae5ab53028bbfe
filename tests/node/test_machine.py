"""The real node leaves nothing behind on the machine, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_sandbox import process
from kaiwo_sandbox.real_node import cgroups, namespaces
from kaiwo_sandbox.real_node.init import NODE_DIRECTORY
from kaiwo_sandbox.real_node.network import HOST, LINK, POD_NETWORK, SERVICE_NETWORK
from kaiwo_sandbox.sandbox import Sandbox
from kaiwo_sandbox.teardown import down

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_SYSCTLS = (
    "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "vm/overcommit_memory", "vm/panic_on_oom",
    "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
)  # fmt: skip
_PATHS = (
    "/run/containerd", "/run/kaiwo-node", "/run/netns",
    "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods",
    "/usr/libexec/kubernetes", "/etc/cni", "/opt/cni", "/opt/containerd", "/tmp/hostpath_pv",
)  # fmt: skip
"""Where node programs write by default."""
_NAME = "node-test"
_OWN = ("/kaiwo-node", "kaiwo-node ", f"/{_NAME}/", "kubelet", "containerd")
"""Words in the mounts of a node."""


def _output(*command: str) -> list[str]:
    return sorted(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


def _mounts(process: str) -> list[str]:
    """The mounts of the node that this process sees."""
    try:
        lines = Path("/proc", process, "mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # it has ended
        return []
    return sorted(line for line in lines if any(word in line for word in _OWN))


def _programs() -> list[str]:
    """The command lines of the sandbox's programs and of every process in the namespaces of a node."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        named = f"/{_NAME}/" in text or f"{NODE_DIRECTORY}/" in text
        if named or _mounts(path.parent.name):
            found.append(text)
    return sorted(found)


def _rules(prefix: Sequence[str] = ()) -> list[str]:
    """The rules and chains of kube-proxy and of network plugins."""
    tools = ("iptables-save", "iptables-legacy-save", "ip6tables-save")
    lines = [line for tool in tools for line in _output(*prefix, tool)]
    return [line for line in lines if "KUBE-" in line or "CNI-" in line]


def _machine() -> dict[str, Any]:
    """What a node could leave behind: processes, mounts, links, routes, rules, cgroups, sysctls and files.

    What others do on the machine at the same time is not in it.
    """
    links = [line for line in _output("ip", "-br", "address") if line.startswith((LINK, "veth", "pods0"))]
    networks = (LINK, HOST, *(network.partition("/")[0] for network in (POD_NETWORK, SERVICE_NETWORK)))
    routes = _output("ip", "route", "show", "table", "all")
    return {
        "processes": _programs(),
        "mounts": _mounts("self"),
        "links": links,
        "routes": [line for line in routes if any(word in line for word in networks)],
        "rules": _rules(),
        "cgroups": sorted(str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{cgroups.name(_NAME)}/**/")),
        "sysctls": {name: Path("/proc/sys", name).read_text(encoding="ascii") for name in _SYSCTLS},
        "files": {
            path: sorted(each.name for each in Path(path).iterdir()) for path in _PATHS if Path(path).is_dir()
        },
    }


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The machine before the test, whose sandbox has a state directory of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield _machine()
    down(_NAME)


def run_pods(sandbox: Sandbox, wait_for: Callable[..., Any]) -> None:
    """A pod with a volume, a Service and a port of the machine, and wait until it runs."""
    namespace = "/api/v1/namespaces/default"
    labels = {"app": "web"}
    container = {
        "name": "c",
        "image": "registry.sandbox/busybox:1",
        "command": ["sleep", "1000"],
        "ports": [{"containerPort": 80, "hostPort": 8080}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    volume = {"name": "v", "emptyDir": {"medium": "Memory"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": labels},
        "spec": {"containers": [container], "volumes": [volume]},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"type": "NodePort", "selector": labels, "ports": [{"port": 80}]},
    }
    sandbox.api.create(f"{namespace}/pods", pod)
    sandbox.api.create(f"{namespace}/services", service)
    wait_for("the pod", lambda: sandbox.api.get(f"{namespace}/pods/p")["status"]["phase"] == "Running")


def test_down_restores_the_machine(before: dict[str, Any], wait_for: Callable[..., Any]) -> None:
    """Processes, mounts, links, rules, cgroups, sysctls and files are as before, while pods were running."""
    sandbox = Sandbox.up(_NAME, nodes="none", real_node=True, owned=True)
    run_pods(sandbox, wait_for)
    while_up = _machine()
    changed = {key for key in before if while_up[key] != before[key]}
    assert changed == {"processes", "links", "routes", "cgroups"}
    for program in ("containerd-shim", "kubelet", "kube-proxy", "/pause", "sleep 1000"):
        assert any(program in line for line in while_up["processes"])
    init = process.recorded(sandbox.directory)["real-node"].pid
    assert _mounts(str(init))
    assert _rules(namespaces.command(init, []))
    sandbox.down()
    assert _machine() == before


def test_the_machine_is_restored_after_the_node_was_killed(
    before: dict[str, Any], wait_for: Callable[..., Any]
) -> None:
    """SIGKILL for kubelet and containerd leaves their containers running; `down` ends those as well."""
    sandbox = Sandbox.up(_NAME, nodes="none", real_node=True, owned=True)
    run_pods(sandbox, wait_for)
    running = process.recorded(sandbox.directory)
    for name in ("kubelet", "containerd", "kube-proxy"):
        running[name].kill()
    assert any("sleep 1000" in line for line in _programs())
    assert down(_NAME)
    assert _machine() == before
    sandbox.down()


def test_the_machine_is_restored_after_the_death_of_the_command_and_of_the_init_process(
    before: dict[str, Any], wait_for: Callable[..., Any]
) -> None:
    """A command that is killed during its start leaves the rest to a later `down`."""
    code = f"from kaiwo_sandbox.sandbox import Sandbox; Sandbox.up({_NAME!r}, nodes='none', real_node=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL) as command:
        wait_for("containerd", lambda: any("containerd --config" in line for line in _programs()))
        command.send_signal(signal.SIGKILL)
    directory = Path(os.environ["XDG_STATE_HOME"], "kaiwo", "sandbox", _NAME)
    process.recorded(directory)["real-node"].kill()
    assert not any("containerd" in line for line in _programs())
    assert down(_NAME)
    assert _machine() == before


def test_a_second_real_node_is_refused_and_the_first_one_keeps_running(
    before: dict[str, Any], wait_for: Callable[..., Any]
) -> None:
    """Both would use the same networks."""
    del before
    first = Sandbox.up(_NAME, nodes="none", real_node=True, owned=True)
    with pytest.raises(Exception, match="another sandbox on this machine has a real node"):
        Sandbox.up(f"{_NAME}-2", nodes="none", real_node=True)
    run_pods(first, wait_for)
    assert first.status().ready
    first.down()


def test_pods_reach_the_api_server_of_a_sandbox_with_other_ports_than_the_one_before(
    before: dict[str, Any], wait_for: Callable[..., Any]
) -> None:
    """A sandbox starts from a copy of etcd's data, which may be from one with other ports."""
    del before
    code = "import socket; socket.create_connection(('kubernetes.default', 443), 5)"
    container = {"name": "c", "image": "registry.sandbox/python:3", "command": ["python3", "-c", code]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asks"},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    pods = "/api/v1/namespaces/default/pods"
    urls = []
    for _ in range(2):
        sandbox = Sandbox.up(_NAME, nodes="none", real_node=True, owned=True)
        sandbox.api.create(pods, pod)

        def ended(sandbox: Sandbox = sandbox) -> str:
            phase = str(sandbox.api.get(f"{pods}/asks")["status"]["phase"])
            return phase if phase in {"Succeeded", "Failed"} else ""

        assert wait_for("the end of the pod", ended) == "Succeeded"
        urls.append(sandbox.url)
        sandbox.down()
    assert urls[0] != urls[1], "both sandboxes had the same ports"


def test_reset_gives_an_empty_node_that_runs_pods(
    before: dict[str, Any], wait_for: Callable[..., Any]
) -> None:
    """The containers of before are gone, and a pod of the same name runs again."""
    del before
    sandbox = Sandbox.up(_NAME, nodes="none", real_node=True, owned=True)
    run_pods(sandbox, wait_for)
    sandbox.reset()
    assert not any("sleep 1000" in line for line in _programs())
    run_pods(sandbox, wait_for)
    sandbox.down()
