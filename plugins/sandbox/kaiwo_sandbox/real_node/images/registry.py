"""A read-only image registry (OCI distribution API): ``python -m kaiwo_sandbox.real_node.images.registry``.

It serves the image directories that `add` linked, so that pods with imagePullPolicy Always pull their images
as in any cluster. It listens on the link to the node only.
"""

from __future__ import annotations

import re
import shutil
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from kaiwo_sandbox.real_node.images import store

_MANIFEST = re.compile(r"/v2/(?P<name>[a-z0-9][a-z0-9/._-]*)/manifests/(?P<reference>[A-Za-z0-9_.:-]+)")
_BLOB = re.compile(r"/v2/(?P<name>[a-z0-9][a-z0-9/._-]*)/blobs/sha256:(?P<digest>[0-9a-f]{64})")
_DIGEST = "sha256:"


def add(root: Path, name: str, image: Path) -> None:
    """Serve the image directory `image` as `name`, such as ``busybox:1``; replaces an image of that name."""
    repository, _, tag = name.partition(":")
    link = root / repository / tag
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f"{tag}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(image)
    fresh.rename(link)


def _tags(root: Path, name: str) -> list[Path]:
    repository = root / name
    return [each for each in repository.iterdir() if each.is_symlink()] if repository.is_dir() else []


def find_manifest(root: Path, name: str, reference: str) -> tuple[str, bytes] | None:
    """The manifest of a tag or a digest, after its digest."""
    for tag in _tags(root, name):
        if not (tag / "index.json").is_file():
            continue
        digest = store.digest(tag)
        if reference in {tag.name, digest}:
            return digest, store.blob(tag, digest).read_bytes()
    return None


def find_blob(root: Path, name: str, digest: str) -> Path | None:
    """The file of a layer or a configuration."""
    return next(
        (blob for tag in _tags(root, name) if (blob := store.blob(tag, _DIGEST + digest)).is_file()), None
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path

    def do_GET(self) -> None:
        """Serve a manifest or a blob."""
        self._serve(body=True)

    def do_HEAD(self) -> None:
        """Serve the headers of a manifest or a blob."""
        self._serve(body=False)

    def _serve(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        if path == "/v2/":
            self._head(HTTPStatus.OK, 2, "application/json")
            if body:
                self.wfile.write(b"{}")
        elif (match := _MANIFEST.fullmatch(path)) and (
            found := find_manifest(self.root, match["name"], match["reference"])
        ):
            digest, manifest = found
            self._head(HTTPStatus.OK, len(manifest), store.MANIFEST_TYPE, digest)
            if body:
                self.wfile.write(manifest)
        elif (match := _BLOB.fullmatch(path)) and (
            blob := find_blob(self.root, match["name"], match["digest"])
        ):
            self._head(
                HTTPStatus.OK, blob.stat().st_size, "application/octet-stream", _DIGEST + match["digest"]
            )
            if body:
                with blob.open("rb") as content:
                    shutil.copyfileobj(content, self.wfile, 1 << 20)
        else:
            self._head(HTTPStatus.NOT_FOUND, 0, "application/json")

    def _head(self, status: HTTPStatus, length: int, content_type: str, digest: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(length))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()


def server(root: Path, address: tuple[str, int]) -> ThreadingHTTPServer:
    """A server for the images linked under `root`."""
    handler = type("Handler", (_Handler,), {"root": root})
    return ThreadingHTTPServer(address, handler)


if __name__ == "__main__":
    server(Path(sys.argv[1]), (sys.argv[2], int(sys.argv[3]))).serve_forever()
