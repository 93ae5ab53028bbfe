"""The plugin notify in a running operator: what KaiwoConfig says is sent, and nobody waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from kaiwo.api.crds import KAIWO_CONFIG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster


@pytest.fixture
async def received() -> AsyncIterator[tuple[str, asyncio.Queue[dict[str, Any]]]]:
    """URL of a receiver, and the JSON that it got; it takes nothing below /down."""
    found: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def take(request: web.Request) -> web.Response:
        if request.path == "/down":
            return web.Response(status=503)
        found.put_nowait(await request.json())
        return web.Response()

    app = web.Application()
    app.router.add_post("/{path:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", found
    await runner.cleanup()


async def test_status_changes_are_sent_by_the_rules_of_kaiwoconfig(
    operator: Start, lab: Any, received: tuple[str, asyncio.Queue[dict[str, Any]]], tmp_path: Path
) -> None:
    """One sink gets ends of one user, another one is down and harms nothing; its secret is in no log."""
    url, found = received
    (tmp_path / "down").write_text(f"{url}/down?token=CANARY", encoding="utf-8")
    rules = {"statuses": ["COMPLETE", "ERROR"], "users": ["ada"], "namespaces": [lab.namespace]}
    sinks = [
        {"name": "down", "type": "slack", "urlFile": "down", "rules": {"statuses": []}},
        {"name": "events", "type": "cloudevents", "url": url, "rules": rules},
    ]
    section = {"sinks": sinks, "allowHttp": True, "allowPrivateEndpoints": True}

    async def configure(plugins: dict[str, Any]) -> None:
        wanted = {
            "apiVersion": KAIWO_CONFIG.api_version, "kind": KAIWO_CONFIG.kind,
            "metadata": {"name": "kaiwo"}, "spec": {"plugins": plugins},
        }  # fmt: skip
        await lab.client.apply(KAIWO_CONFIG, wanted, field_manager="notify-test")

    await configure({"notify": section})
    try:
        process = await operator(env={"KAIWO_NOTIFY_SECRETS": str(tmp_path)})
        await lab.submit("of-bob", user="bob", pods={"kaiwo-sandbox/run-time": "100ms"})
        await lab.reaches("of-bob", "COMPLETE")
        await lab.submit("of-ada", user="ada", pods={"kaiwo-sandbox/run-time": "100ms"})
        await lab.reaches("of-ada", "COMPLETE")
        event = await asyncio.wait_for(found.get(), 30)
        assert (event["subject"], event["data"]["after"]) == ("KaiwoJob/of-ada", "COMPLETE")
        assert found.empty()
        await asyncio.to_thread(process.close)
        assert "CANARY" not in process.log
    finally:
        await configure({})
