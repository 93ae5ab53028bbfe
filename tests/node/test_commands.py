"""Commands that reach into pods, against a real kubelet and real containers."""

from __future__ import annotations

import hashlib
import json
import random
import textwrap
import time
import urllib.request
from typing import TYPE_CHECKING, Any

from kaiwo.api.crds import KAIWO_SERVICE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

WAITS = "trap 'exit 0' TERM; while :; do sleep 1; done"
CRASHES = """
read id < /proc/sys/kernel/random/uuid
for number in $(seq 200); do echo "$id $number"; done
sleep 3
echo "$id end"
exit 1
"""
SERVER = textwrap.dedent("""
    #!/usr/bin/env python3
    import http.server, socket
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = socket.gethostname().encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
    http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
""").strip()

CARD = {
    "GPU use (%)": "97",
    "VRAM Total Memory (B)": "206141652992",
    "VRAM Total Used Memory (B)": "1048576",
    "Card Series": "AMD Instinct MI300X",
}
HAS_ROCM_SMI = f"""
mkdir /tmp/bin
cat > /tmp/bin/rocm-smi <<'END'
#!/bin/sh
echo '{json.dumps({"card0": CARD})}'
END
chmod +x /tmp/bin/rocm-smi
{WAITS}
"""


def lines_until_end(process: subprocess.Popen[str], ends: int) -> list[str]:
    """The lines of the command up to the last line of that many containers."""
    assert process.stdout is not None
    found: list[str] = []
    while sum(line.endswith(" end") for line in found) < ends:
        line = process.stdout.readline()
        assert line, f"the command ended after {found[-3:]}"
        found.append(line.rstrip("\n"))
    return found


def test_followed_logs_go_on_over_the_restart_of_a_container(lab: Any, wait_for: Callable[..., Any]) -> None:
    """Every line of both containers once and in order; the pod stays the same."""
    lab.serve("crashes", entrypoint=CRASHES.strip())
    lab.reaches("crashes", "RUNNING", "STARTING", "READY", kind=KAIWO_SERVICE)
    pod = lab.pod("crashes")["metadata"]["name"]
    with lab.kaiwo_running("logs", "crashes", "-f") as following:
        lines = lines_until_end(following, 2)
    first, second = (line.partition(" ")[0] for line in lines if line.endswith(" end"))
    assert first != second
    expected = [f"{each} {word}" for each in (first, second) for word in (*range(1, 201), "end")]
    assert lines == expected
    assert lab.pod("crashes")["metadata"]["name"] == pod

    def crashed() -> bool:
        # Between two restarts, the kubelet may just have removed the log.
        previous = lab.kaiwo("logs", "crashes", "--previous", "--tail", "1")
        return bool(previous.stdout.endswith(b" end\n"))

    wait_for("the last line of the container before", crashed)


def test_a_command_in_a_container_has_its_exit_code_and_its_input(
    lab: Any, wait_for: Callable[..., Any]
) -> None:
    """Bytes pass unchanged in both directions, and both outputs stay apart."""
    lab.submit("runs", entrypoint=WAITS)
    lab.reaches("runs", "RUNNING")
    wait_for("the container", lambda: lab.kaiwo("exec", "runs", "--", "true").returncode == 0)
    failed = lab.kaiwo("exec", "runs", "--", "sh", "-c", "echo out; echo error >&2; exit 3")
    assert (failed.returncode, failed.stdout, failed.stderr) == (3, b"out\n", b"error\n")
    content = random.Random(12).randbytes(3 << 20)
    digest = lab.kaiwo("exec", "runs", "--", "sha256sum", stdin=content)
    assert digest.stdout.split()[0].decode() == hashlib.sha256(content).hexdigest()
    echoed = lab.kaiwo("exec", "runs", "--", "cat", stdin=content)
    assert (echoed.returncode, echoed.stdout) == (0, content)


