"""Serve the simulated Ray heads: `python -m kaiwo_sandbox.ray URL PKI PORT` listens on 127.0.0.1:PORT.

With `--real-node`, requests for heads on the real node are forwarded to them.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.api import ApiClient, SandboxApiError
from kaiwo_sandbox.ports import LOOPBACK
from kaiwo_sandbox.ray import real_heads
from kaiwo_sandbox.ray.dashboard import DashboardResponse, RayDashboard
from kaiwo_sandbox.ray.objects import RayObjects
from kaiwo_sandbox.ray.real_heads import HeadResponse

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message

REAL_NODE = "--real-node"
_UNAVAILABLE = 503


def make_server(api: ApiClient, port: int, *, real_node: bool = False) -> ThreadingHTTPServer:
    """Create a server on 127.0.0.1, with one thread per connection and one thread for the simulation.

    Args:
        api: a client for the API server.
        port: the port.
        real_node: forward requests for heads on the real node.
    """
    worker = ThreadPoolExecutor(1, "simulation")

    def run_and_log(action: Callable[[], None]) -> None:
        try:
            action()
        except (OSError, SandboxApiError) as error:  # the next request of KubeRay repeats the update
            _log(f"update of a Ray job failed: {error}")

    def call_later(seconds: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, lambda: worker.submit(run_and_log, action))
        timer.daemon = True
        timer.start()

    objects = RayObjects(api)
    dashboard = RayDashboard(objects, call_later)

    def answer(method: str, url: str, headers: Message, body: bytes) -> HeadResponse:
        try:
            if real_node and (
                address := worker.submit(real_heads.address_of, url, objects.real_head).result()
            ):
                return real_heads.forward(address, method, url, headers, body)
            response = worker.submit(dashboard.handle, method, url, body).result()
        except (OSError, SandboxApiError, http.client.HTTPException) as error:
            response = DashboardResponse(_UNAVAILABLE, f"the API server or the head is unavailable: {error}")
        return HeadResponse(response.status, "application/json", json.dumps(response.document).encode())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            url = self.path if "://" in self.path else f"http://{self.headers.get('Host', '')}{self.path}"
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            response = answer(self.command, url, self.headers, body)
            self.send_response(response.status)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            self.wfile.write(response.body)

        do_GET = do_POST = do_PUT = do_DELETE = _handle

        def log_request(self, *_: object) -> None:
            """Write nothing, because KubeRay sends requests every two seconds."""

    server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    server.daemon_threads = True
    return server


def _log(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(url: str, pki: str, port: str, *flags: str) -> None:
    """Serve until the process ends."""
    real_node = REAL_NODE in flags
    _log("serving simulated Ray heads; they compute nothing")
    make_server(ApiClient(url, Path(pki)), int(port), real_node=real_node).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
