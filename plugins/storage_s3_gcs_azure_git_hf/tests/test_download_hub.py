from __future__ import annotations

import contextlib
import os
import random
import subprocess
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaiwo.testing.model_hub import COMMIT, LARGE, OID, TOKEN, serve_hub
from kaiwo_storage_s3_gcs_azure_git_hf.download import checksums, errors, hub_blobs, progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kaiwo.testing.model_hub import ModelHub

pytestmark = pytest.mark.slow  # the client reads its environment once, so each test starts a process


@pytest.fixture
def cdn() -> Iterator[ModelHub]:
    """Where content is redirected to: another host, as the client sees it."""
    with serve_hub() as server:
        yield server


@pytest.fixture
def hub(cdn: ModelHub) -> Iterator[ModelHub]:
    """The server."""
    with serve_hub() as server:
        server.redirect = f"http://127.0.0.1:{cdn.server_address[1]}/cdn/{OID}"
        yield server


def run(download: Any, hub: ModelHub, *items: dict[str, Any], **environment: str) -> Any:
    """The program in a process of its own: its client reads the environment when it is imported."""
    env = {**os.environ, "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_address[1]}", **environment}
    command = download.command({"huggingFace": list(items)})
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "CANARY" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


def snapshot(download: Any) -> dict[str, bytes]:
    """Files of the snapshot as a workload sees them."""
    root = download.root / "hf" / "hub" / "models--a--b" / "snapshots" / COMMIT
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def assert_failed(download: Any, done: Any, code: int, *words: str) -> None:
    """One line that names the item, the reason and the next step; no file under its final name."""
    assert done.returncode == code, done.stderr
    line = done.stderr.strip().splitlines()[-1]
    for word in ("huggingFace[0]", "; ", *words):
        assert word in line
    assert "model.safetensors" not in snapshot(download)


def test_a_killed_run_goes_on_where_it_was(download: Any, hub: ModelHub, cdn: ModelHub) -> None:
    """What came before is not fetched again, and the content is right."""
    hub.model = cdn.large = random.Random(1).randbytes(20 * 1024**2)
    cdn.pause = 0.01
    item = {"repoId": "a/b", "files": ["model.safetensors"]}
    env = {**os.environ, "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_address[1]}"}
    with subprocess.Popen(
        download.command({"huggingFace": [item]}), env=env, stderr=subprocess.DEVNULL
    ) as process:
        while cdn.sent < len(cdn.large) // 2 and process.poll() is None:
            time.sleep(0.02)
        process.kill()
    assert snapshot(download) == {}
    cdn.pause = 0.0
    time.sleep(0.2)  # the server ends what was in flight
    before = cdn.sent
    done = run(download, hub, item)
    assert done.returncode == 0, done.stderr
    assert snapshot(download) == {"model.safetensors": hub.model}
    assert cdn.sent - before < 0.7 * len(cdn.large), "what was there was fetched again"
    assert not list((download.root / "hf" / ".kaiwo-download").glob("hub-*"))


def test_bytes_of_an_earlier_run_that_are_wrong_are_downloaded_again(
    download: Any, hub: ModelHub, cdn: ModelHub
) -> None:
    """A node that fails may lose what was written last; the workload would have failed for good."""
    hub.model, cdn.large = bytes(20 * 1024**2), bytes(20 * 1024**2)
    item = {"repoId": "a/b", "files": ["model.safetensors"]}
    cdn.large = hub.model[:-1]
    assert run(download, hub, item).returncode == 6
    cdn.large = hub.model
    (stored,) = (download.root / "hf" / ".kaiwo-download").glob("hub-*")
    stored.write_bytes(b"x" * 1024**2)
    done = run(download, hub, item)
    assert done.returncode == 0, done.stderr
    assert snapshot(download) == {"model.safetensors": hub.model}


