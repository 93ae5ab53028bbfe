"""Programs from container images, downloaded from a registry on loopback over TLS."""

from __future__ import annotations

import hashlib
import subprocess
import threading
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo_sandbox.binaries import downloads, ensure, image_registry, layers, sources
from kaiwo_sandbox.binaries.transfer import TransferLimits
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Layer = Callable[..., bytes]

PROGRAM = b"#!/bin/sh\necho fake\n"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
IMPATIENT = TransferLimits(connect=1, read=0.5, window=2.5, window_bytes=1 << 20, longest_wait=1)


@pytest.fixture
def fetch(home: Path, fake: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Gets etcd from the image ``team/tools:v1``; the other programs are in a directory."""
    assets = home / "assets"
    assets.mkdir()
    for name in PROGRAMS[1:]:
        (assets / name).write_bytes(PROGRAM)
        (assets / name).chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(downloads, "LIMITS", IMPATIENT)

    def run(*, image: str = "team/tools:v1", path: str = "etcd") -> Path:
        file = home / "images.yaml"
        entry = {"image": f"{fake.host}/{image}", "path": path}
        file.write_text(yaml.safe_dump({"programs": {"etcd": entry}}))
        monkeypatch.setenv("KAIWO_SANDBOX_IMAGES", str(file))
        return ensure(directory=assets, progress=lambda _line: None)["etcd"]

    return run


def left(home: Path) -> list[str]:
    """The files of the cache, without locks."""
    return sorted(
        path.name for path in (home / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"
    )


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("index", [True, False])
def test_a_program_comes_out_of_its_image(
    home: Path, fake: Any, make_layer: Layer, fetch: Callable[..., Path], *, compressed: bool, index: bool
) -> None:
    """With and without an index, with gzip and plain layers; it can be executed, and nothing else stays."""
    content = make_layer({"usr/local/bin/etcd": PROGRAM}, compressed=compressed)
    fake.add_image(make_layer({"etc/os": b""}), content, index=index)
    path = fetch(path="/usr/local/bin/etcd")
    assert path.read_bytes() == PROGRAM
    assert subprocess.run([path], capture_output=True, check=True).stdout == b"fake\n"
    assert left(home) == ["etcd", "image.yaml"]


def test_a_layer_with_zstd_is_unpacked_with_the_program_of_that_name(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images may use it. Without that program, the message names it."""
    plain = make_layer({"etcd": PROGRAM}, compressed=False)
    try:
        packed = subprocess.run(["/usr/bin/zstd", "-c"], input=plain, capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("zstd is not installed")
    fake.add_image(packed)
    with pytest.raises(SandboxError, match="the program zstd is not installed"):
        fetch()
    monkeypatch.setenv("PATH", "/usr/bin")
    assert fetch().read_bytes() == PROGRAM


def test_what_was_read_is_recorded_and_the_record_is_a_list_of_images(
    home: Path, fake: Any, make_layer: Layer, fetch: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digests of tag, manifest, configuration, layer and program; with the record they are mandatory."""
    digest = fake.add_image(make_layer({"etcd": PROGRAM}))
    path = fetch()
    record = sources.image_record("etcd", path)
    assert record is not None
    assert record["image"] == f"{fake.host}/team/tools:v1@{digest}"
    assert record["program"] == f"sha256:{hashlib.sha256(PROGRAM).hexdigest()}"
    assert all(record[key] in fake.content for key in ("manifest", "config", "layer"))
    assert sources.describe("etcd", path) == f"image {fake.host}/team/tools:v1@{digest}"
    monkeypatch.setenv("KAIWO_SANDBOX_IMAGES", str(path.parents[1] / "image.yaml"))
    again = ensure(directory=home / "assets", progress=lambda _line: None)["etcd"]
    assert again.read_bytes() == PROGRAM


def test_a_mandatory_digest_refuses_another_one_and_names_both(
    home: Path, fake: Any, make_layer: Layer, fetch: Callable[..., Path]
) -> None:
    """The registry answers with other content for the digest; nothing is kept and nothing is built."""
    wanted = fake.add_image(make_layer({"etcd": PROGRAM}))
    other = fake.add_image(make_layer({"etcd": b"evil"}))
    fake.content[wanted] = fake.content[other]
    with pytest.raises(SandboxError, match=f"expected {wanted}, got {other}") as caught:
        fetch(image=f"team/tools:v1@{wanted}")
    assert "etcd" in str(caught.value)
    assert left(home) == []


def test_a_tag_that_moved_is_not_followed_with_a_digest(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path]
) -> None:
    """The digest is what is read, also from the cache of programs by tag."""
    wanted = fake.add_image(make_layer({"etcd": PROGRAM}))
    fake.add_image(make_layer({"etcd": b"#!/bin/sh\necho newer\n"}))
    assert fetch().read_bytes() != PROGRAM
    assert fetch(image=f"team/tools:v1@{wanted}").read_bytes() == PROGRAM


def test_a_second_start_asks_no_registry(fake: Any, make_layer: Layer, fetch: Callable[..., Path]) -> None:
    """A filled cache needs no network."""
    fake.add_image(make_layer({"etcd": PROGRAM}))
    first = fetch()
    asked = len(fake.seen)
    assert fetch() == first
    assert len(fake.seen) == asked


def test_the_token_is_not_sent_to_where_blobs_are_redirected(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path]
) -> None:
    """Storage of another host must not see it, and refuses requests with two kinds of credentials."""
    fake.add_image(make_layer({"etcd": PROGRAM}))
    fetch()
    tokens = {token for path, token in fake.seen if path.startswith("/storage")}
    assert tokens == {None}
    assert "Bearer letmein" in {token for path, token in fake.seen if "/blobs/" in path}


def test_a_link_in_the_image_is_followed(fake: Any, make_layer: Layer, fetch: Callable[..., Path]) -> None:
    """Some images keep versions side by side behind links."""
    fake.add_image(make_layer({"bin/etcd": "../opt/etcd", "opt/etcd": "etcd-3", "opt/etcd-3": PROGRAM}))
    assert fetch(path="bin/etcd").read_bytes() == PROGRAM


@pytest.mark.parametrize("files", [{"etcd": "b", "b": "etcd"}, {"etcd": "etcd"}, {"etcd": "../.."}])
def test_a_circle_of_links_ends(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path], files: dict[str, str]
) -> None:
    """A broken image is an error, not a hang."""
    fake.add_image(make_layer(files))
    with pytest.raises(SandboxError, match="no file etcd"):
        fetch()


@pytest.mark.parametrize("whiteout", ["usr/.wh.etcd", ".wh.usr", "usr/.wh..wh..opq"])
def test_a_file_that_an_upper_layer_deleted_is_not_found(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path], whiteout: str
) -> None:
    """The image as its container would see it has no such file."""
    fake.add_image(make_layer({"usr/etcd": PROGRAM}), make_layer({whiteout: b""}))
    with pytest.raises(SandboxError, match="no file usr/etcd"):
        fetch(path="usr/etcd")


@pytest.mark.parametrize("name", ["../etcd", "usr/../../etcd", "/../etcd"])
def test_a_layer_with_paths_outside_of_its_root_is_refused(
    home: Path, fake: Any, make_layer: Layer, fetch: Callable[..., Path], name: str
) -> None:
    """Nothing is written at such a path, and the image is not used."""
    fake.add_image(make_layer({name: b"evil", "etcd": PROGRAM}))
    with pytest.raises(SandboxError, match="path outside of its root"):
        fetch()
    assert not [path for path in home.rglob("etcd") if path.read_bytes() == b"evil"]


def test_a_layer_that_unpacks_to_too_much_is_refused(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bomb: few bytes that unpack to many. The limit is lowered, so that the test is quick."""
    monkeypatch.setattr("kaiwo_sandbox.binaries.layers.MAX_UNPACKED_BYTES", 8 << 20)
    bomb = make_layer({"padding": bytes(16 << 20), "etcd": PROGRAM})
    assert len(bomb) < 1 << 20
    fake.add_image(bomb)
    with pytest.raises(SandboxError, match="more than 8388608 bytes when it is unpacked"):
        fetch()


def test_a_large_program_is_unpacked_in_little_memory(tmp_path: Path, make_layer: Layer) -> None:
    """Official programs have a hundred megabytes, and four are unpacked at once."""
    blob, target = tmp_path / "blob", tmp_path / "etcd"
    blob.write_bytes(make_layer({"padding": bytes(32 << 20), "etcd": bytes(32 << 20)}))
    tracemalloc.start()
    try:
        assert layers.extract([lambda: blob], "etcd", target) == 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert target.stat().st_size == 32 << 20
    assert peak < 16 << 20


def test_an_extended_header_that_would_fill_the_memory_is_refused(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path]
) -> None:
    """Its length is what an archive says, and tarfile would read it at once."""
    archive = bytearray(make_layer({"x" * 200: b"", "etcd": PROGRAM}, compressed=False))
    assert bytes(archive[156:157]) in {b"x", b"L"}
    archive[124:136] = b"%011o\0" % (1 << 32)
    archive[148:156] = b"        "
    archive[148:156] = b"%06o\0 " % sum(archive[:512])
    fake.add_image(bytes(archive))
    with pytest.raises(SandboxError, match="an extended header has 4294967296 bytes"):
        fetch()


@pytest.mark.parametrize("index", [True, False])
def test_an_image_for_another_processor_is_refused(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path], *, index: bool
) -> None:
    """It would fail with an exec format error much later."""
    fake.add_image(make_layer({"etcd": PROGRAM}), architecture="s390x", index=index)
    with pytest.raises(SandboxError, match=r"no variant for linux/amd64|it is for linux/s390x"):
        fetch()


def test_a_program_that_does_not_run_here_is_refused(
    home: Path, fake: Any, make_layer: Layer, fetch: Callable[..., Path]
) -> None:
    """For example one that needs a C library that this machine does not have."""
    fake.add_image(make_layer({"etcd": b"#!/nonexistent/ld.so\n"}))
    with pytest.raises(SandboxError, match="etcd does not run on this machine"):
        fetch()
    assert left(home) == []


def test_a_program_that_another_process_still_has_open_is_tried_again(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that another download starts inherits the file for a moment; the system refuses to run it."""
    fake.add_image(make_layer({"etcd": PROGRAM}))
    refused = []

    def extract(*arguments: Any) -> int | None:
        layer = real(*arguments)
        program = arguments[2]
        program.chmod(0o755)
        opened = program.open("ab")
        with pytest.raises(OSError, match="Text file busy"):
            subprocess.run([program], check=False)
        refused.append(program)
        threading.Timer(0.2, opened.close).start()
        return layer

    real = layers.extract
    monkeypatch.setattr(layers, "extract", extract)
    assert fetch().read_bytes() == PROGRAM
    assert refused


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"layers": 3},
        {"layers": [{}]},
        {"manifests": 1},
        {"manifests": [7]},
        {"manifests": [{"platform": {"os": "linux", "architecture": "amd64"}, "digest": "../../etc"}]},
        {"layers": [{"digest": "sha256:" + "0" * 64}], "config": {"digest": 1}},
    ],
)
def test_a_nonsensical_manifest_is_an_error_and_no_crash(
    fake: Any, fetch: Callable[..., Path], document: object
) -> None:
    """Registries may return any content."""
    fake.tags["team/tools:v1"] = fake.add_json(document)
    with pytest.raises(SandboxError, match=r"its manifest|no variant"):
        fetch()


@pytest.mark.parametrize("size", [None, -1, 0, 1 << 40, "7"])
def test_a_layer_of_an_impossible_size_is_not_downloaded(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path], size: object
) -> None:
    """The manifest announces sizes, and a disk has an end."""
    config = fake.descriptor(b'{"os": "linux", "architecture": "amd64"}')
    entry = {**fake.descriptor(make_layer({"etcd": PROGRAM})), "size": size}
    fake.tags["team/tools:v1"] = fake.add_json({"config": config, "layers": [entry]})
    with pytest.raises(SandboxError, match="has the size"):
        fetch()


def test_a_layer_that_is_no_archive_is_an_error(fake: Any, fetch: Callable[..., Path]) -> None:
    """It is named as such."""
    fake.add_image(b"not a tar archive")
    with pytest.raises(SandboxError, match="cannot be unpacked"):
        fetch()


def test_a_layer_with_other_bytes_is_refused_and_removed(
    home: Path, fake: Any, make_layer: Layer, fetch: Callable[..., Path]
) -> None:
    """Of the same size, as a registry that lies would send it."""
    good = make_layer({"etcd": PROGRAM}, compressed=False)
    fake.add_image(good)
    digest = f"sha256:{hashlib.sha256(good).hexdigest()}"
    fake.content[digest] = good.replace(b"fake", b"evil")
    with pytest.raises(SandboxError, match=f"its layer has another digest: expected {digest}, got sha256:"):
        fetch()
    assert left(home) == []


@pytest.mark.parametrize("what", ["config", "manifest"])
def test_a_configuration_or_variant_with_other_bytes_is_refused(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path], what: str
) -> None:
    """They decide which layers are read, and for which machine they are."""
    fake.add_image(make_layer({"etcd": PROGRAM}))
    marker = b'"os": "linux", "architecture"' if what == "config" else b'"layers"'
    [digest] = [
        key for key, content in fake.content.items() if marker in content and b"platform" not in content
    ]
    fake.content[digest] += b" "
    with pytest.raises(SandboxError, match="has another digest"):
        fetch()


def test_a_broken_connection_is_continued_where_it_ended(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path]
) -> None:
    """And only the rest is sent."""
    content = make_layer({"etcd": PROGRAM + bytes(1 << 20)}, compressed=False)
    fake.add_image(content)
    fake.faults["layer"] = fake.cut(times=1)
    assert fetch().read_bytes().startswith(PROGRAM)
    assert fake.ranges == [f"bytes={len(content) // 2}-"]


def test_an_interrupted_download_is_continued_by_the_next_command(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path]
) -> None:
    """What has arrived is kept until the program is complete."""
    content = make_layer({"etcd": PROGRAM + bytes(1 << 20)}, compressed=False)
    fake.add_image(content)
    fake.faults["layer"] = lambda handler, body: fake.cut()(handler, body) or not handler.send(500)
    with pytest.raises(SandboxError, match="HTTP 500"):
        fetch()
    del fake.faults["layer"]
    fetch()
    assert fake.ranges == [f"bytes={len(content) // 2}-"]


def test_a_process_that_was_killed_leaves_nothing_for_good(
    home: Path, fake: Any, make_layer: Layer, fetch: Callable[..., Path]
) -> None:
    """Its directory is removed by the next download; incomplete layers stay until then."""
    left_behind = home / "cache" / "kaiwo" / "sandbox" / "downloads" / "tmpabc"
    left_behind.mkdir(parents=True)
    (left_behind / "etcd").touch()
    fake.add_image(make_layer({"etcd": PROGRAM}))
    fetch()
    assert left(home) == ["etcd", "image.yaml"]


def test_a_server_that_ignores_the_range_sends_everything_again(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path]
) -> None:
    """Then the download starts again, and the program is whole."""
    fake.add_image(make_layer({"etcd": PROGRAM + bytes(1 << 20)}, compressed=False))
    first = [True]

    def fault(handler: Any, body: bytes) -> bool:
        if first.pop() if first else False:
            return bool(fake.cut()(handler, body))
        handler.send(200, body)
        return True

    fake.faults["layer"] = fault
    assert len(fetch().read_bytes()) == len(PROGRAM) + (1 << 20)


FAULTS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "not found": ("manifest", lambda fake: fake.status(404), "HTTP 404"),
    "login": (
        "manifest",
        lambda fake: fake.status(401, WWW_Authenticate='Basic realm="x"'),
        "only anonymous",
    ),
    "token over http": (
        "manifest",
        lambda fake: fake.status(401, WWW_Authenticate='Bearer realm="http://localhost/t"'),
        "only anonymous",
    ),
    "token refused": ("token", lambda fake: fake.status(403), "HTTP 403"),
    "token missing": ("token", lambda _fake: lambda handler, _body: not handler.send(200, b"{}"), "no token"),
    "token with header": (
        "token",
        lambda _fake: lambda handler, _body: not handler.send(200, b'{"token": "a\\r\\nX: y"}'),
        "no token",
    ),
    "token useless": (
        "manifest",
        lambda _fake: (
            lambda handler, _body: (
                not handler.send(
                    401, WWW_Authenticate=f'Bearer realm="https://{handler.headers["Host"]}/token"'
                )
            )
        ),
        "HTTP 401",
    ),
    "busy": ("manifest", lambda fake: fake.status(503), "HTTP 503 Service Unavailable, 3 times"),
    "busy for long": ("manifest", lambda fake: fake.status(429, Retry_After="3600"), "retry after 3600 s"),
    "redirect to http": (
        "blob",
        lambda fake: fake.status(307, Location="http://127.0.0.1:9/x"),
        "redirects from https to http",
    ),
    "redirects in a circle": (
        "blob",
        lambda _fake: lambda handler, _body: not handler.send(307, Location=handler.path),
        "HTTP 307",
    ),
    "endless manifest": ("manifest", lambda fake: fake.endless, "expected at most 4194304 bytes"),
    "endless layer": ("layer", lambda fake: fake.endless, "got more"),
    "truncated layer": ("layer", lambda fake: fake.cut(after=0), "the connection ended after 0 of"),
    "truncated manifest": ("manifest", lambda fake: fake.cut(), "ended early"),
    "slow layer": ("layer", lambda fake: fake.trickle, "less than 1024 KiB arrived in 2.5 s"),
    "slow manifest": ("manifest", lambda fake: fake.trickle, "less than 1024 KiB arrived in 2.5 s"),
    "silent": ("manifest", lambda fake: fake.silent, "timed out"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_registry_is_named_in_bounded_time(
    home: Path, fake: Any, make_layer: Layer, fetch: Callable[..., Path], name: str
) -> None:
    """Whatever it does: an error with its host and the cause, and no program in the cache."""
    kind, make_fault, text = FAULTS[name]
    fake.add_image(make_layer({"etcd": PROGRAM + bytes(1 << 21)}, compressed=False))
    fake.faults[kind] = make_fault(fake)
    started = time.monotonic()
    with pytest.raises(SandboxError, match=text) as caught:
        fetch()
    assert time.monotonic() - started < 8
    assert fake.host in str(caught.value)
    assert "etcd" not in left(home)


def test_a_busy_registry_is_asked_again(fake: Any, make_layer: Layer, fetch: Callable[..., Path]) -> None:
    """After the time that it names."""
    fake.add_image(make_layer({"etcd": PROGRAM}))
    fake.faults["manifest"] = fake.status(429, times=1, Retry_After="1")
    started = time.monotonic()
    assert fetch().read_bytes() == PROGRAM
    assert time.monotonic() - started >= 1


def test_a_certificate_of_an_unknown_authority_is_refused(
    fake: Any, make_layer: Layer, fetch: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is downloaded without TLS, on loopback neither."""
    fake.add_image(make_layer({"etcd": PROGRAM}))
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(SandboxError, match="its TLS certificate is not trusted"):
        fetch()
    assert fake.seen == []


@pytest.mark.parametrize(
    "reference",
    [
        "etcd",
        "etcd:v3",
        "registry.example/etcd",
        "registry.example/etcd@sha256:abc",
        "/etcd@sha256:" + "1" * 64,
        "registry.example/etcd@md5:" + "1" * 64,
        "registry.example/etcd:v3/../x",
        "user@registry.example/etcd:v3",
    ],
)
def test_a_malformed_reference_is_refused(reference: str) -> None:
    """With its place in the file, and the three forms."""
    with pytest.raises(SandboxError, match=r"images\.yaml: programs\.etcd\.image: expected an image"):
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
def test_a_faulty_list_of_images_names_the_field(
    home: Path, monkeypatch: pytest.MonkeyPatch, text: str, field: str
) -> None:
    """Users write the file by hand, and the message must lead them to the error."""
    file = home / "images.yaml"
    file.write_text(text)
    monkeypatch.setenv("KAIWO_SANDBOX_IMAGES", str(file))
    with pytest.raises(SandboxError, match=field):
        ensure(progress=lambda _line: None)
