"""Manifests out of Go module archives, downloaded from a module proxy on loopback, without Go."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_sandbox.binaries import module_archives
from kaiwo_sandbox.binaries.module_archives import ModuleError
from kaiwo_sandbox.binaries.transfer import TransferError, TransferLimits, TransferSession
from kaiwo_sandbox.builds.binary_sets import SETS, BinarySet, ManifestSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODULE, VERSION = "example.test/Team/tool", "v1.2.3"
URL = "/modules/example.test/!team/tool/@v/v1.2.3.zip"
FILES = {
    "config/crd/bases/a.yaml": b"kind: A\n",
    "config/crd/bases/b.yaml": b"kind: B\n",
    "config/crd/bases/deep/c.yaml": b"kind: C\n",
    "config/webhook.yaml": b"kind: W\n",
    "main.go": b"package main\n",
}
SOURCE = ManifestSource("kuberay", MODULE, ("config/crd/bases/*.yaml", "config/webhook.yaml"))


class _Set(BinarySet):
    """A set whose go.mod and go.sum are those of the test."""

    h1 = ""

    @property
    def files(self) -> dict[str, bytes]:
        mod = f"module x\n\nrequire (\n\t{MODULE} {VERSION}\n)\n"
        # Another version and the hash of go.mod must not be taken for the module's.
        sums = f"{MODULE} v1.0.0 h1:x=\n{MODULE} {VERSION} {self.h1}\n{MODULE} {VERSION}/go.mod h1:y=\n"
        return {"go.mod": mod.encode(), "go.sum": sums.encode()}


def archive(files: dict[str, bytes], *, root: str = f"{MODULE}@{VERSION}/") -> bytes:
    """A module archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(f"{root}{name}", content)
    return buffer.getvalue()


def h1_of(files: dict[str, bytes]) -> str:
    """The hash of go.sum, written a second time from Go's documentation."""
    names = sorted(f"{MODULE}@{VERSION}/{name}" for name in files)
    contents = {f"{MODULE}@{VERSION}/{name}": content for name, content in files.items()}
    text = "".join(f"{hashlib.sha256(contents[name]).hexdigest()}  {name}\n" for name in names)
    return f"h1:{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@pytest.fixture
def binary_set(fake: Any, monkeypatch: pytest.MonkeyPatch) -> BinarySet:
    """A set whose module the registry's module proxy has."""
    fake.modules[URL] = archive(FILES)
    monkeypatch.setenv("GOPROXY", f"https://{fake.host}/modules,direct")
    monkeypatch.setattr(_Set, "h1", h1_of(FILES))
    return _Set(name="tool", programs=(), ldflags="", minutes=1, manifests=(SOURCE,))


def fetch(binary_set: BinarySet) -> dict[str, bytes]:
    """Fetch the manifests and return them by name."""
    limits = TransferLimits(connect=1, read=0.5, window=2, window_bytes=1 << 20, longest_wait=1)
    transfer = TransferSession(limits)
    tasks = {"it": lambda: module_archives.fetch(binary_set, SOURCE, transfer)}
    for error in transfer.run(tasks, lambda _line: None).values():
        raise error
    directory = module_archives.location(binary_set, SOURCE)
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def test_the_manifests_come_out_of_the_archive(binary_set: BinarySet) -> None:
    """Those that match, flat, and not those of deeper directories."""
    assert fetch(binary_set) == {"a.yaml": b"kind: A\n", "b.yaml": b"kind: B\n", "webhook.yaml": b"kind: W\n"}


@pytest.mark.parametrize("binary_set", SETS, ids=lambda each: each.name)
def test_every_module_with_manifests_has_a_recorded_hash(binary_set: BinarySet) -> None:
    """Otherwise its archive could not be verified."""
    for source in binary_set.manifests:
        module = module_archives.module_of(binary_set, source)
        assert module.h1.startswith("h1:")
        assert module.path == source.module


def test_another_content_is_refused_and_both_hashes_are_named(
    home: Path, fake: Any, binary_set: BinarySet
) -> None:
    """A proxy cannot replace a manifest."""
    changed = {**FILES, "main.go": b"package evil\n"}
    fake.modules[URL] = archive(changed)
    with pytest.raises(ModuleError) as caught:
        fetch(binary_set)
    assert h1_of(FILES) in str(caught.value)
    assert h1_of(changed) in str(caught.value)
    assert not list((home / "cache").rglob("*.yaml"))


