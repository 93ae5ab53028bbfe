"""`python -m kaiwo_sandbox.ray URL PKI PORT`: serve all Ray heads of the sandbox at 127.0.0.1:PORT."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.api import Api, ApiError
from kaiwo_sandbox.ports import LOOPBACK
from kaiwo_sandbox.ray.dashboard import Answer, Dashboard
from kaiwo_sandbox.ray.objects import RayObjects

if TYPE_CHECKING:
    from collections.abc import Callable

_UNAVAILABLE = 503


def make_server(api: Api, port: int) -> ThreadingHTTPServer:
    """A server on 127.0.0.1. Connections have a thread each; one more thread does all of the simulation."""
    worker = ThreadPoolExecutor(1, "simulation")

    def try_quietly(action: Callable[[], None]) -> None:
        try:
            action()
        except (OSError, ApiError) as error:  # the next question of KubeRay's brings it on
            _log(f"put off: {error}")

    def later(seconds: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, lambda: worker.submit(try_quietly, action))
        timer.daemon = True
        timer.start()

    dashboard = Dashboard(RayObjects(api), later)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            url = self.path if "://" in self.path else f"http://{self.headers.get('Host', '')}{self.path}"
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                answer = worker.submit(dashboard.answer, self.command, url, body).result()
            except (OSError, ApiError) as error:
                answer = Answer(_UNAVAILABLE, f"the API server does not answer: {error}")
            data = json.dumps(answer.document).encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_request(self, *_: object) -> None:
            """Write nothing: KubeRay asks every two seconds."""

    server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    server.daemon_threads = True
    return server


def _log(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(url: str, pki: str, port: str) -> None:
    """Serve until the process is ended."""
    _log("Ray heads are simulated: nothing is computed.")
    make_server(Api(url, Path(pki)), int(port)).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
