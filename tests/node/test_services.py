"""KaiwoServices that really answer: probes, Services, rollouts, scaling and crashes."""

from __future__ import annotations

import contextlib
import textwrap
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from kaiwo.api.crds import KAIWO_SERVICE

if TYPE_CHECKING:
    from collections.abc import Callable

PORT = 8000
SERVER = textwrap.dedent("""
    #!/usr/bin/env python3
    import http.server, os, time
    time.sleep(float(os.environ.get("WARM_UP", "0")))
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = os.environ["VERSION"].encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
    http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
""").strip()


def serve(lab: Any, *, entrypoint: str = SERVER, replicas: int = 1, **env: str) -> None:
    """Create the KaiwoService `web` with a readiness probe."""
    probe = {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1}
    container = {"name": "web", "readinessProbe": probe}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    lab.serve(
        "web",
        entrypoint=entrypoint,
        replicas=replicas,
        env=environment(**env),
        deployment={"spec": {"template": template}},
    )


def environment(**env: str) -> list[dict[str, str]]:
    """``spec.env``."""
    return [{"name": name, "value": value} for name, value in env.items()]


def change(lab: Any, **spec: Any) -> None:
    """Change the spec of `web`."""
    path = lab.path(KAIWO_SERVICE, "web")
    lab.api.request("PATCH", path, {"spec": spec}, content_type="application/merge-patch+json")


def expose(lab: Any) -> str:
    """Create a Service for the pods of `web`; its URL, which the machine reaches too."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"kaiwo.silogen.ai/name": "web"},
            "ports": [{"port": 80, "targetPort": PORT}],
        },
    }
    created = lab.api.create(f"{lab.core}/services", service)
    return f"http://{created['spec']['clusterIP']}/"


def answer(url: str) -> str:
    """What the service answers; empty if it does not."""
    with contextlib.suppress(urllib.error.URLError, OSError):
        return str(urllib.request.urlopen(url, timeout=5).read().decode())
    return ""


def ready(lab: Any) -> Any:
    """Wait until `web` is READY."""
    return lab.reaches("web", "READY", kind=KAIWO_SERVICE)


def test_a_service_is_ready_when_it_answers_and_answers_where_it_is_asked(
    lab: Any, wait_for: Callable[..., Any]
) -> None:
    """RUNNING while it warms up; then from this machine, and from another pod by its name."""
    serve(lab, VERSION="one", WARM_UP="4")
    url = expose(lab)
    status = lab.reaches("web", "RUNNING", "READY", kind=KAIWO_SERVICE)
    assert status["status"] == "RUNNING", "it was ready before it answered"
    ready(lab)
    wait_for("an answer", lambda: answer(url) == "one")
    script = f"wget -qO- http://web/; echo; wget -qO- http://web.{lab.namespace}.svc.cluster.local/"
    lab.submit("asks", entrypoint=script)
    assert lab.reaches("asks", "COMPLETE", "FAILED")["status"] == "COMPLETE"
    assert lab.log("asks") == "one\none"


def test_a_rollout_answers_all_the_time_and_a_broken_one_leaves_the_old_pods(
    lab: Any, wait_for: Callable[..., Any]
) -> None:
    """And the way back from the broken one is a change of the spec."""
    serve(lab, VERSION="one")
    url = expose(lab)
    ready(lab)
    wait_for("the first version", lambda: answer(url) == "one")
    seen = set()

    def second() -> bool:
        seen.add(answer(url))
        return "two" in seen

    change(lab, env=environment(VERSION="two"))
    wait_for("the second version", second)
    assert seen == {"one", "two"}, "a request had no answer"
    ready(lab)

    change(lab, entrypoint="echo no model; exit 5")
    reason = wait_for(
        "the crash in the status",
        lambda: (status := lab.status(KAIWO_SERVICE, "web")).get("reason") == "CrashLoopBackOff" and status,
    )
    assert "exited with code 5" in reason["message"]
    assert answer(url) == "two"
    change(lab, entrypoint=SERVER)
    ready(lab)
    assert answer(url) == "two"


def test_a_service_is_scaled_to_zero_and_back(lab: Any, wait_for: Callable[..., Any]) -> None:
    """Nothing runs at zero; its Service answers again afterwards."""
    serve(lab, VERSION="one", replicas=2)
    url = expose(lab)
    ready(lab)
    assert len(lab.pods("web")) == 2
    change(lab, replicas=0)
    status = lab.reaches("web", "PENDING", kind=KAIWO_SERVICE)
    assert status["reason"] == "ScaledToZero"
    wait_for("the end of all pods", lambda: not lab.pods("web"))
    assert answer(url) == ""
    change(lab, replicas=1)
    ready(lab)
    wait_for("an answer", lambda: answer(url) == "one")


def test_a_service_that_keeps_crashing_is_reported_with_its_exit_code(
    lab: Any, wait_for: Callable[..., Any]
) -> None:
    """A kubelet shows a container in its back-off as waiting or as terminated; neither is a start."""
    lab.serve("crash", entrypoint="sleep 2; exit 1")

    def restarts() -> int:
        states = lab.pod("crash")["status"].get("containerStatuses") or [{}]
        return int(states[0].get("restartCount", 0))

    wait_for("two restarts", lambda: restarts() >= 2, seconds=120)
    seen = []

    def third() -> bool:
        status = lab.status(KAIWO_SERVICE, "crash")
        seen.append((status["status"], status["reason"], status["message"]))
        return restarts() >= 3

    wait_for("a third restart", third, seconds=120)
    assert not [entry for entry in seen if "no container of Deployment crash runs yet" in entry[2]]
    assert any(entry[1] == "CrashLoopBackOff" and "exited with code 1" in entry[2] for entry in seen)
    assert "READY" not in {entry[0] for entry in seen}
