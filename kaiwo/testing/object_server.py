"""A fake object store that can misbehave: S3, Google Cloud Storage and Azure Blob Storage, as XML."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import time
import urllib.parse
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

from kaiwo.testing.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODIFIED: Final = "Sat, 21 Nov 2026 12:00:00 GMT"
ACCOUNT: Final = "account"
"""Name of the Azure storage account, which is the first part of a path there."""


class ObjectHandler(BaseHTTPRequestHandler):
    """Answers one connection; faults may use it to answer otherwise."""

    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer; an underscore in the name of a header is a dash."""
        self.send_response(status)
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in {"Last-Modified": MODIFIED, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.server.objects.sent += len(body)
            self.wfile.write(body)

    def do_GET(self) -> None:
        """Answer a read, or a list."""
        objects = self.server.objects
        place = urllib.parse.urlsplit(self.path)
        path = place.path.removeprefix(f"/{ACCOUNT}") if objects.azure else place.path
        bucket, _, key = urllib.parse.unquote(path).lstrip("/").partition("/")
        objects.requests.append((self.command, key, dict(self.headers.items())))
        if not objects.allowed({**dict(self.headers.items()), ":path": self.path}):
            self.reply(403, b"<Error><Code>AccessDenied</Code></Error>")
        elif bucket != objects.bucket:
            self.reply(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif objects.strikes(key, self):
            return
        elif not key:
            query = urllib.parse.parse_qs(place.query)
            self._list(query.get("prefix", [""])[0], query.get("start-after", [""])[0])
        elif key not in objects.content:
            self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self.serve(key)

    do_HEAD = do_GET

    def serve(self, key: str) -> None:
        """Answer with an object, or the range of it that is wanted."""
        objects = self.server.objects
        body, etag = objects.content[key], objects.etag(key)
        extra = {"Accept-Ranges": "bytes", **objects.headers(key)}
        if self.headers.get("x-amz-checksum-mode") == "ENABLED" and not self.headers.get("Range"):
            extra |= objects.checksums.get(key, {})
        if self.headers.get("If-Match", etag) != etag:
            return self.reply(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        if asked := self.headers.get("Range") or self.headers.get("x-ms-range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last), len(body) - 1)
            extra["Content-Range"] = f"bytes {start}-{end}/{len(body)}"
            time.sleep(objects.delay)
            return self.reply(206, body[start : end + 1], ETag=etag, **extra)
        return self.reply(200, body, ETag=etag, **extra)

    def _list(self, prefix: str, after: str) -> None:
        objects = self.server.objects
        found = [
            (key, body)
            for key, body in sorted(objects.content.items())
            if key.startswith(prefix) and key > after
        ][: objects.first]
        if objects.azure:
            blobs = "".join(
                f"<Blob><Name>{escape(key)}</Name><Properties><Last-Modified>{MODIFIED}</Last-Modified>"
                f"<Etag>{escape(objects.etag(key))}</Etag><Content-Length>{len(body)}</Content-Length>"
                "<Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType></Properties></Blob>"
                for key, body in found
            )
            text = f"<EnumerationResults><Blobs>{blobs}</Blobs></EnumerationResults>"
        else:
            contents = "".join(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size>"
                f"<ETag>{escape(objects.etag(key))}</ETag>"
                "<LastModified>2026-11-21T12:00:00.000Z</LastModified></Contents>"
                for key, body in found
            )
            text = f"<ListBucketResult>{contents}</ListBucketResult>"
        self.reply(200, text.encode())


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    objects: Objects

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""


@dataclass
class Objects:
    """A bucket, and what goes wrong with it.

    Attributes:
        bucket: its name.
        content: objects by key.
        faults: by key, what may answer a request for an object; true when it did. The empty key stands for
            lists.
        reached: faults that a request met.
        etags: by key, in place of the MD5 of the content.
        checksums: by key, headers with checksums that S3 gives to those who ask.
        other_headers: by key, in place of the headers with checksums that nobody has to ask for.
        goog: whether it speaks as Google Cloud Storage.
        azure: whether it speaks as Azure Blob Storage.
        requests: method, key and headers of each request.
        allowed: whether a request with these headers may read.
        sent: bytes of answers.
        delay: seconds before each range.
        first: objects in an answer to a list; what it leaves out is not mentioned.
        url: of the server.
        server: that answers.
    """

    bucket: str = "bucket"
    content: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, Callable[[ObjectHandler], bool]] = field(default_factory=dict)
    reached: set[Callable[[ObjectHandler], bool]] = field(default_factory=set)
    etags: dict[str, str] = field(default_factory=dict)
    checksums: dict[str, dict[str, str]] = field(default_factory=dict)
    other_headers: dict[str, dict[str, str]] = field(default_factory=dict)
    goog: bool = False
    azure: bool = False
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    allowed: Callable[[dict[str, str]], bool] = lambda _: True
    sent: int = 0
    delay: float = 0.0
    first: int | None = None
    url: str = ""
    server: Any = None

    @property
    def port(self) -> int:
        """The server's port."""
        return int(self.url.rpartition(":")[2])

    def strikes(self, key: str, handler: ObjectHandler) -> bool:
        """Whether a fault answers this request for an object."""
        fault = self.faults.get(key)
        if fault is None:
            return False
        self.reached.add(fault)
        return fault(handler)

    def etag(self, key: str) -> str:
        """MD5, as of objects uploaded in one piece, unless set otherwise."""
        if self.goog or self.azure:
            return self.etags.get(key, '"generation-1"')
        if key in self.etags:
            return self.etags[key]
        return f'"{hashlib.md5(self.content[key], usedforsecurity=False).hexdigest()}"'

    def headers(self, key: str) -> dict[str, str]:
        """Checksums in headers that nobody has to ask for."""
        if key in self.other_headers:
            return self.other_headers[key]
        digest = base64.b64encode(hashlib.md5(self.content[key], usedforsecurity=False).digest()).decode()
        if self.azure:
            return {"x-ms-blob-type": "BlockBlob", "x-ms-blob-content-md5": digest, "Content-MD5": digest}
        return {"x-goog-hash": f"md5={digest}"} if self.goog else {}


@contextlib.contextmanager
def serve_objects() -> Iterator[Objects]:
    """A bucket behind a server on loopback, for as long as the block lasts."""
    served = Objects()
    server = _Http(("127.0.0.1", 0), ObjectHandler)
    server.objects, served.server = served, server
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    with serving(server):
        yield served
