"""Locks between processes, and free ports."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.ports import LOOPBACK, claim, free_ports, release, wait_until_free

if TYPE_CHECKING:
    from pathlib import Path

HOLDER = """
import sys
from pathlib import Path
from kaiwo_sandbox.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_waits_for_another_process_and_says_so(tmp_path: Path) -> None:
    """Of two commands that need the same result, the second waits and reports that it waits."""
    path = tmp_path / "lock"
    lines: list[str] = []
    entered = threading.Event()

    def enter() -> None:
        with locked(path, on_wait=lambda: lines.append("waiting")):
            entered.set()

    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        waiter = threading.Thread(target=enter)
        waiter.start()
        assert not entered.wait(0.3)
        holder.kill()  # the kernel releases what a dead process held
        assert entered.wait(10)
        waiter.join()
    assert lines == ["waiting"]


def test_a_lock_whose_file_its_holder_removed_still_excludes(tmp_path: Path) -> None:
    """`down` removes the lock file it holds; who waited must not share the lock with who came after."""
    path = tmp_path / "lock"
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with locked(path):
                inside.append(1)
                most.append(len(inside))
                inside.pop()
                path.unlink()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1


def test_free_ports_are_different_and_can_be_listened_on(home: Path) -> None:
    """Each program of a sandbox gets one of its own; connections that linger from before do not matter."""
    del home
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.create_server((LOOPBACK, port)):  # sets SO_REUSEADDR, as the programs do
            pass


def test_starts_at_the_same_time_get_different_ports(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens yet when the second start chooses; here from fifty ports, by five at once."""
    del home
    monkeypatch.setattr("kaiwo_sandbox.ports._FIRST", 20000)
    monkeypatch.setattr("kaiwo_sandbox.ports._LAST", 20060)
    with ThreadPoolExecutor(5) as pool:
        found = [port for ports in pool.map(free_ports, [8] * 5) for port in ports]
    assert len(set(found)) == 40


def test_earlier_ports_are_claimed_by_one_start_only(home: Path) -> None:
    """Two starts from the same prepared data both want its ports; after `down` they can be had again."""
    del home
    ports = free_ports(2)
    assert not claim(ports)
    release(ports)
    assert claim(ports)
    assert not claim(ports[:1])
    release(ports)
    with socket.socket() as sock:
        sock.bind((LOOPBACK, ports[0]))
        sock.listen()
        assert not claim(ports)


def test_an_expired_reservation_does_not_count(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed start leaves reservations behind; a damaged file counts as empty."""
    ports = free_ports(1)
    monkeypatch.setattr("kaiwo_sandbox.ports._RESERVATION_SECONDS", 0.0)
    assert claim(ports)
    (home / "cache" / "kaiwo" / "sandbox" / "ports.json").write_text("[1, 2")
    assert claim(ports)


def test_a_port_that_stays_taken_is_reported(home: Path) -> None:
    """A restart on the same port cannot work then, and the message says so instead of a bind error."""
    del home
    with socket.socket() as sock:
        sock.bind((LOOPBACK, free_ports(1)[0]))
        sock.listen()
        with pytest.raises(SandboxError, match="still in use"):
            wait_until_free(sock.getsockname()[1], timeout=0.2)
