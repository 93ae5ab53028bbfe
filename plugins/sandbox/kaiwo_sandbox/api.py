"""A few plain HTTPS calls to the sandbox's own API server, JSON in and JSON out.

Synchronous and from the standard library: it must work inside tests with or without an event loop, and start
quickly in commands. The operator's client is another thing and lives in the engine.
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


class ApiError(SandboxError):
    """The API server answered with an error; `status` is the HTTP code."""

    def __init__(self, status: int, message: str, request: str) -> None:
        super().__init__(
            f"{request}: {status} {message}",
            why="The sandbox's API server refused the request.",
        )
        self.status = status


class Api:
    """Requests to one API server as the sandbox's administrator, one kept connection per thread."""

    def __init__(self, url: str, pki: Path) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
        self._local = threading.local()
        self._lock = threading.Lock()
        self._opened: list[http.client.HTTPSConnection] = []

    def _connect(self, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, context=self._context, timeout=timeout)

    def _kept(self) -> http.client.HTTPSConnection:
        """This thread's connection; it connects by itself when a request is sent."""
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect(_TIMEOUT_SECONDS)
            with self._lock:
                self._opened.append(connection)
        return connection

    def close(self) -> None:
        """Close the connections of all threads; a later request opens a new one."""
        with self._lock:
            for connection in self._opened:
                connection.close()

    def request(
        self,
        method: str,
        path: str,
        body: Object | list[Object] | None = None,
        *,
        content_type: str = "application/json",
    ) -> Any:
        """Send one request and return the decoded answer, or its text when it is not JSON.

        Raises:
            ApiError: the server answered 400 or above.
            OSError: the connection failed, and a new one did not help if it was a kept one.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", "Content-Type": content_type}
        connection = self._kept()
        reused = connection.sock is not None
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if reused:
                return self.request(method, path, body, content_type=content_type)
            if isinstance(error, OSError):
                raise
            raise OSError(str(error)) from error
        if answer.status >= _FIRST_ERROR:
            raise ApiError(answer.status, _message(text), f"{method} {path}")
        is_json = (answer.headers.get_content_type() or "").endswith("json")
        return json.loads(text) if is_json else text.decode(errors="replace")

    def get(self, path: str) -> Any:
        """GET `path`."""
        return self.request("GET", path)

    def create(self, path: str, body: Object) -> Object:
        """POST `body` to the collection `path` and return the object made."""
        made: Object = self.request("POST", path, body)
        return made

    def apply(self, path: str, body: Object) -> Object:
        """Server-side apply `body` at the object's own `path`, taking over fields of other managers."""
        made: Object = self.request(
            "PATCH",
            f"{path}?fieldManager=kaiwo-sandbox&force=true",
            body,
            content_type="application/apply-patch+yaml",
        )
        return made

    def watch(self, path: str, *, timeout: float) -> Iterator[Object]:
        """Yield the events of a watch on the collection `path` (existing objects first), `timeout` s long.

        Raises:
            ApiError: the server refused the watch, or ended it with an error.
            OSError: the connection failed, also in the middle of an event.
        """
        separator = "&" if "?" in path else "?"
        query = f"{path}{separator}watch=1&timeoutSeconds={max(1, round(timeout))}"
        with closing(self._connect(timeout + 5)) as connection:
            connection.request("GET", query, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            if answer.status >= _FIRST_ERROR:
                raise ApiError(answer.status, _message(answer.read()), f"GET {query}")
            while line := _line(answer):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(status.get("code", 0), status.get("message", ""), f"GET {query}")
                yield event


def _line(answer: http.client.HTTPResponse) -> bytes:
    """The next whole line of a stream, empty at its end."""
    try:
        line = answer.readline()
    except http.client.HTTPException as error:
        raise OSError(f"the stream broke off: {error}") from error
    if line and not line.endswith(b"\n"):
        raise OSError("the stream broke off in the middle of an event")
    return line


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text).get("message", ""))
    except (ValueError, AttributeError):
        return text.decode(errors="replace").strip()
