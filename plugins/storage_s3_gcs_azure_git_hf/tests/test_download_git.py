from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "CANARYTOKEN"
LARGE = b"large file" * 1000
ODD = "odd [1]*"
AUTHOR = {
    f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def git(folder: Path, *arguments: str) -> str:
    """Run git without the user's configuration."""
    environment = {**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Host

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def _reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        host = self.server
        host.paths.append(self.path)
        host.given.append((self.headers["Host"], self.headers.get("Authorization", "")))
        expected = "Basic " + base64.b64encode(f"{host.user}:{TOKEN}".encode()).decode()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if host.silent:
            host.silent.wait(20)
        if host.busy:
            host.busy -= 1
            self._reply(503, b"")
        elif host.private and self.headers.get("Authorization") != expected:
            self._reply(401, b"", **{"WWW-Authenticate": 'Basic realm="git"'})
        elif self.path.endswith("/objects/batch"):
            objects = [
                {
                    **wanted,
                    "actions": {"download": {"href": f"{host.url}/lfs/{wanted['oid']}"}},
                }
                for wanted in json.loads(body)["objects"]
            ]
            self._reply(200, json.dumps({"objects": objects}).encode())
        elif self.path.startswith("/lfs/") and host.moved:
            self._reply(302, b"", Location=host.moved)
        elif self.path.startswith("/lfs/"):
            self._reply(200, host.large)
        else:
            self._backend(body)

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def _backend(self, body: bytes) -> None:
        place = urllib.parse.urlsplit(self.path)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": place.path,
            "QUERY_STRING": place.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        if self.server.modern:
            environment["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        command = ["git", "http-backend"]
        done = subprocess.run(command, input=body, env=environment, capture_output=True, check=False)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        self.server.sent += len(answer)
        self._reply(status, answer, **headers)


class Host(ThreadingHTTPServer):
    """git http-backend behind http, with authentication and large files."""

    daemon_threads = True
    private = False
    modern = True
    user = "x-access-token"
    large = LARGE
    moved = ""
    sent = 0
    busy = 0
    silent: threading.Event | None = None

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths: list[str] = []
        self.given: list[tuple[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a history, a tag, a folder, a large file, a submodule and a link that leaves."""
    root = tmp_path_factory.mktemp("git")
    work = root / "work"
    work.mkdir()
    git(work, "init", "-q")
    (work / "src").mkdir()
    (work / "src" / "a.py").write_text("one\n")
    (work / "big").write_bytes(os.urandom(500_000))
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    git(work, "tag", "v1")
    (work / "src" / "a.py").write_text("two\n")
    (work / "src" / "here").symlink_to("a.py")
    for folder in (ODD, "odd 1x"):
        (work / folder).mkdir()
        (work / folder / "b").write_text(folder)
    oid = hashlib.sha256(LARGE).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(LARGE)}\n"
    (work / "model.bin").write_text(pointer)
    (work / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = http://127.0.0.1:1/sub.git\n')
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    git(work, "add", "src", ODD, "odd 1x", "model.bin", ".gitmodules")
    git(work, "commit", "-qm", "two")
    git(work, "branch", "dev/evil")
    git(work, "checkout", "-q", "dev/evil")
    (work / "out").symlink_to("../../../etc/passwd")
    git(work, "add", "out")
    git(work, "commit", "-qm", "evil")
    git(work, "checkout", "-q", "main")
    git(root, "clone", "-q", "--bare", "work", "repo.git")
    git(root / "repo.git", "config", "uploadpack.allowFilter", "true")
    return root


@pytest.fixture
def host(repositories: Path) -> Iterator[Host]:
    """The server."""
    server = Host(repositories)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def item(host: Host, **more: Any) -> dict[str, Any]:
    """One repository."""
    return {"git": [{"repository": f"{host.url}/repo.git", "targetPath": "code", **more}]}


def assert_failed(download: Any, outcome: Any, code: int, *words: str) -> None:
    """One line that names the item and the reason; nothing in the target."""
    assert outcome.code == code, outcome.err
    for word in ("git", *words):
        assert word in outcome.line
    assert "; " in outcome.line, "a next step is missing"
    assert "Traceback" not in outcome.err
    assert TOKEN not in outcome.err
    assert download.files() == {}


def test_a_repository_is_its_newest_tree(download: Any, host: Host) -> None:
    """LFS files match their pointers; submodules and the history are not fetched."""
    outcome = download(item(host, lfs=True))
    assert outcome.code == 0, outcome.err
    files = download.files()
    assert files["code/src/a.py"] == b"two\n"
    assert files["code/src/here"] == b"two\n"
    assert files["code/model.bin"] == LARGE
    assert not any(".git/" in name for name in files)
    assert not list(download.volume.glob(".kaiwo-download/git-*"))


def test_lfs_files_are_downloaded_only_on_request(download: Any, host: Host) -> None:
    """Without ``lfs`` the pointer stays, no LFS server is contacted, and a warning names the field to set."""
    outcome = download(item(host))
    assert outcome.code == 0, outcome.err
    assert download.files()["code/model.bin"].startswith(b"version https://git-lfs")
    assert not [path for path in host.paths if "lfs" in path]
    [warning] = [line for line in outcome.err.splitlines() if line.startswith("warning: ")]
    assert "git[0]: 1 LFS pointer " in warning
    assert "lfs: true" in warning


def test_a_checkout_with_lfs_files_is_not_taken_for_one_without(download: Any, host: Host) -> None:
    """Setting ``lfs`` on a finished checkout downloads its LFS files."""
    assert download(item(host)).code == 0
    outcome = download(item(host, lfs=True))
    assert outcome.code == 0, outcome.err
    assert download.files()["code/model.bin"] == LARGE


def test_a_path_fetches_only_its_blobs(download: Any, host: Host) -> None:
    """Half a megabyte beside the path stays where it is."""
    outcome = download(item(host, path="src"))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/a.py": b"two\n", "code/here": b"two\n"}
    assert host.sent < 100_000


def test_a_path_is_no_pattern(download: Any, host: Host) -> None:
    """Brackets, stars and spaces are part of a name."""
    outcome = download(item(host, path=ODD))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/b": ODD.encode()}


@pytest.mark.parametrize("modern", [True, False])
def test_an_exact_commit_even_where_hashes_are_not_served(
    download: Any, host: Host, repositories: Path, modern: bool
) -> None:
    """A server that refuses a hash costs the history but works."""
    host.modern = modern
    commit = git(repositories / "repo.git", "rev-parse", "v1")
    outcome = download(item(host, commit=commit, path="src"))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/a.py": b"one\n"}


@pytest.mark.parametrize(
    ("more", "flag", "word"),
    [
        ({}, "--max-files=5", "more than 5 files"),
        ({}, "--max-bytes=100000", "larger than"),
        ({"path": "model.bin", "lfs": True}, "--max-bytes=5000", "larger than"),
    ],
)
def test_a_repository_beyond_a_limit_is_refused(
    download: Any, host: Host, more: dict[str, Any], flag: str, word: str
) -> None:
    """Files, and bytes of the tree and of its LFS files, are counted: exit 2, and no file is left."""
    assert_failed(download, download(item(host, **more), flag), 2, "git[0]", word, flag.partition("=")[0])
    assert not [path for path in host.paths if path.startswith("/lfs/")]


def test_a_branch_field_takes_tags_too(download: Any, host: Host) -> None:
    """As git's own --branch does."""
    assert download(item(host, branch="v1", path="src")).code == 0
    assert download.files() == {"code/a.py": b"one\n"}


@pytest.mark.parametrize("user", ["x-access-token", "alice"])
def test_a_private_repository(download: Any, host: Host, user: str) -> None:
    """The token is read from its file, and is in nothing that the run wrote."""
    host.private, host.user = True, user
    more = {"token": download.secret("token", TOKEN), "lfs": True}
    if user == "alice":
        more["username"] = download.secret("user", user)
    command = download.command(item(host, **more))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert download.files()["code/model.bin"] == LARGE
    assert TOKEN not in done.stdout + done.stderr + " ".join(host.paths)
    written = [path for path in download.root.rglob("*") if path.is_file() and path.parent.name != "secrets"]
    assert all(TOKEN.encode() not in path.read_bytes() for path in written)


def test_an_unchanged_repository_is_not_fetched_again(download: Any, host: Host, repositories: Path) -> None:
    """A rerun asks for the newest commit at most; what changed or was touched is fetched."""
    assert download(item(host, branch="main")).code == 0
    host.paths.clear()
    assert download(item(host, branch="main")).code == 0
    assert [path.partition("?")[0] for path in host.paths].count("/repo.git/git-upload-pack") <= 1
    assert not [path for path in host.paths if "lfs" in path]
    commit = git(repositories / "repo.git", "rev-parse", "v1")
    assert download(item(host, commit=commit)).code == 0
    assert download.files().keys() == {"code/src/a.py", "code/big"}, "files of the other commit stayed"
    host.paths.clear()
    assert download(item(host, commit=commit)).code == 0
    assert host.paths == []
    (download.volume / "code" / "src" / "a.py").write_text("touched")
    assert download(item(host, commit=commit)).code == 0
    assert download.files()["code/src/a.py"] == b"one\n"


def test_files_that_another_item_writes_are_refused_before_any_has_its_name(
    download: Any, host: Host
) -> None:
    """Exit 2, both are named, and the tree is not half there."""
    items = item(host)["git"] * 2
    outcome = download({"git": items})
    assert outcome.code == 2, outcome.err
    assert "git[0]" in outcome.line
    assert "git[1]" in outcome.line


def test_a_failure_that_passes_is_tried_again(download: Any, host: Host) -> None:
    """A host that answers 503 twice."""
    host.busy = 2
    download.limits["retrySeconds"] = 60
    outcome = download(item(host, path="src"))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"code/a.py": b"two\n", "code/here": b"two\n"}


def test_a_failure_that_stays_is_reported_in_the_words_of_git(download: Any, host: Host) -> None:
    """Exit 6, with the status that the host gave."""
    host.busy = 99
    assert_failed(download, download(item(host)), 6, "git[0]", "503")


def test_a_host_that_says_nothing_is_given_up(download: Any, host: Host) -> None:
    """Exit 6 once the connection was silent for too long; no git stays behind."""
    host.silent = threading.Event()
    download.limits["stallSeconds"] = 1
    outcome = download(item(host))
    host.silent.set()
    assert_failed(download, outcome, 6, "git[0]")


def test_a_private_repository_without_a_token_is_refused(download: Any, host: Host) -> None:
    """Exit 3, without asking anybody on a terminal."""
    host.private = True
    assert_failed(download, download(item(host)), 3, "token")


@pytest.mark.parametrize(
    "more", [{"commit": "f" * 40}, {"commit": "f" * 64}, {"branch": "none"}, {"path": "none"}]
)
def test_what_does_not_exist_is_exit_3(download: Any, host: Host, more: dict[str, str]) -> None:
    """Commit, branch or path."""
    assert_failed(download, download(item(host, **more)), 3, "git[0]")


def test_a_missing_repository_is_exit_3(download: Any, host: Host) -> None:
    """With its URL."""
    items = item(host, repository=f"{host.url}/none.git")
    assert_failed(download, download(items), 3, "none.git", "not found")


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"repository": "ext::sh -c id"}, "repository"),
        ({"repository": "file:///etc"}, "repository"),
        ({"repository": "http://user:pw@127.0.0.1/x.git"}, "credentials"),
        ({"repository": "http://169.254.169.254/x.git"}, "169.254.169.254"),
        ({"branch": "--upload-pack=id"}, "branch"),
        ({"commit": "abcdef12"}, "commit"),
        ({"path": "../x"}, "path"),
        ({"targetPath": "../x"}, "targetPath"),
    ],
)
def test_what_could_run_or_reach_something_else_is_refused(
    download: Any, host: Host, more: dict[str, str], word: str
) -> None:
    """Exit 2 before any request."""
    assert_failed(download, download(item(host, **more)), 2, "git[0]", word)
    assert not host.paths


