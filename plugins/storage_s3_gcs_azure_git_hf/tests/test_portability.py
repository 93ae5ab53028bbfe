"""The program on systems without the system calls of Linux, such as macOS."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download import disk, proxy_connection
from kaiwo_storage_s3_gcs_azure_git_hf.download.egress_proxy import EgressProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = bytes(range(256)) * 4096

LINUX_ONLY = ((os, "splice"), (os, "fdatasync"), (os, "pwritev"), (fcntl, "F_SETPIPE_SZ"))


@pytest.fixture
def without_linux(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No system call that only Linux has, in Python or in the C library."""
    for module, name in LINUX_ONLY:
        monkeypatch.delattr(module, name, raising=False)
    real = ctypes.CDLL

    class Library:
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._real = real(*arguments, **options)

        def __getattr__(self, name: str) -> Any:
            if name in ("fallocate", "syncfs"):
                raise AttributeError(name)
            return getattr(self._real, name)

    monkeypatch.setattr(ctypes, "CDLL", Library)
    disk._libc.cache_clear()
    yield
    disk._libc.cache_clear()


@pytest.mark.usefixtures("without_linux")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["direct", "through the egress proxy"])
def test_a_download_needs_no_system_call_of_linux(download: Any, objects: Any, host: str) -> None:
    """An object of many parts arrives whole, also through the egress proxy."""
    objects.content = {"a": BODY, "b": b""}
    url = objects.url.replace("127.0.0.1", host)
    files = [{"path": name, "targetPath": name} for name in objects.content]
    outcome = download(download.s3(url, files=files))
    assert outcome.code == 0, outcome.err
    assert download.files() == objects.content


@pytest.mark.parametrize("splice", [True, False], ids=["splice", "copy"])
def test_the_egress_proxy_moves_bytes_in_both_directions(
    request: pytest.FixtureRequest, *, splice: bool
) -> None:
    """More bytes than any buffer holds, with and without the kernel's help."""
    if not splice:
        request.getfixturevalue("without_linux")
    elif not hasattr(os, "splice"):
        pytest.skip("this system has no splice")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = EgressProxy(private=True)
        proxy.register_endpoint("http://127.0.0.1")

        def echo() -> None:
            server, _ = listener.accept()
            with server:
                while data := server.recv(65536):
                    server.sendall(data)

        thread = threading.Thread(target=echo)
        thread.start()
        with socket.create_connection(proxy.address, timeout=60) as client:
            port = listener.getsockname()[1]
            client.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
            assert client.recv(1000).endswith(b"\r\n\r\n")
            sender = threading.Thread(
                target=lambda: (client.sendall(BODY * 4), client.shutdown(socket.SHUT_WR))
            )
            sender.start()
            received = b""
            while data := client.recv(1024**2):
                received += data
            sender.join()
        thread.join()
        proxy.close()
    assert received == BODY * 4


def test_a_defect_of_the_egress_proxy_does_not_leave_a_client_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection is closed, whatever fails."""

    def broken(*_: Any) -> None:
        raise OSError("no pipes left")

    monkeypatch.setattr(proxy_connection, "ProxyConnection", broken)
    proxy = EgressProxy(private=True)
    with socket.create_connection(proxy.address, timeout=20) as client:
        client.sendall(b"GET http://a/ HTTP/1.1\r\n\r\n")
        try:
            received = client.recv(100)
        except ConnectionResetError:
            received = b""
    proxy.close()
    assert received == b""