@pytest.mark.parametrize(
    "name", ["../../../evil.yaml", "config/crd/bases/../../../../evil.yaml", "a\nb.yaml"]
)
def test_a_path_outside_of_the_module_is_refused(
    home: Path, fake: Any, binary_set: BinarySet, name: str
) -> None:
    """Nothing is written there."""
    fake.modules[URL] = archive({**FILES, name: b"evil"})
    with pytest.raises(ModuleError, match="path outside of its root"):
        fetch(binary_set)
    assert not list(home.rglob("evil.yaml"))


def test_another_root_is_refused(fake: Any, binary_set: BinarySet) -> None:
    """For example an archive of another module."""
    fake.modules[URL] = archive(FILES, root="example.test/other@v1.0.0/")
    with pytest.raises(ModuleError, match="path outside of its root"):
        fetch(binary_set)


def test_a_bomb_is_refused(fake: Any, binary_set: BinarySet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered, so that the test is quick."""
    monkeypatch.setattr("kaiwo_sandbox.binaries.module_archives._MAX_UNPACKED_BYTES", 4 << 20)
    fake.modules[URL] = archive({**FILES, "zeros": bytes(8 << 20)})
    with pytest.raises(ModuleError, match="more than 4194304 bytes unpacked"):
        fetch(binary_set)


def test_a_missing_file_is_named(fake: Any, binary_set: BinarySet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release may move its manifests."""
    fewer = {name: content for name, content in FILES.items() if "webhook" not in name}
    fake.modules[URL] = archive(fewer)
    monkeypatch.setattr(_Set, "h1", h1_of(fewer))
    with pytest.raises(ModuleError, match=r"has no config/webhook\.yaml"):
        fetch(binary_set)


FAULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "not found": (lambda fake: fake.status(404), "HTTP 404"),
    "gone": (lambda fake: fake.status(410), "HTTP 410"),
    "busy": (lambda fake: fake.status(429, Retry_After="60"), "retry after 60 s"),
    "truncated": (lambda fake: fake.cut(), "ended early"),
    "endless": (lambda fake: fake.endless, "expected at most"),
    "slow": (lambda fake: fake.trickle, "arrived in 2 s"),
    "no archive": (lambda _fake: lambda handler, _body: not handler.send(200, b"<html>"), "is damaged"),
    "half an archive": (
        lambda _fake: lambda handler, body: not handler.send(200, body[: len(body) // 2]),
        "is damaged",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_proxy_is_named(fake: Any, binary_set: BinarySet, name: str) -> None:
    """With the cause, and without a crash or a hang."""
    make_fault, text = FAULTS[name]
    fake.faults["module"] = make_fault(fake)
    with pytest.raises((ModuleError, TransferError), match=text) as caught:
        fetch(binary_set)
    assert MODULE in str(caught.value)


def test_the_next_proxy_is_asked(
    fake: Any, home: Path, binary_set: BinarySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Go does; a directory can be one of them."""
    file = home / "proxy" / URL.removeprefix("/modules/")
    file.parent.mkdir(parents=True)
    file.write_bytes(archive(FILES))
    monkeypatch.setenv("GOPROXY", f"https://{fake.host}/nothing|file://{home}/proxy")
    assert len(fetch(binary_set)) == 3


def test_credentials_are_sent_and_not_shown(
    fake: Any, binary_set: BinarySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go accepts them in the URL."""
    monkeypatch.setenv("GOPROXY", f"https://jane:s3cret@{fake.host}/nothing")
    with pytest.raises(TransferError) as caught:
        fetch(binary_set)
    assert "s3cret" not in str(caught.value)
    assert {token for _, token in fake.seen} == {"Basic " + base64.b64encode(b"jane:s3cret").decode()}


def test_the_proxy_is_what_go_would_use(
    home: Path, fake_go: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment, then Go's configuration file, then Go; without all of them the message says so."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ModuleError, match="GOPROXY is not set and go is not installed"):
        module_archives.proxies()
    fake_go("print('https://go.test,direct')")
    assert module_archives.proxies() == ["https://go.test"]
    (home / "config" / "go").mkdir(parents=True)
    (home / "config" / "go" / "env").write_text("GOFLAGS=-x\nGOPROXY=https://file.test|direct\n")
    assert module_archives.proxies() == ["https://file.test"]
    monkeypatch.setenv("GOPROXY", "https://environment.test/, https://second.test")
    assert module_archives.proxies() == ["https://environment.test", "https://second.test"]
    monkeypatch.setenv("GOPROXY", "off")
    with pytest.raises(ModuleError, match="GOPROXY names none"):
        module_archives.proxies()
