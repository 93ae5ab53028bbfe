"""Images made of files of this machine: reproducible, cached by what they are made of, and pullable."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tarfile
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox.real_node.images import layers, machine, pause, registry, store
from kaiwo_sandbox.real_node.images.layers import Copy, Directory, Link, Text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> layers.Tree:
    """A file with a mode, a link, a text and a directory."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o700)
    return {
        "bin/script": Copy(script),
        "bin/sh": Link("script"),
        "etc/name": Text(b"me"),
        "tmp": Directory(0o1777),
    }


def test_a_layer_has_the_files_and_is_the_same_each_time(tmp_path: Path, tree: layers.Tree) -> None:
    """The digest names the content, so the order and the time must not be in it."""
    first = layers.write(tree, tmp_path / "1.tar")
    os.utime(tmp_path / "script", (1, 1))
    assert layers.write(dict(reversed(tree.items())), tmp_path / "2.tar") == first
    with tarfile.open(tmp_path / "1.tar") as archive:
        found = {member.name: (member.mode, member.linkname, member.uid) for member in archive}
    assert found == {
        "bin": (0o755, "", 0),
        "bin/script": (0o744, "", 0),
        "bin/sh": (0o777, "script", 0),
        "etc": (0o755, "", 0),
        "etc/name": (0o644, "", 0),
        "tmp": (0o1777, "", 0),
    }


def test_an_image_is_made_again_only_if_its_sources_or_its_command_change(
    home: Path, tree: layers.Tree
) -> None:
    """And the one before is removed from the cache."""
    del home
    first = store.ensure(store.Image("team/tool:1", [tree]))
    assert store.ensure(store.Image("team/tool:1", [tree])) == first
    other = store.ensure(store.Image("team/tool:1", [tree], entrypoint=("/bin/script",)))
    assert other != first
    assert not first.exists()
    assert store.ensure(store.Image("team/tool:1", [tree | {"etc/name": Text(b"you")}])) != first


@pytest.fixture
def served(home: Path, tree: layers.Tree) -> Iterator[str]:
    """The URL of a registry with the image `team/tool:1`."""
    registry.add(home / "registry", "team/tool:1", store.ensure(store.Image("team/tool:1", [tree])))
    server = registry.server(home / "registry", ("127.0.0.1", 0))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v2/"
    server.shutdown()
    thread.join()
    server.server_close()


def get(url: str) -> bytes:
    """The body of a response."""
    with urllib.request.urlopen(url) as response:
        body: bytes = response.read()
        return body


def test_an_image_is_pulled_by_tag_and_by_digest_with_its_blobs(served: str) -> None:
    """As containerd does it: HEAD for the digest, then manifest, configuration and layers."""
    with urllib.request.urlopen(
        urllib.request.Request(f"{served}team/tool/manifests/1", method="HEAD")
    ) as head:
        digest = head.headers["Docker-Content-Digest"]
        assert head.headers["Content-Type"] == store.MANIFEST_TYPE
    manifest = get(f"{served}team/tool/manifests/{digest}")
    assert digest == f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    document = json.loads(manifest)
    for part in (document["config"], *document["layers"]):
        blob = get(f"{served}team/tool/blobs/{part['digest']}")
        assert part == {
            "mediaType": part["mediaType"],
            "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}",
            "size": len(blob),
        }


@pytest.mark.parametrize(
    "path", ["team/tool/manifests/2", "other/manifests/1", f"team/tool/blobs/sha256:{'0' * 64}", "../../etc"]
)
def test_what_is_not_served_is_not_found(served: str, path: str) -> None:
    """A pod with such an image must see ErrImagePull, not a broken pull."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(served + path)
    assert caught.value.code == 404
    caught.value.close()


def test_the_pause_program_waits_and_ends_on_sigterm(tmp_path: Path) -> None:
    """It is machine code of this repository; a mistake in it would stop every pod."""
    program = tmp_path / "pause"
    program.write_bytes(pause.program())
    program.chmod(0o755)
    with subprocess.Popen([program]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0


def test_a_program_comes_with_its_libraries_and_the_dynamic_linker() -> None:
    """In a root of merged directories, so that no path is there twice."""
    names = set(machine.programs(["/bin/bash"]))
    assert "usr/bin/bash" in names
    assert any(name.startswith("usr/lib") and "libc.so" in name for name in names)
    assert any("ld-linux" in name for name in names)
