"""A metrics endpoint that asks for a bearer token and has a certificate of a CA of its own, over real TLS."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from kaiwo.host.monitoring.access import EndpointFiles
from kaiwo.host.monitoring.endpoint import Endpoint, EndpointError
from kaiwo.host.settings import load
from kaiwo.plugin.vendors import Utilization
from kaiwo.testing.exporter import TEXT, Exporter, lines, server_tls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AMD = Utilization("gpu_gfx_activity", gpu_labels=("gpu_id", "gpu_uuid"))
FIRST, SECOND = "canary-of-the-first-token", "canary-of-the-second-token"


class Guarded:
    """An exporter behind a proxy that lets nobody in without the current token.

    Attributes:
        exporter: answers.
        token: the file with the token that the operator sends.
        ca: the file with the CA certificates that it trusts.
        accepted: the token that is accepted.
    """

    def __init__(self, exporter: Exporter, folder: Path) -> None:
        self.exporter = exporter
        self.token, self.ca = folder / "token", folder / "ca.crt"
        self.accepted = FIRST
        exporter.answer = self._answer
        self.replace(self.token, FIRST)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.accepted}":
            raise web.HTTPUnauthorized
        return web.Response(body=lines({("team", "train"): [7]}), headers={"Content-Type": TEXT})

    def replace(self, file: Path, content: str | bytes) -> None:
        """Put other content in place of a file at once, as the kubelet does."""
        new = file.with_suffix(".new")
        new.write_bytes(content if isinstance(content, bytes) else content.encode())
        new.replace(file)

    def endpoint(self) -> Endpoint:
        """What the operator reads with."""
        files = EndpointFiles(self.token, self.ca)
        return Endpoint(self.exporter.url, [AMD], 30.0, lambda: datetime.now(UTC), files)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    """An exporter that asks for a token, and files that fit."""
    context, authorities = server_tls(tmp_path)
    async with Exporter(context) as exporter:
        found = Guarded(exporter, tmp_path)
        found.replace(found.ca, authorities)
        yield found


@pytest.fixture
async def endpoint(guarded: Guarded) -> AsyncIterator[Endpoint]:
    """The endpoint with its files."""
    made = guarded.endpoint()
    yield made
    await made.close()


async def failing(endpoint: Endpoint) -> str:
    """The message of a scrape that fails; never with a token."""
    with pytest.raises(EndpointError) as caught:
        await endpoint.read()
    text = f"{caught.value!r} {caught.value.__cause__!r}"
    assert " at 0x" not in text  # it is in a status, which is written when it differs
    assert FIRST not in text
    assert SECOND not in text
    return str(caught.value)


async def test_a_replaced_token_is_used_from_the_next_scrape_on(guarded: Guarded, endpoint: Endpoint) -> None:
    """Without a restart; the token before it, when it is revoked, is reported with the file."""
    assert (await endpoint.read()).of_pod("team", "train")
    guarded.accepted = SECOND
    assert f"HTTP 401: the token in {guarded.token} has no right to it" in await failing(endpoint)
    guarded.replace(guarded.token, f"{SECOND}\n")
    assert (await endpoint.read()).of_pod("team", "train")
    assert guarded.exporter.authorization == [f"Bearer {one}" for one in (FIRST, FIRST, SECOND)]


async def test_a_server_of_another_ca_gets_no_token(
    guarded: Guarded, endpoint: Endpoint, tmp_path: Path
) -> None:
    """The connection ends before anything is sent; a replaced bundle counts from the next scrape on."""
    right, (_, wrong) = guarded.ca.read_bytes(), server_tls(tmp_path)
    guarded.replace(guarded.ca, wrong)
    assert "certificate verify failed" in await failing(endpoint)
    assert guarded.exporter.requests == []
    guarded.replace(guarded.ca, right)
    assert (await endpoint.read()).of_pod("team", "train")
    guarded.replace(guarded.ca, wrong)
    assert "certificate verify failed" in await failing(endpoint)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_server_does_not_get_the_token(
    guarded: Guarded, endpoint: Endpoint, status: int
) -> None:
    """It is an answer that cannot be used, also where the other server has a certificate that is trusted."""
    async with Exporter(guarded.exporter.tls) as other:
        guarded.exporter.answer = None
        guarded.exporter.status, guarded.exporter.headers = status, {"Location": other.url}
        assert f"HTTP {status}" in await failing(endpoint)
        assert other.requests == []
    assert guarded.exporter.authorization == [f"Bearer {FIRST}"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("", "is empty"),
        (f"{FIRST}\nHost: elsewhere", "expected one line with a token"),
        (f"{FIRST}ü", "expected one line with a token"),
        (b"\xff\xfe", "can't decode"),
    ],
)
async def test_a_file_without_a_token_stops_the_scrape_and_is_named(
    guarded: Guarded, endpoint: Endpoint, content: str | bytes | None, words: str
) -> None:
    """Nothing is sent without the token; the message names the file and shows nothing of it."""
    if content is None:
        guarded.token.unlink()
    else:
        guarded.replace(guarded.token, content)
    message = await failing(endpoint)
    assert f"token file {guarded.token}" in message
    assert words in message
    assert guarded.exporter.requests == []


@pytest.mark.parametrize(("content", "words"), [(None, "No such file"), (b"none", "CERTIFICATE")])
async def test_a_file_without_certificates_stops_the_scrape_and_is_named(
    guarded: Guarded, endpoint: Endpoint, content: bytes | None, words: str
) -> None:
    """The system's authorities do not take its place."""
    guarded.ca.unlink()
    if content is not None:
        guarded.ca.write_bytes(content)
    message = await failing(endpoint)
    assert f"CA file {guarded.ca}" in message
    assert words.lower() in message.lower()
    assert guarded.exporter.requests == []


async def test_a_prometheus_server_gets_the_token_too(guarded: Guarded) -> None:
    """Each query of it."""
    guarded.exporter.answer = None
    guarded.exporter.kind = "application/json"
    guarded.exporter.body = '{"status": "success", "data": {"resultType": "vector", "result": []}}'
    files = EndpointFiles(guarded.token, guarded.ca)
    url = f"https://127.0.0.1:{guarded.exporter.port}"
    endpoint = Endpoint(url, [AMD], 30.0, lambda: datetime.now(UTC), files)
    try:
        await endpoint.read()
    finally:
        await endpoint.close()
    assert set(guarded.exporter.authorization) == {f"Bearer {FIRST}"}


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://thanos.monitoring:9091/other/path", True),
        ("https://thanos.monitoring:9092", False),
        ("https://thanos.elsewhere:9091", False),
        ("http://thanos.monitoring:9091", False),
    ],
)
def test_an_endpoint_of_a_plugin_gets_the_files_on_the_same_server_only(url: str, same: bool) -> None:
    """A plugin may read another endpoint; its server must not learn the token."""
    environ = {
        "RESOURCE_MONITORING_METRICS_ENDPOINT": "https://thanos.monitoring:9091",
        "RESOURCE_MONITORING_TOKEN_FILE": "/etc/kaiwo/monitoring/token",
        "RESOURCE_MONITORING_CA_FILE": "/etc/kaiwo/monitoring/ca.crt",
    }
    settings = load(environ=environ)
    expected = EndpointFiles(Path("/etc/kaiwo/monitoring/token"), Path("/etc/kaiwo/monitoring/ca.crt"))
    assert EndpointFiles.of(settings, url) == (expected if same else EndpointFiles())
