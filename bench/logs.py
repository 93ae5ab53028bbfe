"""CPU of ``kaiwo logs -f`` at 100,000 lines a second, beside a program that reads the same stream raw.

A server on the loopback interface stands for the API server: what is measured is the reader. Every line is
counted and its order checked; one that is missing or comes twice ends the benchmark.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from bench.report import Figure, Target

RATE = 100_000
"""Lines a second."""

_LINES_PER_CHUNK = 64
_TEXT = "step {} loss 0.123456 lr 3e-4 grad_norm 1.0312 tokens/s 18231.2 mem 71.3GiB eta 02:11:09"
_START = datetime(2026, 1, 31, 9, tzinfo=UTC)
_FLOOR = """
import asyncio, os, sys, aiohttp
async def main():
    async with aiohttp.ClientSession(read_bufsize=1 << 18) as session:
        async with session.get(sys.argv[1]) as answer:
            async for chunk in answer.content.iter_any():
                os.write(1, chunk)
asyncio.run(main())
"""

_WORKLOAD = {
    "apiVersion": "kaiwo.silogen.ai/v1alpha1",
    "kind": "KaiwoJob",
    "metadata": {"name": "train", "namespace": "bench", "uid": "u", "resourceVersion": "1"},
    "status": {"status": "COMPLETE"},
}
_STATE = {"name": "main", "state": {"terminated": {"exitCode": 0, "startedAt": "2026-01-31T09:00:00Z"}}}
_POD = {
    "metadata": {"name": "train-0", "namespace": "bench", "uid": "p"},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]},
    "status": {"phase": "Succeeded", "containerStatuses": [_STATE]},
}
_ROOT = "/apis/kaiwo.silogen.ai/v1alpha1/namespaces/bench"


class _Server:
    """An API server with one job that has ended, and its log."""

    def __init__(self, seconds: int) -> None:
        lines = (
            f"{_START + timedelta(microseconds=number * 1_000_000 // RATE):%Y-%m-%dT%H:%M:%S.%f}000Z "
            f"{_TEXT.format(number)}\n".encode()
            for number in range(seconds * RATE)
        )
        body = list(lines)
        self._chunks = [
            b"".join(body[at : at + _LINES_PER_CHUNK]) for at in range(0, len(body), _LINES_PER_CHUNK)
        ]
        self._last = body[-2 * RATE :]
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.url = ""

    def start(self) -> None:
        """Listen on a free port."""
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        """Stop."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._loop.call_soon_threadsafe(self._loop.call_later, 0.1, self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        application = web.Application()
        application.router.add_get(f"{_ROOT}/kaiwojobs/train", lambda _: _answer(_WORKLOAD))
        application.router.add_get(f"{_ROOT}/kaiwoservices/train", lambda _: _missing())
        application.router.add_get(f"{_ROOT}/kaiwojobs", lambda _: self._silence())
        application.router.add_get("/api/v1/namespaces/bench/pods", self._pods)
        application.router.add_get("/api/v1/namespaces/bench/pods/train-0/log", self._log)
        asyncio.set_event_loop(self._loop)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _silence(self) -> web.StreamResponse:
        """A watch in which nothing happens."""
        await self._ended.wait()
        return web.Response()

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._silence()
        return await _answer({"metadata": {"resourceVersion": "1"}, "items": [_POD]})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        if since := request.query.get("sinceTime", ""):
            # What is asked for once more at the end.
            await response.write(b"".join(line for line in self._last if line[:19].decode() >= since[:19]))
        else:
            for chunk in self._chunks:
                await response.write(chunk)
        return response


async def _answer(body: Any) -> web.StreamResponse:
    return web.json_response(body)


async def _missing() -> web.StreamResponse:
    return web.json_response({"kind": "Status", "code": 404, "details": {"name": "train"}}, status=404)


def _cpu(command: list[str], output: Path) -> float:
    """CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with output.open("wb") as file:
        subprocess.run(command, check=True, stdout=file)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _check(output: Path, count: int) -> None:
    with output.open() as file:
        for number, line in enumerate(file):
            if line != _TEXT.format(number) + "\n":
                raise RuntimeError(f"line {number} is missing or comes twice: {line!r}")
    if number + 1 != count:
        raise RuntimeError(f"expected {count} lines, got {number + 1}")


def _both(seconds: int) -> tuple[float, float]:
    """CPU seconds for so many seconds' lines: of ``kaiwo logs -f``, and of the raw reader."""
    server = _Server(seconds)
    server.start()
    kaiwo = str(Path(sys.executable).with_name("kaiwo"))
    try:
        with tempfile.TemporaryDirectory() as directory:
            output, config = Path(directory, "log"), Path(directory, "config")
            config.write_text(_kubeconfig(server.url))
            used = _cpu([kaiwo, "--kubeconfig", str(config), "-n", "bench", "logs", "train", "-f"], output)
            _check(output, seconds * RATE)
            url = f"{server.url}/api/v1/namespaces/bench/pods/train-0/log"
            floor = _cpu([sys.executable, "-c", _FLOOR, url], output)
    finally:
        server.stop()
    return used, floor


def run(*, quick: bool) -> list[Figure]:
    """CPU for one more second's lines; that of starting is in both measurements."""
    few, many = (1, 4) if quick else (2, 12)
    short, long = _both(few), _both(many)
    used, floor = ((b - a) / (many - few) for a, b in zip(short, long, strict=True))
    return [Figure(f"logs -f: CPU for {RATE:,} lines", used, "s", floor, Target(1.0))]


def _kubeconfig(url: str) -> str:
    return f"""
apiVersion: v1
kind: Config
current-context: bench
clusters: [{{name: bench, cluster: {{server: "{url}"}}}}]
contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]
users: [{{name: bench, user: {{}}}}]
"""