@pytest.mark.parametrize("repo", ["a/c", "a/b"], ids=["other repository", "same repository"])
def test_items_that_share_a_large_file_do_not_collide(
    download: Any, hub: ModelHub, cdn: ModelHub, repo: str
) -> None:
    """Two repositories with the same file, or two items of one repository, are downloaded at once."""
    hub.model = cdn.large = random.Random(3).randbytes(20 * 1024**2)
    cdn.pause = 0.005
    wanted = [{"repoId": "a/b", "files": ["model.safetensors"]}, {"repoId": repo}]
    done = run(download, hub, *wanted)
    assert done.returncode == 0, done.stderr
    for name in {"a--b", repo.replace("/", "--")}:
        snapshots = download.root / "hf" / "hub" / f"models--{name}" / "snapshots"
        assert (snapshots / COMMIT / "model.safetensors").read_bytes() == hub.model
    assert not list((download.root / "hf" / ".kaiwo-download").glob("hub-*"))


@pytest.mark.parametrize("fault", ["content", "short", "redirect"])
def test_large_files_fail_as_others_do(download: Any, hub: ModelHub, cdn: ModelHub, fault: str) -> None:
    """Wrong content, an answer that ends too early, a redirect to the metadata server."""
    hub.model = cdn.large = bytes(20 * 1024**2)
    if fault == "content":
        cdn.large = hub.model[:-1] + b"x"
    elif fault == "short":
        cdn.large = hub.model[:-1]
    else:
        hub.redirect = "http://169.254.169.254/latest"
    code, word = {"content": (4, "sha256"), "short": (6, "early"), "redirect": (2, "metadata")}[fault]
    done = run(download, hub, {"repoId": "a/b", "files": ["model.safetensors"]})
    assert_failed(download, done, code, "model.safetensors of a/b", word)


def test_a_redirect_to_another_protocol_is_refused(
    download: Any, hub: ModelHub, cdn: ModelHub, ftp: tuple[str, list[bytes]]
) -> None:
    """A large file that is redirected to an FTP server: exit 2, and nothing connects to it."""
    hub.model = cdn.large = bytes(20 * 1024**2)
    hub.redirect, received = ftp
    done = run(download, hub, {"repoId": "a/b", "files": ["model.safetensors"]})
    assert received == []
    assert_failed(download, done, 2, "model.safetensors of a/b", "ftp://")


def test_a_repository_comes_into_the_cache_through_the_cdn(
    download: Any, hub: ModelHub, cdn: ModelHub
) -> None:
    """The layout that the Hub's users read; a second run fetches no content."""
    done = run(download, hub, {"repoId": "a/b"})
    assert done.returncode == 0, done.stderr
    assert snapshot(download) == {
        "config.json": b'{"a": 1}',
        "model.safetensors": LARGE,
        "sub/other.txt": b"other",
    }
    before = len(cdn.requests)
    assert before
    killed = download.root / "hf" / "hub" / "models--a--b" / "blobs" / "0.1.incomplete"
    killed.write_bytes(b"what a killed client left")
    assert run(download, hub, {"repoId": "a/b"}).returncode == 0
    assert len(cdn.requests) == before
    assert not killed.exists()


