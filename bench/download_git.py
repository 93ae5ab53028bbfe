"""One folder of a large git repository with a long history, beside a full clone of it."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, TYPE_CHECKING

from bench.download_run import PROGRAM, document, run_to_end
from bench.report import Figure, Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDERS, IN_EACH, KIB_EACH = 100, 100, 4


class _Handler(BaseHTTPRequestHandler):
    """git http-backend."""

    protocol_version = "HTTP/1.1"
    server: _Host

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Run it for one request; a full clone is streamed."""
        place = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": place.path,
            "QUERY_STRING": place.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        command = ["git", "http-backend"]
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as backend:
            if backend.stdin is None or backend.stdout is None:
                raise RuntimeError("git http-backend has no pipes")
            backend.stdin.write(body)
            backend.stdin.close()
            self._stream(backend.stdout)

    do_POST = do_GET

    def _stream(self, out: IO[bytes]) -> None:
        head = {}
        while line := out.readline().decode().strip():
            name, _, value = line.partition(": ")
            head[name] = value
        self.send_response(int(head.pop("Status", "200").split()[0]))
        for name, value in head.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        while data := out.read(1 << 16):
            self.server.sent += len(data)
            self.wfile.write(data)
        self.close_connection = True


class _Host(ThreadingHTTPServer):
    daemon_threads = True
    sent = 0

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(("127.0.0.1", 0), _Handler)


def _history(commits: int) -> Iterator[bytes]:
    """A stream for git fast-import: every file once, then commits that change some in every folder."""

    def commit(number: int, files: list[str]) -> Iterator[bytes]:
        text = f"commit {number}".encode()
        yield b"commit refs/heads/main\n"
        yield b"committer t <t@example.com> %d +0000\n" % (1_700_000_000 + number)
        yield b"data %d\n%s\n" % (len(text), text)
        for name in files:
            yield b"M 100644 inline %s\ndata %d\n" % (name.encode(), KIB_EACH * 1024)
            yield os.urandom(KIB_EACH * 512).hex().encode() + b"\n"
        yield b"\n"

    names = [f"d{folder:02}/f{file:02}" for folder in range(FOLDERS) for file in range(IN_EACH)]
    yield from commit(0, names)
    for number in range(1, commits):
        yield from commit(number, names[number % IN_EACH :: IN_EACH])


def _repository(root: Path, commits: int) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "--initial-branch=main", str(root / "r.git")], check=True)  # noqa: S607 - the machine's git
    git = ["git", "-C", str(root / "r.git")]
    with subprocess.Popen([*git, "fast-import", "--quiet"], stdin=subprocess.PIPE) as importing:
        if importing.stdin is None:
            raise RuntimeError("git fast-import has no input")
        for piece in _history(commits):
            importing.stdin.write(piece)
    if importing.returncode:
        raise RuntimeError("git fast-import failed")
    subprocess.run([*git, "config", "uploadpack.allowFilter", "true"], check=True)
    subprocess.run([*git, "repack", "-adq", "--write-bitmap-index"], check=True)


def figures(work: Path, *, quick: bool) -> list[Figure]:
    """Seconds and bytes of both, medians of three."""
    _repository(work, 50 if quick else 300)
    server = _Host(work)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/r.git"
    target = work / "checkout"
    item = {"repository": url, "branch": "main", "path": "d07", "targetPath": "code"}
    commands = {
        "part": [*PROGRAM, str(document(work / "git.yaml", target, {"git": [item]}))],
        "whole": ["git", "clone", "--quiet", url, str(target)],
    }
    taken: dict[str, list[tuple[float, float]]] = {"part": [], "whole": []}
    for _ in range(1 if quick else 3):
        for name, command in commands.items():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            before = server.sent
            run = run_to_end(command)
            if run.code:
                raise RuntimeError(f"{' '.join(command)} failed with exit code {run.code}")
            taken[name].append((run.seconds, (server.sent - before) / 1024**2))
    shutil.rmtree(target)
    server.shutdown()
    server.server_close()
    seconds, size = (
        {name: statistics.median(run[which] for run in runs) for name, runs in taken.items()}
        for which in (0, 1)
    )
    label = f"git: one folder of {FOLDERS * IN_EACH:,} files beside a full clone"
    least = Target(0.2, of_floor=True)
    return [
        Figure(f"{label}: time", seconds["part"], "s", seconds["whole"], least),
        Figure(f"{label}: bytes", size["part"], "MiB", size["whole"], least),
    ]
