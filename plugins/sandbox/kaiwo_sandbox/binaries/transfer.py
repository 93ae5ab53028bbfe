"""Downloads over TLS with bounds on time and size. They are retried, and continue where they stopped.

The authorities are those of the system; `SSL_CERT_FILE` names others. Proxies come from `HTTPS_PROXY`.
"""

from __future__ import annotations

import contextlib
import http.client
import queue
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_CHUNK = 1 << 18
_RETRIED = {http.client.TOO_MANY_REQUESTS, http.client.BAD_GATEWAY, http.client.SERVICE_UNAVAILABLE}
_MAX_RESUMES = 50


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """When a download is given up; times in seconds.

    Attributes:
        connect: for the name, the connection and each step of the TLS handshake.
        read: without a single byte.
        window: at least `window_bytes` must arrive in this time, over all downloads together.
        window_bytes: 9 MiB in 90 s are 100 KiB/s, at which a build with Go is quicker.
        attempts: how often a request is sent that fails without any progress.
        longest_wait: the longest wait that a server may ask for with Retry-After.
    """

    connect: float = 5
    read: float = 15
    window: float = 90
    window_bytes: int = 9 << 20
    attempts: int = 3
    longest_wait: float = 10


class TransferError(Exception):
    """A download failed; the text names the host and what failed.

    Attributes:
        code: the HTTP status, or 0 without an answer.
        challenge: the header WWW-Authenticate of the answer.
    """

    def __init__(self, text: str, *, code: int = 0, challenge: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.challenge = challenge


class _Progress:
    """Counts the bytes of all downloads and notices that too few arrive."""

    def __init__(self, limits: TransferLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._arrivals: deque[tuple[int, int]] = deque()
        """Bytes by second."""

    def add(self, count: int) -> None:
        second = int(time.monotonic())
        with self._lock:
            if self._arrivals and self._arrivals[-1][0] == second:
                count += self._arrivals.pop()[1]
            self._arrivals.append((second, count))

    def has_stalled(self) -> bool:
        oldest = time.monotonic() - self._limits.window
        with self._lock:
            while self._arrivals and self._arrivals[0][0] < oldest:
                self._arrivals.popleft()
            arrived = sum(count for _, count in self._arrivals)
            return self._started < oldest and arrived < self._limits.window_bytes


class TransferSession:
    """Downloads that share their limits: if one cannot connect to a host, the others do not try it again."""

    def __init__(self, limits: TransferLimits = TransferLimits()) -> None:
        self._limits = limits
        self._progress = _Progress(limits)
        self._lock = threading.Lock()
        self._unreachable: dict[str, str] = {}
        self._sockets: set[socket.socket] = set()
        self._aborted = ""
        self._opener = urllib.request.build_opener(_HttpsHandler(self), _HttpHandler(self), _Redirects())
        # Some content delivery networks refuse the default of Python's library.
        self._opener.addheaders = [("User-Agent", "kaiwo-sandbox")]

    def get(self, url: str, *, limit: int, headers: Mapping[str, str] | None = None) -> bytes:
        """Download at most `limit` bytes into memory.

        Raises:
            TransferError: the download failed, or there are more bytes.
        """
        failure = TransferError(f"{_host(url)}: no answer")
        for _ in range(self._limits.attempts):
            content = bytearray()
            try:
                with self._open(url, headers or {}) as response:
                    while chunk := response.read1(_CHUNK):
                        self._count(chunk)
                        content += chunk
                        if len(content) > limit:
                            raise TransferError(f"{_host(url)}: expected at most {limit} bytes, got more")
                    self._check(url)
                    if not response.length:
                        return bytes(content)
            except (OSError, http.client.HTTPException) as error:
                failure = self._failure(url, error)
            else:
                failure = TransferError(f"{_host(url)}: the connection ended early")
        raise failure

    def download(
        self, url: str, target: Path, *, size: int, headers: Mapping[str, str] | None = None
    ) -> None:
        """Download exactly `size` bytes to `target`, and continue a part that is already there.

        Raises:
            TransferError: the download failed; what has arrived stays for the next attempt.
        """
        failures, resumes = 0, 0
        while True:
            before = _size(target)
            try:
                self._append(url, target, size, headers or {})
            except (OSError, http.client.HTTPException) as error:
                failure = self._failure(url, error)
            else:
                failure = TransferError(
                    f"{_host(url)}: the connection ended after {_size(target)} of {size} bytes"
                )
            self._check(url)
            if _size(target) == size:
                return
            resumes += 1
            failures = 0 if _size(target) > before else failures + 1
            if failures >= self._limits.attempts or resumes >= _MAX_RESUMES:
                raise failure

    def _append(self, url: str, target: Path, size: int, headers: Mapping[str, str]) -> None:
        done = _size(target)
        if done >= size:
            target.unlink()
            done = 0
        ranged = {"Range": f"bytes={done}-"} if done else {}
        try:
            response = self._open(url, {**headers, **ranged})
        except TransferError as error:
            if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not done:
                raise
            target.unlink()
            return
        with response:
            continued = bool(done) and _continues(response, done)
            with target.open("ab" if continued else "wb") as file:
                remaining = size - (done if continued else 0)
                while remaining and (chunk := response.read1(min(_CHUNK, remaining))):
                    self._count(chunk)
                    file.write(chunk)
                    remaining -= len(chunk)
            if not remaining and response.read1(1):
                target.unlink()
                raise TransferError(f"{_host(url)}: expected {size} bytes, got more")

    def run(
        self, tasks: Mapping[str, Callable[[], str]], progress: Callable[[str], None], *, threads: int = 4
    ) -> dict[str, Exception]:
        """Run downloads in threads and return the failed ones by name; stop all when they stall.

        The threads are daemons: an interrupt of the caller and a name server that does not answer do not
        keep the process. `progress` gets what the tasks return, in the thread of the caller.
        """
        waiting = deque(tasks.items())
        finished: queue.SimpleQueue[tuple[str, str | Exception]] = queue.SimpleQueue()
        for _ in range(min(threads, len(tasks))):
            threading.Thread(target=_work, args=(waiting, finished), daemon=True).start()
        remaining = set(tasks)
        failures: dict[str, Exception] = {}
        try:
            while remaining:
                with contextlib.suppress(queue.Empty):
                    name, outcome = finished.get(timeout=0.2)
                    remaining.remove(name)
                    if isinstance(outcome, Exception):
                        failures[name] = outcome
                    else:
                        progress(outcome)
                if not self._aborted and self._progress.has_stalled():
                    expected = f"{self._limits.window_bytes >> 10} KiB"
                    self._abort(f"less than {expected} arrived in {self._limits.window:g} s")
        except BaseException:
            self._abort("interrupted")
            raise
        return failures

    def _abort(self, reason: str) -> None:
        """Make all running and later downloads fail."""
        with self._lock:
            self._aborted = reason
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _check(self, url: str) -> None:
        """Raise if the downloads were stopped; a connection that was shut down reads like one that ended."""
        if self._aborted:
            raise TransferError(f"{_host(url)}: {self._aborted}")

    def _count(self, chunk: bytes) -> None:
        self._progress.add(len(chunk))

    def _failure(self, url: str, error: Exception) -> TransferError:
        """The failure as a `TransferError`; it is raised at once if another attempt has no use."""
        if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
            error = error.reason
        self._check(url)
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"{_host(url)}: its TLS certificate is not trusted: {error.verify_message}"
            raise TransferError(text) from error
        return TransferError(f"{_host(url)}: {str(error) or type(error).__name__}")

    def _open(self, url: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        """Open a URL, and wait and try again if the server asks for that."""
        request = urllib.request.Request(url)  # noqa: S310 - https, or checked by a hash of the caller
        for name, value in headers.items():
            # Registries redirect blobs to other hosts, and those must not receive the token.
            add = request.add_unredirected_header if name == "Authorization" else request.add_header
            add(name, value)
        for attempt in range(1, self._limits.attempts + 1):
            self._check(url)
            try:
                opened: http.client.HTTPResponse = self._opener.open(request, timeout=self._limits.read)
            except urllib.error.HTTPError as error:
                with error:
                    wait = _retry_after(error)
                    text = f"{_host(url)}: HTTP {error.code} {error.reason}"
                    if error.code not in _RETRIED:
                        challenge = error.headers.get("WWW-Authenticate", "")
                        raise TransferError(text, code=error.code, challenge=challenge) from error
                    if wait > self._limits.longest_wait:
                        raise TransferError(f"{text}, retry after {wait:.0f} s", code=error.code) from error
                    if attempt == self._limits.attempts:
                        raise TransferError(f"{text}, {attempt} times", code=error.code) from error
                time.sleep(wait)
            else:
                return opened
        raise AssertionError("unreachable")

    def connect(self, address: tuple[str, int], _timeout: Any = None, _source: Any = None) -> socket.socket:
        """Connect within the limit, name resolution included, and remember hosts that do not answer.

        Raises:
            TransferError: the host cannot be reached.
        """
        name = f"{address[0]}:{address[1]}"
        if (known := self._unreachable.get(name)) is not None:
            raise TransferError(known)
        results: queue.SimpleQueue[socket.socket | OSError] = queue.SimpleQueue()
        expired = threading.Event()

        def attempt() -> None:
            try:
                connected = socket.create_connection(address, self._limits.connect)
            except OSError as error:
                results.put(error)
                return
            results.put(connected)
            if expired.is_set():
                connected.close()

        threading.Thread(target=attempt, daemon=True).start()
        try:
            result = results.get(timeout=self._limits.connect)
        except queue.Empty:
            expired.set()
            result = TimeoutError(f"no connection within {self._limits.connect:g} s")
        if isinstance(result, OSError):
            reason = f"cannot connect to {address[0]}: {result.strerror or result}"
            self._unreachable[name] = reason
            raise TransferError(reason) from result
        return result

    def track(self, connected: socket.socket) -> None:
        """Set the read timeout of an open connection, and close it when the downloads are stopped."""
        connected.settimeout(self._limits.read)
        with self._lock:
            self._sockets = {each for each in self._sockets if each.fileno() != -1} | {connected}

    @property
    def connect_timeout(self) -> float:
        """The limit of each step of the TLS handshake."""
        return self._limits.connect


def _work(
    waiting: deque[tuple[str, Callable[[], str]]],
    finished: queue.SimpleQueue[tuple[str, str | Exception]],
) -> None:
    while True:
        try:
            name, task = waiting.popleft()
        except IndexError:
            return
        try:
            outcome: str | Exception = task()
        except Exception as error:  # noqa: BLE001 - the caller of `run` gets it
            outcome = error
        finished.put((name, outcome))


class _HttpsConnection(http.client.HTTPSConnection):
    def __init__(self, transfer: TransferSession, host: str, **options: Any) -> None:
        super().__init__(host, **options)
        self.transfer = transfer

    def connect(self) -> None:
        """Connect and shake hands with the connect limit, then read with the read limit."""
        self.timeout = self.transfer.connect_timeout
        self._create_connection = self.transfer.connect
        super().connect()
        self.transfer.track(self.sock)


class _HttpConnection(http.client.HTTPConnection):
    def __init__(self, transfer: TransferSession, host: str, **options: Any) -> None:
        super().__init__(host, **options)
        self.transfer = transfer

    def connect(self) -> None:
        """Connect with the connect limit, then read with the read limit."""
        self._create_connection = self.transfer.connect
        super().connect()
        self.transfer.track(self.sock)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, transfer: TransferSession) -> None:
        super().__init__()
        self._connection = partial(_HttpsConnection, transfer)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open with this transfer's connections."""
        return self.do_open(self._connection, req)


class _HttpHandler(urllib.request.HTTPHandler):
    def __init__(self, transfer: TransferSession) -> None:
        super().__init__()
        self._connection = partial(_HttpConnection, transfer)

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open with this transfer's connections."""
        return self.do_open(self._connection, req)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(  # noqa: PLR0917 - the signature of the base class
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Follow a redirect, but not from https to anything else."""
        if req.type == "https" and urllib.parse.urlsplit(newurl).scheme != "https":
            fp.close()
            raise TransferError(f"{_host(req.full_url)}: redirects from https to {newurl.partition(':')[0]}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _continues(response: http.client.HTTPResponse, done: int) -> bool:
    """Whether the answer starts at byte `done`. A server may ignore the range and send everything."""
    start = f"bytes {done}-"
    return response.status == http.client.PARTIAL_CONTENT and response.headers.get(
        "Content-Range", ""
    ).startswith(start)


def _retry_after(error: urllib.error.HTTPError) -> float:
    """The seconds that the server asks for; 1 without the header or with a date."""
    value = error.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else 1.0


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _host(url: str) -> str:
    """The host of a URL, without the credentials that may stand before it."""
    return urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
