"""Programs from container images, tested with a local registry that serves the distribution API."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo_sandbox.binaries import ensure, image_registry, images
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = b"#!/bin/sh\necho fake\n"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def layer(files: dict[str, bytes | str], *, compressed: bool = True) -> bytes:
    """A layer; a `str` is the target of a symbolic link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return gzip.compress(buffer.getvalue()) if compressed else buffer.getvalue()


Answer = tuple[int, bytes, dict[str, str]]
"""Status, body and headers."""


class FakeRegistry:
    """Content by digest, with anonymous tokens and blobs redirected elsewhere."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.seen: list[tuple[str, str | None]] = []
        self.servers = [self._serve(storage=False), self._serve(storage=True)]
        self.host, self.storage = (f"127.0.0.1:{server.server_port}" for server in self.servers)

    def _serve(self, *, storage: bool) -> ThreadingHTTPServer:
        answer = self._from_storage if storage else self._from_registry

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, body, headers = answer(self.path, self.headers.get("Authorization"))
                self.send_response(code)
                for key, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Keep the test's output clean."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server

    def _from_storage(self, path: str, token: str | None) -> Answer:
        self.seen.append((f"storage{path}", token))
        return 200, self.content[path.removeprefix("/")], {}

    def _from_registry(self, path: str, token: str | None) -> Answer:
        self.seen.append((path, token))
        if path.startswith("/token?"):
            return 200, b'{"token": "letmein"}', {}
        if token != "Bearer letmein":
            realm = f"http://{self.host}/token"
            challenge = f'Bearer realm="{realm}",service="r",scope="repository:x:pull"'
            return 401, b"", {"WWW-Authenticate": challenge}
        digest = path.rpartition("/")[2]
        if digest not in self.content:
            return 404, b"", {}
        if "/blobs/" in path:
            return 307, b"", {"Location": f"http://{self.storage}/{digest}"}
        return 200, self.content[digest], {}

    def close(self) -> None:
        """Stop both servers."""
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, content: bytes) -> str:
        """Keep a blob or manifest and return its digest."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.content[digest] = content
        return digest

    def add_json(self, document: object) -> str:
        """Keep a document and return its digest."""
        return self.add(json.dumps(document).encode())

    def add_image(self, *layers: bytes, architecture: str | None = "amd64") -> str:
        """An image, behind an index for one architecture unless that is None; returns its digest."""
        manifest = {"schemaVersion": 2, "layers": [{"digest": self.add(each)} for each in layers]}
        digest = self.add_json(manifest)
        if architecture is None:
            return digest
        entries = [
            {"digest": "sha256:" + "0" * 64, "platform": {"os": "windows", "architecture": "amd64"}},
            {"digest": digest, "platform": {"os": "linux", "architecture": architecture}},
        ]
        return self.add_json({"schemaVersion": 2, "manifests": entries})

    def write(self, file: Path, digest: str, **entry: str) -> Path:
        """Write a list of images in which every program comes from this one."""
        image = {"image": f"{self.host}/team/tools@{digest}", **entry}
        file.write_text(yaml.safe_dump({"programs": dict.fromkeys(PROGRAMS, image)}))
        return file


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    """A running registry; this machine counts as amd64."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    running = FakeRegistry()
    yield running
    running.close()


def fetch(file: Path) -> bytes:
    """Fetch etcd as the file says and return its bytes."""
    return (images.ensure(file, ["etcd"], [], lambda _line: None) / "bin" / "etcd").read_bytes()


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("architecture", ["amd64", None])
def test_a_program_comes_out_of_its_image(
    home: Path, fake: FakeRegistry, *, compressed: bool, architecture: str | None
) -> None:
    """With and without an index, with gzip and plain layers; the result can be executed."""
    content = layer({"usr/local/bin/etcd": PROGRAM}, compressed=compressed)
    digest = fake.add_image(layer({"etc/os": b""}), content, architecture=architecture)
    file = fake.write(home / "images.yaml", digest, path="/usr/local/bin/etcd")
    assert fetch(file) == PROGRAM


def test_all_programs_of_a_start_come_from_images_when_the_setting_names_them(
    home: Path, fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Go, and a second time without the registry."""
    digest = fake.add_image(layer({f"usr/local/bin/{name}": PROGRAM for name in PROGRAMS}))
    monkeypatch.setenv("KAIWO_SANDBOX_IMAGES", str(fake.write(home / "images.yaml", digest)))
    monkeypatch.setenv("PATH", "/nonexistent")
    found = ensure(progress=lambda _line: None)
    assert {path.read_bytes() for path in found.programs.values()} == {PROGRAM}
    asked = len(fake.seen)
    assert ensure(progress=lambda _line: None) == found
    assert len(fake.seen) == asked


def test_the_token_is_not_sent_to_where_blobs_are_redirected(home: Path, fake: FakeRegistry) -> None:
    """Storage of another host must not see it, and refuses requests with two kinds of credentials."""
    digest = fake.add_image(layer({"etcd": PROGRAM}))
    fetch(fake.write(home / "images.yaml", digest, path="etcd"))
    tokens = {path.startswith("storage"): token for path, token in fake.seen if "token" not in path}
    assert tokens == {False: "Bearer letmein", True: None}


