"""The webhook server on a loopback address, called as an API server calls it."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp
import pytest

from kaiwo.admission import server as server_module
from kaiwo.admission import tls as tls_module
from kaiwo.admission.certificates import issue
from kaiwo.admission.request import MAX_BODY
from kaiwo.admission.server import WebhookServer, subject_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.admission.certificates import Certificates
    from kaiwo.engine.workqueue import Key

NAMES = ("kaiwo-webhooks.kaiwo-system.svc",)

_ALL_CIPHERS = "ALL:@SECLEVEL=0"
"""By default OpenSSL itself refuses older versions on both sides, and nothing would be tested."""


def made() -> Certificates:
    """Certificates of now."""
    return issue(NAMES, datetime.now(UTC))


def body(namespace: str = "team", size: int = 0) -> bytes:
    """An AdmissionReview."""
    return json.dumps(
        {"request": {"uid": "1", "namespace": namespace, "name": "a", "object": {"pad": "x" * size}}}
    ).encode()


class Caller:
    """What an API server does: it keeps connections open and trusts the given authorities only."""

    def __init__(self, url: str, certificates: Certificates, **context: ssl.TLSVersion) -> None:
        self.url = url
        self.context = ssl.create_default_context(cadata=certificates.authorities.decode())
        for name, value in context.items():
            setattr(self.context, name, value)
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.context, limit=25))

    async def post(self, data: bytes, path: str = "/validate/workloads") -> tuple[int, bytes]:
        """Status and body of an answer."""
        async with self.session.post(self.url + path, data=io.BytesIO(data)) as answer:
            return answer.status, await answer.read()


class Served:
    """A server that runs, and what it reported."""

    def __init__(self, review: Callable[[Key, bytes, str], bytes]) -> None:
        self.failures: list[tuple[str, str]] = []
        self.certificates = made()
        self.server = WebhookServer(
            ("127.0.0.1", 0), review, lambda path, cause: self.failures.append((path, cause))
        )

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.server.address[1]}"


@asynccontextmanager
async def serving(review: Callable[[Key, bytes, str], bytes]) -> AsyncIterator[tuple[Served, Caller]]:
    """A server and a caller."""
    served = Served(review)
    await served.server.use(served.certificates)
    caller = Caller(served.url, served.certificates)
    try:
        yield served, caller
    finally:
        await caller.session.close()
        await served.server.close()


@pytest.fixture(autouse=True)
def no_quiet_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for an endpoint that is withdrawn."""
    monkeypatch.setattr(server_module, "_QUIET", 0.1)


def answered(subject: Key, data: bytes, path: str) -> bytes:
    """A review that says what it got."""
    return f"{subject.namespace} {len(data)} {path}".encode()


async def test_a_body_is_handed_on_as_it_came() -> None:
    """With its namespace and path; up to 3 MB."""
    async with serving(answered) as (served, caller):
        data = body(size=100)
        assert await caller.post(data) == (200, f"team {len(data)} /validate/workloads".encode())
        large = body(size=MAX_BODY - 100)
        assert (await caller.post(large, "/mutate/jobs"))[1].endswith(b"/mutate/jobs")
        assert not served.failures


async def test_only_posts_are_reviewed() -> None:
    """A probe, or somebody with a browser, is told so."""
    async with serving(answered) as (served, caller):
        async with caller.session.get(f"{caller.url}/validate/workloads") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert not served.failures


async def test_a_body_that_is_too_large_is_refused() -> None:
    """Without being read; the next request is answered."""
    async with serving(answered) as (served, caller):
        status, _ = await caller.post(body(size=MAX_BODY))
        assert status == 413
        assert served.failures == [("/validate/workloads", "too_large")]
        assert (await caller.post(body()))[0] == 200