def test_a_forwarded_port_leads_to_the_server_and_to_its_successor(
    lab: Any, wait_for: Callable[..., Any]
) -> None:
    """After its pod was deleted, the same local port answers from the next one."""
    lab.serve("web", entrypoint=SERVER)
    lab.reaches("web", "READY", kind=KAIWO_SERVICE)
    with lab.kaiwo_running("port-forward", "web", ":8000") as forwarding:
        assert forwarding.stdout is not None
        local = forwarding.stdout.readline().split(" -> ")[0].rpartition(":")[2]

        def answer() -> str:
            try:
                return str(urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=5).read().decode())
            except OSError:
                return ""

        first = wait_for("an answer", answer)
        assert first == lab.pod("web")["metadata"]["name"]
        lab.api.request("DELETE", f"{lab.core}/pods/{first}?gracePeriodSeconds=1")
        second = wait_for("an answer of the next pod", lambda: (found := answer()) != first and found)
        assert second in {pod["metadata"]["name"] for pod in lab.pods("web")}


def test_a_command_runs_in_a_copy_of_the_folder_and_ends_with_its_code(lab: Any, tmp_path: Path) -> None:
    """Files below the folder are there, its output is here, and so is its exit code."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "texts.py").write_text("GREETING = 'hello from the folder'\n", encoding="utf-8")
    (tmp_path / "numbers.json").write_text(json.dumps([4, 5]), encoding="utf-8")
    program = """
        import json, sys
        from lib.texts import GREETING
        print(GREETING, sum(json.load(open("numbers.json"))), sys.argv[1:], flush=True)
        sys.exit(5)
    """
    (tmp_path / "main.py").write_text(textwrap.dedent(program), encoding="utf-8")
    began = time.monotonic()
    words = ("--image", "registry.sandbox/python:3", "--name", "shipped")
    ended = lab.kaiwo("run", *words, "--", "python3", "main.py", "--lr", "a b", directory=tmp_path)
    assert "hello from the folder 9 ['--lr', 'a b']" in ended.stdout.decode(), ended.stderr.decode()
    assert ended.returncode == 5
    assert time.monotonic() - began < 120
    assert lab.terminated("shipped")["exitCode"] == 5


def test_monitor_runs_the_tool_of_the_vendor_in_the_pod(lab: Any, wait_for: Callable[..., Any]) -> None:
    """What rocm-smi writes there is shown as a table here, and as JSON with numbers."""
    main = {
        "name": "main",
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}},
        "env": [{"name": "PATH", "value": "/tmp/bin:/usr/local/bin:/usr/bin:/bin"}],
    }
    job = {"spec": {"template": {"spec": {"containers": [main]}}}}
    lab.submit("busy", entrypoint=HAS_ROCM_SMI.strip(), gpus=1, job=job)
    lab.reaches("busy", "RUNNING")
    table = wait_for(
        "the tool", lambda: (out := lab.kaiwo("monitor", "busy").stdout.decode()) and "97%" in out and out
    )
    assert "AMD Instinct MI300X" in table
    (pod,) = json.loads(lab.kaiwo("monitor", "busy", "-o", "json").stdout)["items"]
    assert (pod["pod"], pod["vendor"]) == (lab.pod("busy")["metadata"]["name"], "amd")
    assert [(gpu["usePercent"], gpu["memoryUsedBytes"]) for gpu in pod["gpus"]] == [(97, 1 << 20)]


def test_an_interactive_run_is_a_shell_in_a_pod_that_goes_with_it(
    lab: Any, wait_for: Callable[..., Any]
) -> None:
    """Its input and exit code are those of the shell; afterwards the workload is gone."""
    words = ("--interactive", "--no-sync", "--image", "registry.sandbox/python:3", "--name", "shell")
    ended = lab.kaiwo("run", *words, stdin=b"echo answer $((6 * 7))\nexit 4\n")
    assert (ended.returncode, ended.stdout) == (4, b"answer 42\n"), ended.stderr.decode()
    wait_for("the end of its pod", lambda: not lab.pods("shell"))
