"""Reading a metrics endpoint that may do anything."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.host.monitoring import endpoint as endpoint_module
from kaiwo.host.monitoring.endpoint import Endpoint, EndpointError, is_text, shown
from kaiwo.plugin.vendors import Utilization
from kaiwo.testing.exporter import Exporter, drip, endless, hang, lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.workload.monitoring.samples import Samples

AMD = Utilization("gpu_gfx_activity", gpu_labels=("gpu_id", "gpu_uuid"))
POD = ("team", "train")


@pytest.fixture
async def exporter() -> AsyncIterator[Exporter]:
    """An exporter with two GPUs of one pod."""
    async with Exporter() as made:
        made.body = lines({POD: [7, 93]})
        yield made


async def read(url: str, *, interval: float = 30.0, times: int = 1) -> Samples:
    """Read an endpoint, once or more often."""
    endpoint = Endpoint(url, [AMD], interval, lambda: datetime.now(UTC))
    try:
        for _ in range(times - 1):
            await endpoint.read()
        return await endpoint.read()
    finally:
        await endpoint.close()


def uses(samples: Samples) -> list[float | None]:
    """Of the GPUs of the pod."""
    return sorted((gpu.use for gpu in samples.of_pod(*POD)), key=str)


async def test_text_is_read(exporter: Exporter) -> None:
    """As an exporter writes it."""
    assert uses(await read(exporter.url, times=2)) == [7.0, 93.0]
    assert exporter.requests == ["/metrics", "/metrics"]


async def test_every_exporter_behind_a_name_is_read(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Service without a cluster IP names one for each node; one that is down leaves the others."""
    found = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]

    async def addresses(*_: object) -> list[str]:
        return found

    monkeypatch.setattr(Endpoint, "_addresses", addresses)
    assert uses(await read(f"http://exporters:{exporter.port}/metrics")) == [7.0, 93.0]
    assert len(exporter.requests) == 1
    found[0] = "127.0.0.4"
    with pytest.raises(EndpointError, match="exporters"):
        await read(f"http://exporters:{exporter.port}/metrics")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": 500}, "HTTP 500"),
        ({"status": 302, "headers": {"Location": "http://169.254.169.254/metrics"}}, "HTTP 302"),
        ({"kind": "text/html"}, "answers with text/html, expected Prometheus text"),
        ({"body": gzip.compress(b"x"), "headers": {"Content-Encoding": "gzip"}}, "packed"),
    ],
)
async def test_what_is_no_metrics_page_is_an_error(
    exporter: Exporter, changes: dict[str, Any], words: str
) -> None:
    """An error page, another place, a web site, something packed: nothing is read of it."""
    for name, value in changes.items():
        setattr(exporter, name, value)
    with pytest.raises(EndpointError, match=words):
        await read(exporter.url)
    assert len(exporter.requests) == 1


@pytest.mark.parametrize("answer", [hang, drip])
async def test_an_endpoint_that_is_slow_has_its_time(
    exporter: Exporter, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that sends a byte now and then."""
    monkeypatch.setattr(endpoint_module, "_SHORTEST", 0.3)
    exporter.answer = answer
    with pytest.raises(EndpointError, match=r"does not answer within 0\.3 s"):
        await read(exporter.url, interval=0.1)


async def test_an_answer_without_an_end_is_cut_off(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However fast it comes."""
    monkeypatch.setattr(endpoint_module, "MOST_BYTES", 8 << 20)
    exporter.answer = endless
    with pytest.raises(EndpointError, match="more than 8 MiB"):
        await read(exporter.url)


async def test_ten_megabytes_of_nothing_hold_up_nobody(exporter: Exporter) -> None:
    """The event loop goes on while they are parsed: it is never busy with it for long."""
    exporter.body = b'gpu_gfx_activity{gpu_id="' + b"\\" * (10 << 20)
    longest = 0.0

    async def pulse() -> None:
        nonlocal longest
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - began)

    pulsing = asyncio.create_task(pulse())
    assert uses(await read(exporter.url)) == []
    pulsing.cancel()
    # CPU time of the loop's own thread; taking in and handing on a piece of 256 KiB is the most it does.
    assert 0 < longest < 1.0


async def test_nobody_there_is_an_error() -> None:
    """With the address and without the password."""
    async with Exporter() as gone:
        url = f"http://user:secret@127.0.0.1:{gone.port}/metrics"
    with pytest.raises(EndpointError, match=f"http://127.0.0.1:{gone.port}/metrics: ") as error:
        await read(url)
    assert "secret" not in str(error.value)


async def test_an_exporter_on_this_machine_is_not_asked_through_a_proxy(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What NO_PROXY excepts is decided as for the API server; nothing listens at this proxy."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert uses(await read(exporter.url)) == [7.0, 93.0]


def test_passwords_are_not_shown() -> None:
    """Nor is what stands behind a question mark."""
    assert shown("http://user:secret@prometheus:9090/p?token=secret") == "http://prometheus:9090/p"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://exporter:5000/metrics", True),
        ("http://prometheus:9090/federate?match[]=x", True),
        ("http://prometheus:9090", False),
        ("http://prometheus:9090/prometheus/", False),
        ("https://metrics.example.com/", False),
    ],
)
def test_the_path_tells_text_from_a_server(url: str, text: bool) -> None:
    """So that one setting is enough."""
    assert is_text(url) is text


def answer(value: str = "7", at: float = 1.0) -> str:
    """An answer of Prometheus."""
    metric = {"namespace": "team", "pod": "train", "gpu_id": "0"}
    return json.dumps(
        {
            "status": "success",
            "data": {"resultType": "vector", "result": [{"metric": metric, "value": [at, value]}]},
        }
    )


async def test_a_server_is_asked(exporter: Exporter) -> None:
    """At the path of its API, below whatever path it has."""
    exporter.kind, exporter.body = "application/json", answer()
    found = await read(f"http://127.0.0.1:{exporter.port}/prometheus/")
    assert uses(found) == [7.0]
    assert exporter.requests[0].startswith("/prometheus/api/v1/query?query=max+by")


async def test_an_answer_that_was_given_before_is_none(exporter: Exporter) -> None:
    """A cache that goes on answering while Prometheus is gone would end workloads."""
    exporter.kind, exporter.body = "application/json", answer()
    with pytest.raises(EndpointError, match="earlier query"):
        await read(f"http://127.0.0.1:{exporter.port}/", times=2)


async def test_a_web_site_is_no_server(exporter: Exporter) -> None:
    """The message says which URL reads text."""
    with pytest.raises(EndpointError, match="has metrics in its path"):
        await read(f"http://127.0.0.1:{exporter.port}/")
