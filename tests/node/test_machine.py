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
from kaiwo_sandbox.sandbox import Sandbox
from kaiwo_sandbox.teardown import down

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SYSCTLS = (
    "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "vm/overcommit_memory", "vm/panic_on_oom",
    "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
)  # fmt: skip
_PATHS = ("/run", "/var/lib", "/var/log", "/usr/libexec", "/etc/cni", "/opt", "/tmp/hostpath_pv")
_NAME = "node-test"


def _output(*command: str) -> list[str]:
    return sorted(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


def _programs() -> list[str]:
    """The command lines that mention the node; other processes of the machine come and go."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if any(word in text for word in ("containerd", "kubelet", "kube-proxy", "coredns", f"/{_NAME}/")):
            found.append(text)
    return sorted(found)


def _machine() -> dict[str, Any]:
    """What a node could leave behind: processes, mounts, links, routes, rules, cgroups, sysctls and files."""
    rules = [
        line
        for tool in ("iptables-save", "iptables-legacy-save", "ip6tables-save")
        for line in _output(tool)
        if line.startswith(("-A", "-N", "*", ":KUBE", ":CNI"))
    ]
    return {
        "processes": _programs(),
        "mounts": sorted(Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()),
        "links": _output("ip", "-br", "link"),
        "addresses": _output("ip", "-br", "address"),
        "routes": _output("ip", "route", "show", "table", "all"),
        "namespaces": _output("ip", "netns", "list"),
        "rules": rules,
        "cgroups": sorted(str(path) for path in Path("/sys/fs/cgroup").glob("**/*kaiwo-sandbox*")),
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
    assert changed == {"processes", "links", "addresses", "routes", "cgroups"}
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
    assert any("sleep 1000" in line for line in _output("ps", "-eo", "args"))
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


def test_reset_gives_an_empty_node_that_runs_pods(
    before: dict[str, Any], wait_for: Callable[..., Any]
) -> None:
    """The containers of before are gone, and a pod of the same name runs again."""
    del before
    sandbox = Sandbox.up(_NAME, nodes="none", real_node=True, owned=True)
    run_pods(sandbox, wait_for)
    sandbox.reset()
    assert not any("sleep 1000" in line for line in _output("ps", "-eo", "args"))
    run_pods(sandbox, wait_for)
    sandbox.down()
