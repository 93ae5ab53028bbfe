from __future__ import annotations

import email.utils
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = bytes(range(256)) * 1024


class Failing:
    """A fault of the first reads of an object, and how often it struck."""

    def __init__(self, times: int, fault: Callable[[Any], None]) -> None:
        self.struck = 0
        self._times = times
        self._fault = fault

    def __call__(self, handler: Any) -> bool:
        """Strike, unless it did often enough."""
        if handler.command != "GET" or self.struck == self._times:
            return False
        self.struck += 1
        self._fault(handler)
        return True


def _truncate(handler: Any) -> None:
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes 0-65535/{len(BODY)}")
    handler.send_header("Content-Length", "65536")
    handler.send_header("Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT")
    handler.send_header("ETag", '"x"')
    handler.end_headers()
    handler.wfile.write(BODY[:100])
    handler.close_connection = True


FAULTS: dict[str, Callable[[Any], None]] = {
    "truncated": _truncate,
    "429": lambda handler: handler.reply(429, **{"Retry-After": "1"}),
    "500": lambda handler: handler.reply(500),
    "503": lambda handler: handler.reply(503, b"<Error><Code>SlowDown</Code></Error>"),
    "stall": lambda handler: handler.server.objects.stalled.wait(3),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_pass_is_given_up_as_a_network_failure(download: Any, objects: Any, fault: str) -> None:
    """Exit 6, so that the Job tries again."""
    objects.stalled = threading.Event()
    objects.content["a"] = BODY
    objects.faults["a"] = failing = Failing(99, FAULTS[fault])
    download.limits |= {"stallSeconds": 1, "workers": 2}
    outcome = download(download.one(objects.url))
    objects.stalled.set()
    download.assert_failed(outcome, 6, "files[0]", "/bucket/a")
    assert failing.struck


@pytest.mark.parametrize("fault", ["truncated", "429", "500", "503"])
def test_what_passes_is_tried_again(download: Any, objects: Any, fault: str) -> None:
    """Two failures, then the file is whole."""
    objects.content["a"] = BODY
    objects.faults["a"] = failing = Failing(2, FAULTS[fault])
    download.limits["retrySeconds"] = 30
    outcome = download(download.one(objects.url))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a.bin": BODY}
    assert failing.struck == 2


def test_nobody_listening_is_a_network_failure(download: Any) -> None:
    """Exit 6."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    download.assert_failed(download(download.one(f"http://127.0.0.1:{port}")), 6, "files[0]", "no response")


@pytest.mark.parametrize("how", ["seconds", "date"])
def test_a_busy_server_is_left_alone_for_as_long_as_it_says(download: Any, objects: Any, how: str) -> None:
    """429 with Retry-After: no request before that time is over, then the file is whole."""
    objects.content["a"] = BODY
    began = time.monotonic()
    over = time.time() + 3
    times: list[float] = []

    def busy(handler: Any) -> bool:
        if time.monotonic() - began > 2 or (handler.command == "HEAD" and not times):
            return False
        times.append(time.monotonic() - began)
        value = "2" if how == "seconds" else email.utils.formatdate(over, usegmt=True)
        handler.reply(429, **{"Retry-After": value})
        return True

    objects.faults["a"] = busy
    download.limits |= {"retrySeconds": 30, "workers": 1}
    outcome = download(download.one(objects.url))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a.bin": BODY}
    assert len(times) == 2, "the read, and the question how long to wait"
    assert max(times) < 1


def test_a_wait_longer_than_the_time_for_tries_is_given_up_at_once(download: Any, objects: Any) -> None:
    """Exit 6 in seconds: the Job tries again later."""
    objects.content["a"] = BODY
    reads: list[str] = []

    def busy(handler: Any) -> bool:
        if handler.command == "HEAD" and not reads:
            return False
        reads.append(handler.command)
        handler.reply(429, **{"Retry-After": "3600"})
        return True

    objects.faults["a"] = busy
    download.limits |= {"retrySeconds": 60, "workers": 1}
    began = time.monotonic()
    download.assert_failed(download(download.one(objects.url)), 6, "files[0]", "429")
    assert time.monotonic() - began < 20


def test_a_name_without_an_address_is_named(download: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 6, with what could not be resolved."""

    def resolve(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    outcome = download(download.one("http://models.example.com"))
    download.assert_failed(outcome, 6, "files[0]", "models.example.com", "Name or service not known")


def test_a_redirect_to_the_metadata_server_is_refused(download: Any, objects: Any) -> None:
    """Whoever redirects a download must not read the node's identity."""
    objects.content["a"] = BODY

    def redirect(handler: Any) -> bool:
        handler.reply(302, Location="http://169.254.169.254/latest/meta-data/")
        return True

    objects.faults["a"] = redirect
    outcome = download(download.one(objects.url))
    download.assert_failed(outcome, 2, "files[0]", "169.254.169.254", "metadata")


def test_a_name_that_resolves_to_loopback_is_refused(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is not its address: what it resolves to counts, at the moment of the connection."""
    objects.content["a"] = BODY
    real = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host == "models.example.com" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    outcome = download(download.one(f"http://models.example.com:{objects.port}"))
    download.assert_failed(outcome, 2, "files[0]", "models.example.com", "loopback")
    assert not objects.requests


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "0.0.0.0"])
def test_metadata_addresses_are_refused_as_endpoints(download: Any, host: str) -> None:
    """However they are written."""
    download.assert_failed(download(download.one(f"http://{host}")), 2, "s3[0]")


def test_private_endpoints_can_be_forbidden(download: Any, objects: Any) -> None:
    """Then loopback, written as such, is refused too."""
    download.policy["allowPrivateEndpoints"] = False
    download.assert_failed(download(download.one(objects.url)), 2, "s3[0]", "loopback")
    download.assert_failed(download(download.one("http://10.1.2.3")), 2, "s3[0]", "private")


def test_a_git_host_that_does_not_answer_is_a_network_failure(download: Any) -> None:
    """Exit 6."""
    items = {"git": [{"repository": "http://127.0.0.1:1/x.git", "targetPath": "x"}]}
    download.assert_failed(download(items), 6, "git[0]")


@pytest.mark.parametrize("host", ["[::1]", "127.0.0.2", "localhost"])
def test_a_redirect_to_loopback_that_nobody_wrote_is_refused(download: Any, objects: Any, host: str) -> None:
    """An endpoint on one loopback address allows none of the others."""
    objects.content["a"] = BODY

    def redirect(handler: Any) -> bool:
        handler.reply(302, Location=f"http://{host}:{objects.port}/bucket/a")
        return True

    objects.faults["a"] = redirect
    outcome = download(download.one(objects.url))
    download.assert_failed(outcome, 2, "files[0]", host.strip("[]"), "loopback")
