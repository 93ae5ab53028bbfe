"""A loopback server of S3's read calls that costs next to nothing: files are sent by the kernel.

A process of its own (``python -m bench.download_server FOLDER [COUNT] [--plain]``); prints its port. Objects
are the files of FOLDER, in the bucket ``bucket``; with COUNT, the listing of ``many`` has so many small ones.
``/sent`` returns how many bytes of objects were sent so far.

As Amazon S3 does, it keeps the CRC-64/NVME of every object from when it came, and returns it to a client
that reads a whole one and requests it (``x-amz-checksum-mode: ENABLED``). With ``--plain`` it knows no
checksums but ETags, as older stores.
"""

from __future__ import annotations

import argparse
import base64
import os
import socket
import threading
import urllib.parse
from pathlib import Path

from awscrt import checksums  # type: ignore[import-untyped] # the library has no types

_MULTIPART = 8 * 1024**2
"""Objects above it have ETags of multipart uploads, as every common tool makes them."""
_PAGE = 1000


def _etag(path: Path) -> str:
    import hashlib

    if path.stat().st_size > _MULTIPART:
        return '"0123456789abcdef0123456789abcdef-9"'
    return f'"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}"'


def _crc(path: Path) -> str:
    value = 0
    with path.open("rb") as file:
        while data := file.read(_MULTIPART):
            value = checksums.crc64nvme(data, value)
    encoded = base64.b64encode(value.to_bytes(8)).decode()
    return f"x-amz-checksum-crc64nvme: {encoded}\r\nx-amz-checksum-type: FULL_OBJECT\r\n"


class Served:
    """The bucket."""

    def __init__(self, folder: Path, many: int, *, plain: bool) -> None:
        self.files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
        self.etags = {key: _etag(path) for key, path in self.files.items()}
        self.checksums = {key: "" if plain else _crc(path) for key, path in self.files.items()}
        self.many = many
        self.sent = 0

    def entries(self, prefix: str, token: str) -> tuple[list[tuple[str, int, str]], str]:
        """One page of a listing and where the next one begins."""
        start = int(token or 0)
        if self.many and prefix.startswith("many"):
            names = [f"many/{number:07}" for number in range(start, min(start + _PAGE, self.many))]
            page = [(name, 100, '"0123456789abcdef0123456789abcdef"') for name in names]
            total = self.many
        else:
            keys = sorted(key for key in self.files if key.startswith(prefix))
            page = [
                (key, self.files[key].stat().st_size, self.etags[key]) for key in keys[start : start + _PAGE]
            ]
            total = len(keys)
        return page, str(start + _PAGE) if start + _PAGE < total else ""


def _list(served: Served, query: str) -> bytes:
    given = urllib.parse.parse_qs(query)
    page, token = served.entries(given.get("prefix", [""])[0], given.get("continuation-token", [""])[0])
    rows = "".join(
        f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>{etag}</ETag>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        for key, size, etag in page
    )
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    body = (
        f"<ListBucketResult><IsTruncated>{str(bool(token)).lower()}</IsTruncated>"
        f"<KeyCount>{len(page)}</KeyCount>{more}{rows}</ListBucketResult>"
    ).encode()
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _answer(client: socket.socket, served: Served, head: str) -> None:
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    place = urllib.parse.urlsplit(target)
    if place.path == "/sent":
        body = str(served.sent).encode()
        client.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        return
    key = urllib.parse.unquote(place.path).removeprefix("/bucket").lstrip("/")
    path = served.files.get(key)
    if not key:
        client.sendall(_list(served, place.query))
        return
    if path is None:
        client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        return
    size = path.stat().st_size
    start, end, status, extra = 0, size, "200 OK", ""
    if requested := headers.get("range"):
        low, _, high = requested.removeprefix("bytes=").partition("-")
        start, end, status = int(low), min(int(high or size) + 1, size), "206 Partial Content"
        extra = f"Content-Range: bytes {start}-{end - 1}/{size}\r\n"
    elif headers.get("x-amz-checksum-mode", "").upper() == "ENABLED":
        extra = served.checksums[key]
    client.sendall(
        f"HTTP/1.1 {status}\r\nContent-Length: {end - start}\r\nETag: {served.etags[key]}\r\n{extra}"
        "Accept-Ranges: bytes\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n".encode()
    )
    if method == "HEAD":
        return
    with path.open("rb") as file:
        while start < end:
            # The interpreter's lock makes this exact enough: one thread adds at a time.
            sent = os.sendfile(client.fileno(), file.fileno(), start, end - start)
            start += sent
            served.sent += sent


def _serve(client: socket.socket, served: Served) -> None:
    data = b""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            while b"\r\n\r\n" not in data:
                more = client.recv(65536)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            _answer(client, served, head.decode())
    except OSError:
        return
    finally:
        client.close()


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("many", type=int, nargs="?", default=0)
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    served = Served(given.folder, given.many, plain=given.plain)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_serve, args=(client, served), daemon=True).start()


if __name__ == "__main__":
    main()
