"""The commands logs, exec, port-forward and monitor as a user runs them, through a real API server."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import termios
from contextlib import suppress
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

ROCM_SMI = json.dumps(
    {
        f"card{number}": {
            "GPU use (%)": str(40 + number),
            "VRAM Total Memory (B)": str(192 << 30),
            "VRAM Total Used Memory (B)": str(96 << 30),
            "Card Series": "AMD Instinct MI300X",
        }
        for number in range(2)
    }
)


async def read_until(stream: asyncio.StreamReader, text: bytes) -> bytes:
    """Read until a text came."""
    got = b""
    async with asyncio.timeout(60):
        while text not in got:
            piece = await stream.read(4096)
            assert piece, got
            got += piece
    return got


async def test_logs_have_prefixes_where_several_containers_write(kubelet: Any) -> None:
    """One container: the bytes as they are. Several: each line says whose it is."""
    await kubelet.run_pod("train-0", ("main", "side"))
    kubelet.write("\x1b[31mred\x1b[0m", "last")
    kubelet.write("other", container="side")
    assert await kubelet.kaiwo("logs", "train") == (0, "\x1b[31mred\x1b[0m\nlast\n", "")
    assert await kubelet.kaiwo("logs", "job/train", "--tail", "1") == (0, "last\n", "")
    code, out, _ = await kubelet.kaiwo("logs", "train", "--all")
    assert (code, out.splitlines()[1:]) == (0, ["[train-0/main] last", "[train-0/side] other"])
    code, _, err = await kubelet.kaiwo("logs", "train", "-c", "nope")
    assert (code, err) == (
        3,
        'error: container "nope" not found in pod train-0\nhint: its containers: main, side\n',
    )


async def test_logs_without_a_pod_say_why(kubelet: Any) -> None:
    """In the words of the status."""
    code, _, err = await kubelet.kaiwo("logs", "train")
    assert code == 1
    assert "job/train has no pod yet (not yet observed by an operator)" in err


async def test_followed_logs_wait_for_pods_and_end_with_the_workload(kubelet: Any) -> None:
    """Two pods, one after the other, and no line twice."""
    process = await kubelet.start("logs", "train", "-f")
    await read_until(process.stderr, b"waiting for logs")
    kubelet.write("one")
    await kubelet.run_pod("train-0")
    out = await read_until(process.stdout, b"one\n")
    kubelet.write("two")
    out += await read_until(process.stdout, b"two\n")
    await kubelet.end_pod("train-0")
    await kubelet.finish()
    async with asyncio.timeout(30):
        rest, _ = await process.communicate()
    assert (process.returncode, out + rest) == (0, b"one\ntwo\n")


async def test_the_previous_log_is_read(kubelet: Any) -> None:
    """Where there is none, the reason is given."""
    await kubelet.run_pod("train-0")
    kubelet.write("crash")
    kubelet.restart()
    kubelet.write("again")
    assert await kubelet.kaiwo("logs", "train", "--previous") == (0, "crash\n", "")
    assert await kubelet.kaiwo("logs", "train") == (0, "again\n", "")


async def test_followed_logs_survive_rotation(kubelet: Any) -> None:
    """The kubelet goes on with the new file, and so does the command."""
    await kubelet.run_pod("train-0")
    process = await kubelet.start("logs", "train", "-f")
    out = b""
    for number in range(3):
        kubelet.write(*(f"line {number} {each}" for each in range(1000)))
        out += await read_until(process.stdout, f"line {number} 999\n".encode())
        await kubelet.watches_logs()
        kubelet.rotate()
        await asyncio.sleep(0.3)
    process.terminate()
    await process.communicate()
    assert out.decode().splitlines() == [
        f"line {number} {each}" for number in range(3) for each in range(1000)
    ]


async def test_followed_logs_survive_an_api_server_that_restarts(kubelet: Any, control_plane: Any) -> None:
    """Lines written meanwhile come once."""
    await kubelet.run_pod("train-0")
    kubelet.write("one")
    process = await kubelet.start("logs", "train", "-f")
    out = await read_until(process.stdout, b"one\n")
    restart = asyncio.ensure_future(asyncio.to_thread(control_plane.restart_api_server))
    for number in range(40):
        kubelet.write(f"line {number}")
        await asyncio.sleep(0.05)
    await restart
    kubelet.write("end")
    out += await read_until(process.stdout, b"end\n")
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert out.decode().splitlines() == ["one", *(f"line {number}" for number in range(40)), "end"]
    assert process.returncode == 130
    assert b"error" not in err


async def test_logs_end_quietly_when_nobody_reads(kubelet: Any) -> None:
    """As ``kaiwo logs train | head`` does."""
    await kubelet.run_pod("train-0")
    kubelet.write(*(f"line {number}" for number in range(20_000)))
    reader, writer = os.pipe()
    process = await kubelet.start("logs", "train", stdout=writer)
    os.close(writer)
    os.read(reader, 100)
    os.close(reader)
    async with asyncio.timeout(30):
        _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")


async def test_exec_with_pipes(kubelet: Any) -> None:
    """Input, both outputs, a script, a program that is not there."""
    await kubelet.run_pod("train-0")
    answer = await kubelet.kaiwo("exec", "train", "-it", "--", "head", "-n", "1", stdin=b"in\n")
    assert answer == (0, "in\n", "warning: -t is ignored; standard input is not a terminal\n")
    answer = await kubelet.kaiwo("exec", "train", "--command", "echo $WHERE; echo oops >&2")
    assert answer == (0, "pod\n", "oops\n")
    code, _, err = await kubelet.kaiwo("exec", "train", "--", "no-such-program")
    assert code == 1
    assert "no-such-program" in err


async def test_exec_in_a_terminal(kubelet: Any) -> None:
    """A shell sees the size and its changes, Ctrl-C goes to the command, and the terminal is as before."""
    await kubelet.run_pod("train-0")
    ours, theirs = pty.openpty()
    set_size(ours, 43, 132)
    before = termios.tcgetattr(theirs)
    process = await kubelet.start(
        "exec", "-it", "train", "--", "sh", stdin=theirs, stdout=theirs, start_new_session=True
    )
    terminal = Terminal(ours)
    await terminal.shows("43 132", typed="stty size\n")
    assert termios.tcgetattr(theirs) != before
    set_size(ours, 24, 80)
    process.send_signal(signal.SIGWINCH)
    await terminal.shows("24 80", typed="stty size\n")
    terminal.type("\x03")
    await terminal.shows("^C")
    terminal.type("echo a'li've\n")
    await terminal.shows("alive")
    terminal.type("exit\n")
    async with asyncio.timeout(30):
        await process.wait()
    assert process.returncode == 0
    assert termios.tcgetattr(theirs) == before
    terminal.close()
    os.close(theirs)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_the_terminal_is_restored_when_exec_is_killed(kubelet: Any, number: int) -> None:
    """A raw terminal would be unusable."""
    await kubelet.run_pod("train-0")
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = await kubelet.start(
        "exec", "-it", "train", "--", "sh", stdin=theirs, stdout=theirs, start_new_session=True
    )
    terminal = Terminal(ours)
    terminal.type("echo rea'dy'\n")
    await terminal.shows("ready")
    process.send_signal(number)
    async with asyncio.timeout(30):
        await process.wait()
    assert process.returncode == 130
    assert termios.tcgetattr(theirs) == before
    terminal.close()
    os.close(theirs)


async def test_port_forward_carries_many_connections_and_follows_the_pod(kubelet: Any) -> None:
    """Any free port, fifty connections at once, another pod when the first is gone."""
    await kubelet.run_pod("train-0")
    process = await kubelet.start("port-forward", "train", f":{kubelet.open_port}")
    said = await read_until(process.stdout, b" -> 80\n")
    port = int(said.split(b":")[1].split()[0])
    answers = await asyncio.gather(*(ask(port, f"hello {number}\n" * 2000) for number in range(50)))
    assert answers == [f"HELLO {number}\n" * 2000 for number in range(50)]
    await kubelet.run_pod("train-1")
    await kubelet.delete_pod("train-0")
    assert await ask(port, "again\n") == "AGAIN\n"
    assert b"now connected to pod train-1" in await read_until(process.stderr, b"train-1")
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130
    assert b"error" not in err


async def test_port_forward_says_what_connections_wait_for(kubelet: Any) -> None:
    """Without a pod an open port answers nothing, and a browser does not say why."""
    process = await kubelet.start("port-forward", "train", f":{kubelet.open_port}")
    await read_until(process.stdout, b" -> 80\n")
    await read_until(process.stderr, b"connections wait for a pod: job/train has no pod yet")
    await kubelet.run_pod("train-0")
    await read_until(process.stderr, b"pod train-0 takes connections now")
    process.send_signal(signal.SIGINT)
    await process.wait()


async def test_exec_and_port_forward_when_the_api_server_restarts(kubelet: Any, control_plane: Any) -> None:
    """A command's connection is gone, and that is no success; a port works again by itself."""
    await kubelet.run_pod("train-0")
    command = await kubelet.start("exec", "train", "--", "sh", "-c", "echo started; sleep 1000")
    await read_until(command.stdout, b"started")
    forward = await kubelet.start("port-forward", "train", f":{kubelet.open_port}")
    port = int((await read_until(forward.stdout, b" -> 80\n")).split(b":")[1].split()[0])
    assert await ask(port, "before\n") == "BEFORE\n"
    await asyncio.to_thread(control_plane.restart_api_server)
    assert await ask(port, "after\n") == "AFTER\n"
    forward.terminate()
    await forward.communicate()
    async with asyncio.timeout(30):
        _, err = await command.communicate()
    assert command.returncode == 1
    assert b"error: the connection to pod train-0 broke; the command may still run" in err