def test_links_out_of_the_tree_are_refused_by_name(download: Any, host: Host) -> None:
    """Exit 2, nothing of the tree is left."""
    assert_failed(download, download(item(host, branch="dev/evil")), 2, "link out", "points out")


def test_large_files_that_are_not_what_the_pointer_says_fail(download: Any, host: Host) -> None:
    """Exit 4."""
    host.large = LARGE[:-1] + b"x"
    assert_failed(download, download(item(host, lfs=True)), 4, "model.bin")


def test_lfs_files_are_not_downloaded_over_another_protocol(
    download: Any, host: Host, ftp: tuple[str, list[bytes]]
) -> None:
    """A redirect to an FTP server is exit 2, and nothing connects to it."""
    host.moved, received = ftp
    assert_failed(download, download(item(host, lfs=True)), 2, "model.bin", "ftp://")
    assert received == []


@pytest.mark.parametrize("path", [".", "./", "./.", "./src", "src/", "src/./a.py", "src//a.py"])
def test_a_path_may_be_spelled_otherwise(download: Any, host: Host, path: str) -> None:
    """Points and slashes that change nothing change nothing."""
    outcome = download(item(host, path=path))
    assert outcome.code == 0, outcome.err
    assert ("code/src/a.py" if path.strip("./") == "" else "code/a.py") in download.files()


