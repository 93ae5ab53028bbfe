"""Requests for Ray heads on the real node reach them; the others are answered by the simulator."""

from __future__ import annotations

import http.client
import threading
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaiwo_sandbox.ray.__main__ import make_server
from kaiwo_sandbox.ray.objects import RayObjects
from kaiwo_sandbox.ray.real_heads import address_of
from kaiwo_sandbox.real_node.certificates import NODE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo_sandbox.api import ApiClient

SERVICE = "real-head-svc"


class _Cluster:
    """An API server with one head on the real node, and one on a simulated node."""

    def get(self, path: str) -> Any:
        """A Service, or the pods that its selector matches."""
        if "/services/" in path:
            return {"spec": {"selector": {"ray.io/cluster": path.rpartition("/")[2].partition("-")[0]}}}
        if path.endswith("?labelSelector=ray.io%2Fcluster%3Dreal"):
            pods = [("127.0.0.1", NODE_NAME)]
        elif path.endswith("?labelSelector=ray.io%2Fcluster%3Dfake"):
            pods = [("10.244.0.9", "gpu-1")]
        elif path.endswith("?labelSelector=ray.io%2Fcluster%3Dbooting"):
            pods = [("", NODE_NAME)]
        else:
            pods = []
        return {
            "items": [{"spec": {"nodeName": node}, "status": {"podIP": address}} for address, node in pods]
        }


def real_head(namespace: str, name: str) -> str:
    """The address that the simulator finds for a Service."""
    return RayObjects(cast("ApiClient", _Cluster())).real_head(namespace, name)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.245.0.17:8000", "10.245.0.17"),
        ("10.244.0.17:8000", ""),
        (f"{SERVICE}.team.svc.cluster.local:8265", "127.0.0.1"),
        ("fake-head-svc.team.svc.cluster.local:8265", ""),
        ("starting-head-svc.team.svc.cluster.local:8265", ""),
        ("real-head-svc", ""),
        ("[broken", ""),
    ],
)
def test_a_head_is_real_if_its_pod_is_on_the_real_node(host: str, expected: str) -> None:
    """By the address of a pod, or by its Service."""
    assert address_of(f"http://{host}/api/jobs/", real_head) == expected


class _Head(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer with the request."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = f"{self.path} {self.headers['Content-Type']} ".encode() + body
        self.send_response(201)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_request(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[int]:
    """Serve until the end of the block; the port."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def connect(port: int) -> closing[http.client.HTTPConnection]:
    """A connection to the simulator, as KubeRay's proxy."""
    return closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10))


def test_a_request_for_a_real_head_is_forwarded_as_it_is() -> None:
    """Method, path, query and body go there, and status, type and body come back."""
    proxy = make_server(cast("ApiClient", _Cluster()), 0, real_node=True)
    head = ThreadingHTTPServer(("127.0.0.1", 0), _Head)
    with serving(head) as port, serving(proxy) as proxy_port, connect(proxy_port) as connection:
        url = f"http://{SERVICE}.team.svc.cluster.local:{port}/api/jobs/?x=1"
        connection.request("POST", url, b"{}", {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Content-Type")) == (201, "text/plain")
        assert answer.read() == b"/api/jobs/?x=1 application/json {}"


@pytest.mark.parametrize("head", [SERVICE, "booting-head-svc"])
def test_a_real_head_that_does_not_answer_is_not_simulated(head: str) -> None:
    """KubeRay must not see results of a job that runs for real before its head is up."""
    with closing(ThreadingHTTPServer(("127.0.0.1", 0), _Head).socket) as unused:
        port = unused.getsockname()[1]
    proxy = make_server(cast("ApiClient", _Cluster()), 0, real_node=True)
    with serving(proxy) as proxy_port, connect(proxy_port) as connection:
        connection.request("GET", f"http://{head}.team.svc.cluster.local:{port}/api/jobs/")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 503