def test_a_link_in_the_image_is_followed(home: Path, fake: FakeRegistry) -> None:
    """Some images keep versions side by side behind links."""
    files: dict[str, bytes | str] = {"bin/etcd": "../opt/etcd", "opt/etcd": "etcd-3", "opt/etcd-3": PROGRAM}
    digest = fake.add_image(layer(files))
    assert fetch(fake.write(home / "images.yaml", digest, path="bin/etcd")) == PROGRAM


def test_a_circle_of_links_ends(home: Path, fake: FakeRegistry) -> None:
    """A broken image is an error, not a hang."""
    digest = fake.add_image(layer({"a": "b", "b": "a"}))
    with pytest.raises(SandboxError, match="no file a"):
        fetch(fake.write(home / "images.yaml", digest, path="a"))


@pytest.mark.parametrize("whiteout", ["usr/.wh.etcd", ".wh.usr", "usr/.wh..wh..opq"])
def test_a_file_that_an_upper_layer_deleted_is_not_found(
    home: Path, fake: FakeRegistry, whiteout: str
) -> None:
    """The image as its container would see it has no such file."""
    digest = fake.add_image(layer({"usr/etcd": PROGRAM}), layer({whiteout: b""}))
    with pytest.raises(SandboxError, match=r"programs\.etcd\.path"):
        fetch(fake.write(home / "images.yaml", digest, path="usr/etcd"))


def test_content_that_does_not_match_its_digest_is_refused(home: Path, fake: FakeRegistry) -> None:
    """A registry or a proxy cannot replace a program."""
    good = layer({"etcd": PROGRAM})
    digest = fake.add_image(good)
    fake.content[f"sha256:{hashlib.sha256(good).hexdigest()}"] = layer({"etcd": b"evil"})
    file = fake.write(home / "images.yaml", digest, path="etcd")
    with pytest.raises(SandboxError, match="another checksum"):
        fetch(file)
    fake.content[digest] = b"{}"
    with pytest.raises(SandboxError, match="another checksum"):
        fetch(file)
    assert not list((home / "cache").rglob("etcd"))


def test_an_image_for_another_processor_is_refused(home: Path, fake: FakeRegistry) -> None:
    """It would fail with an exec format error much later."""
    digest = fake.add_image(layer({"etcd": PROGRAM}), architecture="s390x")
    with pytest.raises(SandboxError, match="no variant for linux/amd64"):
        fetch(fake.write(home / "images.yaml", digest))


@pytest.mark.parametrize(
    "document", [[], {}, {"layers": 3}, {"layers": [{}]}, {"manifests": 1}, {"manifests": [7]}]
)
def test_a_nonsensical_manifest_is_an_error_and_no_crash(
    home: Path, fake: FakeRegistry, document: object
) -> None:
    """Registries may return any content."""
    with pytest.raises(SandboxError, match="cannot read image"):
        fetch(fake.write(home / "images.yaml", fake.add_json(document)))


def test_a_layer_that_is_no_archive_is_an_error(home: Path, fake: FakeRegistry) -> None:
    """For example one compressed with zstd, which Python 3.11 cannot read."""
    digest = fake.add_image(b"\x28\xb5\x2f\xfd not a tar")
    with pytest.raises(SandboxError, match="gzip"):
        fetch(fake.write(home / "images.yaml", digest))


def test_a_missing_image_says_which(home: Path, fake: FakeRegistry) -> None:
    """And what the registry answered."""
    with pytest.raises(SandboxError, match=r"team/tools.*404"):
        fetch(fake.write(home / "images.yaml", "sha256:" + "1" * 64))


@pytest.mark.parametrize(
    "reference",
    [
        "etcd",
        "registry.example/etcd:v3",
        "registry.example/etcd@sha256:abc",
        "/etcd@sha256:" + "1" * 64,
        "registry.example/etcd@md5:" + "1" * 64,
    ],
)
def test_only_images_by_digest_are_accepted(reference: str) -> None:
    """A tag may name another image tomorrow."""
    with pytest.raises(SandboxError, match="by digest"):
        image_registry.parse(reference, field="images.yaml: programs.etcd.image")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[]", "programs"),
        ("programs: []", "programs"),
        ("programs: {}", r"programs\.etcd\.image"),
        ("programs: {etcd: {}}", r"programs\.etcd\.image"),
        ("{", "cannot read .* as YAML"),
    ],
)
def test_a_faulty_list_of_images_names_the_field(home: Path, text: str, field: str) -> None:
    """Users write the file by hand, and the message must lead them to the error."""
    file = home / "images.yaml"
    file.write_text(text)
    with pytest.raises(SandboxError, match=field):
        fetch(file)


def test_addons_need_a_directory_of_manifests(home: Path, fake: FakeRegistry) -> None:
    """Images hold no CRDs; the projects publish them beside their releases."""
    digest = fake.add_image(layer({"manager": PROGRAM}))
    file = fake.write(home / "images.yaml", digest)
    with pytest.raises(SandboxError, match=r"manifests\.kueue"):
        images.ensure(file, [], ["kueue"], lambda _line: None)
    (home / "kueue").mkdir()
    (home / "kueue" / "crds.yaml").write_text("kind: CustomResourceDefinition")
    file.write_text(f"{file.read_text()}manifests: {{kueue: kueue}}\n")
    place = images.ensure(file, [], ["kueue"], lambda _line: None)
    assert (place / "manifests" / "kueue" / "crds.yaml").is_file()
