"""Serve the simulated Ray heads: `python -m kaiwo_sandbox.ray URL PKI PORT` listens on 127.0.0.1:PORT."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.api import ApiClient, SandboxApiError
from kaiwo_sandbox.ports import LOOPBACK
from kaiwo_sandbox.ray.dashboard import DashboardResponse, RayDashboard
from kaiwo_sandbox.ray.objects import RayObjects

if TYPE_CHECKING:
    from collections.abc import Callable

_UNAVAILABLE = 503


def make_server(api: ApiClient, port: int) -> ThreadingHTTPServer:
    """Create a server on 127.0.0.1, with one thread per connection and one thread for the simulation."""
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

    dashboard = RayDashboard(RayObjects(api), call_later)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            url = self.path if "://" in self.path else f"http://{self.headers.get('Host', '')}{self.path}"
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                response = worker.submit(dashboard.handle, self.command, url, body).result()
            except (OSError, SandboxApiError) as error:
                response = DashboardResponse(_UNAVAILABLE, f"the API server is unavailable: {error}")
            data = json.dumps(response.document).encode()
            self.send_response(response.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _handle

        def log_request(self, *_: object) -> None:
            """Write nothing, because KubeRay sends requests every two seconds."""

    server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    server.daemon_threads = True
    return server


def _log(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(url: str, pki: str, port: str) -> None:
    """Serve until the process ends."""
    _log("serving simulated Ray heads; nothing is computed")
    make_server(ApiClient(url, Path(pki)), int(port)).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