async def test_an_old_tls_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS 1.2 and 1.3 are served, also where OpenSSL is configured to permit older versions."""
    context_of = tls_module._context

    def permissive(given: Certificates) -> ssl.SSLContext:
        context = context_of(given)
        context.set_ciphers(_ALL_CIPHERS)
        return context

    monkeypatch.setattr(tls_module, "_context", permissive)
    async with serving(answered) as (served, caller):
        assert (await caller.post(body()))[0] == 200
        two = Caller(served.url, served.certificates, maximum_version=ssl.TLSVersion.TLSv1_2)
        assert (await two.post(body()))[0] == 200
        await two.session.close()
        with pytest.warns(DeprecationWarning, match="TLSv1"):
            one = Caller(
                served.url,
                served.certificates,
                minimum_version=ssl.TLSVersion.TLSv1,
                maximum_version=ssl.TLSVersion.TLSv1_1,
            )
        one.context.set_ciphers(_ALL_CIPHERS)
        with pytest.raises(aiohttp.ClientConnectorError):
            await one.post(body())
        await one.session.close()


async def test_a_review_that_fails_is_a_server_error_and_harms_no_other() -> None:
    """The API server then decides by failurePolicy."""

    def review(subject: Key, data: bytes, path: str) -> bytes:
        if subject.namespace == "bad":
            raise TimeoutError
        return answered(subject, data, path)

    async with serving(review) as (served, caller):
        assert (await caller.post(body("bad")))[0] == 500
        assert served.failures == [("/validate/workloads", "error")]
        assert (await caller.post(body()))[0] == 200


async def test_a_request_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender holds a connection and nothing else."""
    monkeypatch.setattr(server_module, "TIME_LIMIT", 0.2)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with serving(answered) as (served, caller):
        async with caller.session.post(f"{caller.url}/validate/workloads", data=endless()) as answer:
            assert answer.status == 504
        assert served.failures == [("/validate/workloads", "timeout")]
        assert (await caller.post(body()))[0] == 200


async def test_a_rotation_under_load_loses_no_request() -> None:
    """Open connections continue; new ones see the new certificate."""
    async with serving(answered) as (served, caller):
        successor = made()
        results: list[int] = []

        async def load() -> None:
            results.extend([(await caller.post(body()))[0] for _ in range(100)])

        loads = [asyncio.create_task(load()) for _ in range(10)]
        await asyncio.sleep(0.1)
        assert not all(task.done() for task in loads), "the load ended before the rotation"
        await served.server.use(successor)
        await asyncio.gather(*loads)
        assert results == [200] * 1000
        fresh = Caller(served.url, successor)
        assert (await fresh.post(body()))[0] == 200
        await fresh.session.close()
        old = Caller(served.url, served.certificates)
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await old.post(body())
        await old.session.close()


async def test_unusable_certificates_leave_the_ones_in_use() -> None:
    """A key of another certificate, or none at all."""
    async with serving(answered) as (served, caller):
        for bad in (type(served.certificates)(made().certificate, made().key), type(served.certificates)()):
            with pytest.raises(ssl.SSLError):
                await served.server.use(bad)
        fresh = Caller(served.url, served.certificates)
        assert (await fresh.post(body()))[0] == 200
        await fresh.session.close()
        assert (await caller.post(body()))[0] == 200


async def test_the_end_answers_what_is_under_way_and_what_still_comes() -> None:
    """A pod that ends stays in the endpoints of its Service for a moment."""
    async with serving(answered) as (served, caller):
        await caller.post(body())
        ending = asyncio.create_task(served.server.close())
        await asyncio.sleep(0.02)
        assert [(await caller.post(body()))[0] for _ in range(5)] == [200] * 5
        await ending
        with pytest.raises(aiohttp.ClientConnectorError):
            await caller.post(body())


async def test_one_namespace_with_many_requests_does_not_delay_another() -> None:
    """Reviews of namespaces take turns."""

    def review(subject: Key, data: bytes, path: str) -> bytes:
        if subject.namespace == "crowd":
            end = time.perf_counter() + 0.004
            while time.perf_counter() < end:
                pass
        return answered(subject, data, path)

    async with serving(review) as (served, caller):
        alone = Caller(served.url, served.certificates)
        await alone.post(body("alone"))
        crowd = [asyncio.create_task(caller.post(body("crowd"))) for _ in range(200)]
        await asyncio.sleep(0.05)
        await alone.post(body("alone"))
        waiting = sum(not task.done() for task in crowd)
        await asyncio.gather(*crowd)
        await alone.session.close()
        assert waiting > 100


def test_the_subject_is_read_from_any_bytes() -> None:
    """The rest of the body is read by whoever reviews it."""
    assert subject_of(body("team")) == ("team", "a")
    for odd in (b"", b"\xff", b"[" * 100_000, b"{}", b'{"request":{"namespace":1}}', b'{"request":null}'):
        assert subject_of(odd) == ("", "")