def test_large_files_are_read_once_to_be_checked(download: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was checked when it came is marked, so the check of the whole snapshot passes over it."""
    download.config({})
    blobs = download.root / "hf" / "hub" / "models--a--b" / "blobs"
    run = SimpleNamespace(
        stop=threading.Event(), retry=lambda action: action(), lock=lambda _: contextlib.nullcontext()
    )
    blob = hub_blobs.HubBlob("huggingFace[0]", "x", "http://x", OID, len(LARGE), blobs / OID)
    kept = hub_blobs._partial_path(download.root, blob)
    kept.write_bytes(LARGE)
    read: list[str] = []
    real = checksums.sha256_of

    def noted(path: Path) -> str:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(checksums, "sha256_of", noted)
    hub_blobs.fetch([blob], download.root, cast("Any", run), progress.DownloadProgress("json"))
    hub_blobs.verify("huggingFace[0]", "x", blobs / OID)
    assert read == [kept.name]
    (blobs / OID).write_bytes(b"touched")
    with pytest.raises(errors.IntegrityError, match=f"expected sha256 {OID}"):
        hub_blobs.verify("huggingFace[0]", "x", blobs / OID)


def test_only_the_named_files(download: Any, hub: ModelHub) -> None:
    """A file that is not there is reported."""
    assert run(download, hub, {"repoId": "a/b", "files": ["config.json"]}).returncode == 0
    assert snapshot(download) == {"config.json": b'{"a": 1}'}
    done = run(download, hub, {"repoId": "a/b", "files": ["none.json"]})
    assert done.returncode == 3
    assert "none.json" in done.stderr


def test_a_gated_repository_needs_a_token(download: Any, hub: ModelHub, cdn: ModelHub) -> None:
    """Exit 3 with what to do; with HF_TOKEN it works, and the CDN does not see the token."""
    assert_failed(download, run(download, hub, {"repoId": "a/gated"}), 3, "gated", "HF_TOKEN")
    assert run(download, hub, {"repoId": "a/gated"}, HF_TOKEN=TOKEN).returncode == 0
    assert not [path for _, path, headers in cdn.requests if TOKEN in str(headers)]


@pytest.mark.parametrize(
    ("item", "word"),
    [({"repoId": "a/missing"}, "repository"), ({"repoId": "a/b", "revision": "none"}, "revision")],
)
def test_what_does_not_exist_is_exit_3(download: Any, hub: ModelHub, item: dict[str, str], word: str) -> None:
    """Repository or revision."""
    assert_failed(download, run(download, hub, item), 3, word)


@pytest.mark.parametrize(
    ("status", "message", "code", "words"),
    [
        (429, "", 6, ("HTTP 429", "too many requests", "HF_TOKEN")),
        (503, "", 6, ("HTTP 503",)),
        (451, "Unavailable for legal reasons", 3, ("HTTP 451: Unavailable for legal reasons",)),
        (403, "Access to this resource is disabled.", 3, ("the Hub disabled the repository",)),
        (401, "Invalid credentials in Authorization header", 3, ("HTTP 401: Invalid", "check HF_TOKEN")),
    ],
)
def test_an_error_of_the_hub_is_named(
    download: Any, hub: ModelHub, status: int, message: str, code: int, words: tuple[str, ...]
) -> None:
    """A Hub that answers is not reported as one that does not, and what stays is not tried again."""
    hub.error = ("/api/models/", status, message)
    download.limits["retrySeconds"] = 0 if code == 6 else 600
    assert_failed(download, run(download, hub, {"repoId": "a/b"}), code, *words)


def test_the_commit_of_the_plan_is_downloaded(download: Any, hub: ModelHub) -> None:
    """The branch may move during hours of a download, and the Hub may fail: it is not asked again."""
    assert run(download, hub, {"repoId": "a/b"}).returncode == 0
    hub.commit, hub.small["config.json"] = "d" * 40, b'{"a": 2}'
    hub.error, hub.spared = ("/api/models/a/b/revision", 503, ""), 1
    done = run(download, hub, {"repoId": "a/b"})
    assert done.returncode == 0, done.stderr
    cache = download.root / "hf" / "hub" / "models--a--b"
    assert (cache / "refs" / "main").read_text() == hub.commit
    assert (cache / "snapshots" / hub.commit / "config.json").read_bytes() == b'{"a": 2}'


def test_an_error_of_the_cdn_is_named(download: Any, hub: ModelHub, cdn: ModelHub) -> None:
    """For large files, which the client does not download."""
    hub.model = cdn.large = random.Random(2).randbytes(20 * 1024**2)
    cdn.error = ("/cdn/", 503, "")
    assert_failed(download, run(download, hub, {"repoId": "a/b"}), 6, "model.safetensors of a/b", "HTTP 503")


def test_content_that_is_not_what_the_hub_says_fails(download: Any, hub: ModelHub, cdn: ModelHub) -> None:
    """Exit 4, and the file is gone."""
    cdn.large = LARGE[:-1] + b"x"
    assert_failed(download, run(download, hub, {"repoId": "a/b"}), 4, "model.safetensors")


def test_a_redirect_to_the_metadata_server_is_refused(download: Any, hub: ModelHub) -> None:
    """Exit 2, whoever redirects."""
    hub.redirect = "http://169.254.169.254/latest"
    assert_failed(download, run(download, hub, {"repoId": "a/b"}), 2, "169.254.169.254")


def test_a_hub_that_does_not_answer_is_a_network_failure(download: Any, hub: ModelHub) -> None:
    """Exit 6."""
    done = run(download, hub, {"repoId": "a/b"}, HF_ENDPOINT="http://127.0.0.1:1")
    assert_failed(download, done, 6, "HF_ENDPOINT")


def test_a_repository_larger_than_the_volume_is_refused_before_the_first_byte(
    download: Any, hub: ModelHub, cdn: ModelHub
) -> None:
    """Exit 5, as for objects of stores."""
    hub.claimed = 2**41
    assert_failed(download, run(download, hub, {"repoId": "a/b"}), 5, "required", "increase storageSize")
    assert not cdn.sent


@pytest.mark.parametrize("flag", ["--max-files=2", "--max-bytes=1000"])
def test_a_repository_beyond_a_limit_is_refused_before_the_first_byte(
    download: Any, hub: ModelHub, cdn: ModelHub, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    """Exit 2 with the flag that sets the limit."""
    command = type(download).command
    monkeypatch.setattr(type(download), "command", lambda self, items: command(self, items, flag))
    assert_failed(download, run(download, hub, {"repoId": "a/b"}), 2, flag.partition("=")[0])
    assert not cdn.sent


@pytest.mark.parametrize("claimed", [0, -(2**50)])
def test_a_hub_that_sends_more_than_it_names_is_stopped_at_the_limit(
    download: Any, hub: ModelHub, cdn: ModelHub, monkeypatch: pytest.MonkeyPatch, claimed: int
) -> None:
    """Exit 2, while the Hub still sends: the client would write until the volume is full."""
    command = type(download).command
    flag = "--max-bytes=3000000"
    monkeypatch.setattr(type(download), "command", lambda self, items: command(self, items, flag))
    cdn.large, cdn.pause, hub.claimed = LARGE * 100, 0.05, claimed
    assert_failed(download, run(download, hub, {"repoId": "a/b"}), 2, "--max-bytes")
    assert cdn.sent < len(cdn.large)


def test_a_private_repository_that_was_renamed(download: Any, hub: ModelHub, cdn: ModelHub) -> None:
    """Its large files too; the Hub's own redirects keep the token, the CDN does not see it."""
    hub.model = cdn.large = random.Random(2).randbytes(20 * 1024**2)
    done = run(download, hub, {"repoId": "old/name"}, HF_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    [link] = (download.root / "hf" / "hub" / "models--old--name").rglob("model.safetensors")
    assert link.read_bytes() == hub.model
    assert not [path for _, path, headers in cdn.requests if TOKEN in str(headers)]


@pytest.mark.parametrize("link", ["hub", "hub/models--a--b", "hub/models--a--b/blobs"])
def test_a_link_out_of_the_cache_volume_is_not_followed(download: Any, hub: ModelHub, link: str) -> None:
    """Another user of the volume may have left one at any level of the cache."""
    outside = download.root / "outside"
    outside.mkdir()
    place = download.root / "hf" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(outside)
    assert_failed(download, run(download, hub, {"repoId": "a/b"}), 2, "symbolic link out of the volume")
    assert list(outside.iterdir()) == []


def test_a_name_with_dots_is_named(download: Any, hub: ModelHub) -> None:
    """Exit 2: another try would end the same way."""
    hub.small["../../x"] = b"escaped"
    assert_failed(download, run(download, hub, {"repoId": "a/b"}), 2, "'../../x'")


def test_a_redirect_to_an_ipv6_address_is_checked_like_any_other(download: Any, hub: ModelHub) -> None:
    """The client writes it without brackets to its proxy."""
    hub.redirect = f"http://[::1]:{hub.server_address[1]}/cdn/{OID}"
    assert_failed(download, run(download, hub, {"repoId": "a/b"}), 2, "::1 is a loopback address")