@pytest.mark.parametrize(
    ("path", "code", "word"), [("sub", 3, "submodule"), (".git/config", 2, "inside .git")]
)
def test_a_path_without_files_fails(download: Any, host: Host, path: str, code: int, word: str) -> None:
    """A submodule is empty here, and git's own files are no part of the tree."""
    assert_failed(download, download(item(host, path=path)), code, word)


def test_files_of_another_user(download: Any, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Volumes that squash users give every file to one; git has a switch of its own to play that."""
    program = download.root / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER="${{GIT_ASKPASS:+1}}" exec {shutil.which("git")} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    outcome = download(item(host, path="src"))
    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize(("scheme", "code"), [("http", 0), ("file", 2)])
def test_large_files_are_where_the_repository_says(
    download: Any, host: Host, repositories: Path, scheme: str, code: int
) -> None:
    """Its .lfsconfig names their server, which gets no credentials of another."""
    url = f"{scheme}://localhost:{host.server_address[1]}/large"
    git(repositories / "work", "checkout", "-q", "-B", scheme, "main")
    (repositories / "work" / ".lfsconfig").write_text(f"[lfs]\n\turl = {url}\n")
    git(repositories / "work", "add", ".lfsconfig")
    git(repositories / "work", "commit", "-qm", "large")
    git(repositories / "work", "push", "-q", "../repo.git", scheme)
    outcome = download(
        item(host, branch=scheme, path="model.bin", lfs=True, token=download.secret("token", TOKEN))
    )
    assert outcome.code == code, outcome.err
    assert code or (download.files() == {"code/model.bin": LARGE} and "/large/objects/batch" in host.paths)
    assert not [given for name, given in host.given if "localhost" in name and given]
