"""A synchronous JSON client for the API server of a sandbox.

It uses the standard library only, so that commands start quickly and tests can use it with and without an
event loop. The operator has a client of its own in `kaiwo.engine`.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Object = dict[str, Any]

CONFLICT = 409
NOT_FOUND = 404
_FIRST_ERROR = 400
_TIMEOUT_SECONDS = 30.0


class SandboxApiError(SandboxError):
    """The API server answered with an error; `status` is the HTTP status code."""

    def __init__(self, status: int, message: str, request: str) -> None:
        super().__init__(f"{request}: {status} {message}")
        self.status = status


class ApiClient:
    """Requests to one API server as administrator, with one persistent connection per thread."""

    def __init__(self, url: str, pki: Path) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[http.client.HTTPSConnection] = []

    def _connect(self, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, context=self._context, timeout=timeout)

    def _connection(self) -> http.client.HTTPSConnection:
        """The connection of this thread, which opens when a request is sent."""
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect(_TIMEOUT_SECONDS)
            with self._lock:
                self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Close the connections of all threads; a later request opens one again."""
        with self._lock:
            for connection in self._connections:
                connection.close()

    def request(
        self,
        method: str,
        path: str,
        body: Object | list[Object] | None = None,
        *,
        content_type: str = "application/json",
    ) -> Any:
        """Send a request and return the decoded response, or its text when it is not JSON.

        A request that fails on a reused connection is sent again on a new one.

        Raises:
            SandboxApiError: the server answered with status 400 or above.
            OSError: the connection failed.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", "Content-Type": content_type}
        connection = self._connection()
        reused = connection.sock is not None
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if reused:
                return self.request(method, path, body, content_type=content_type)
            if isinstance(error, OSError):
                raise
            raise OSError(str(error)) from error
        if response.status >= _FIRST_ERROR:
            raise SandboxApiError(response.status, _error_message(text), f"{method} {path}")
        is_json = (response.headers.get_content_type() or "").endswith("json")
        return json.loads(text) if is_json else text.decode(errors="replace")

    def get(self, path: str) -> Any:
        """GET `path`."""
        return self.request("GET", path)

    def create(self, path: str, body: Object) -> Object:
        """POST `body` to the collection `path` and return the created object."""
        created: Object = self.request("POST", path, body)
        return created

    def apply(self, path: str, body: Object) -> Object:
        """Server-side apply `body` to the object at `path`, with force."""
        applied: Object = self.request(
            "PATCH",
            f"{path}?fieldManager=kaiwo-sandbox&force=true",
            body,
            content_type="application/apply-patch+yaml",
        )
        return applied

    def watch(self, path: str, *, timeout: float) -> Iterator[Object]:
        """Watch the collection `path` for `timeout` seconds and yield the events, existing objects first.

        Raises:
            SandboxApiError: the server rejected the watch or sent an error event.
            OSError: the connection failed, possibly in the middle of an event.
        """
        separator = "&" if "?" in path else "?"
        query = f"{path}{separator}watch=1&timeoutSeconds={max(1, round(timeout))}"
        with closing(self._connect(timeout + 5)) as connection:
            connection.request("GET", query, headers={"Accept": "application/json"})
            response = connection.getresponse()
            if response.status >= _FIRST_ERROR:
                raise SandboxApiError(response.status, _error_message(response.read()), f"GET {query}")
            while line := _read_line(response):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise SandboxApiError(status.get("code", 0), status.get("message", ""), f"GET {query}")
                yield event


def _read_line(response: http.client.HTTPResponse) -> bytes:
    """Read the next complete line of a stream; it is empty at the end."""
    try:
        line = response.readline()
    except http.client.HTTPException as error:
        raise OSError(f"watch interrupted: {error}") from error
    if line and not line.endswith(b"\n"):
        raise OSError("watch interrupted in the middle of an event")
    return line


def _error_message(text: bytes) -> str:
    try:
        return str(json.loads(text).get("message", ""))
    except (ValueError, AttributeError):
        return text.decode(errors="replace").strip()