async def test_port_forward_says_that_nothing_listens(kubelet: Any) -> None:
    """The local connection ends, and the command goes on."""
    await kubelet.run_pod("train-0")
    process = await kubelet.start("port-forward", "train", f":{kubelet.closed_port}")
    port = int((await read_until(process.stdout, b" -> 9\n")).split(b":")[1].split()[0])
    with suppress(ConnectionError):
        assert await ask(port, "hello\n") == ""
    assert b"connection refused" in await read_until(process.stderr, b"refused")
    process.terminate()
    await process.wait()


async def test_monitor_reads_the_vendors_tool(kubelet: Any) -> None:
    """A row for each GPU; without the tool, what is missing."""
    await kubelet.run_pod("train-0", resources={"limits": {"amd.com/gpu": "2"}})
    code, out, err = await kubelet.kaiwo("monitor", "train")
    assert (code, "2 requested" in out) == (0, True)
    assert "warning: no GPU use of train-0: rocm-smi" in err
    kubelet.add_program("rocm-smi", f"echo '{ROCM_SMI}'")
    code, out, err = await kubelet.kaiwo("monitor", "train")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["train-0", "0", "AMD", "Instinct", "MI300X", "40%", "96.0Gi", "of", "192.0Gi"],
        ["train-0", "1", "AMD", "Instinct", "MI300X", "41%", "96.0Gi", "of", "192.0Gi"],
    ]
    code, out, _ = await kubelet.kaiwo("monitor", "train", "-o", "json")
    [pod] = json.loads(out)["items"]
    assert (pod["vendor"], pod["requestedGpus"], pod["gpus"][1]["usePercent"]) == ("amd", 2, 41)


async def ask(port: int, text: str) -> str:
    """Send lines to a local port, and read as much back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.encode())
    async with asyncio.timeout(60):
        answer = b""
        while len(answer) < len(text) and (piece := await reader.read(1 << 16)):
            answer += piece
    writer.close()
    return answer.decode()


def set_size(descriptor: int, rows: int, columns: int) -> None:
    """Change the size of a terminal."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Terminal:
    """The user's side of a terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._shown = b""
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self) -> None:
        with suppress(OSError):
            self._shown += os.read(self._descriptor, 4096)

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._descriptor, text.encode())

    async def shows(self, text: str, typed: str = "") -> None:
        """Wait until a text is on the screen; type something every second meanwhile."""
        for _ in range(30):
            self.type(typed)
            for _ in range(10):
                if text.encode() in self._shown:
                    return
                await asyncio.sleep(0.1)
        raise AssertionError(self._shown)

    def close(self) -> None:
        """Close the window."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
