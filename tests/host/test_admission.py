"""The webhooks of a process: counted reviews, and a plugin that hangs in one of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kaiwo.admission.answer import Answer
from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.manager import Manager
from kaiwo.engine.workqueue import Key
from kaiwo.host.admission import REVIEW_LIMIT, Webhooks
from kaiwo.host.plugin_timeout import TimeLimit
from kaiwo.host.settings import Settings
from kaiwo.testing.admission import admission_review, answered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.admission.request import Request

PATH = "/validate/workloads"


class Reviewed:
    """Webhooks with one reviewer, which hangs for objects named ``hang`` and refuses those named ``bad``."""

    def __init__(self, manager: Manager, limit: TimeLimit) -> None:
        self.manager = manager
        self.namespaces: list[str] = []
        self.webhooks = Webhooks(
            Settings(), manager, "kaiwo-system",
            limit=limit, reviewers=lambda _: {PATH: self._reviewer}, on_change=lambda: None,
        )  # fmt: skip

    def _reviewer(self, request: Request) -> Answer:
        self.namespaces.append(request.namespace)
        while request.name == "hang":
            pass
        return Answer(allowed=request.name != "bad", message="" if request.name != "bad" else "bad")

    def review(self, name: str, path: str = PATH) -> dict[str, object]:
        """The answer about a KaiwoJob."""
        obj = {
            "apiVersion": KAIWO_JOB.api_version,
            "kind": "KaiwoJob",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {},
        }
        return answered(self.webhooks._review(Key("team", name), admission_review(obj), path))

    def counted(self, result: str, path: str = PATH) -> float:
        """Reviews with a result."""
        labels = {"path": path, "result": result}
        return self.manager.metrics.registry.get_sample_value("kaiwo_webhook_reviews_total", labels) or 0.0


@pytest.fixture
async def reviewed() -> AsyncIterator[Reviewed]:
    """Webhooks in the main thread, where a call can be interrupted."""
    async with Client(credentials.static("https://127.0.0.1:1", token="t")) as client:
        manager = Manager(client, field_manager="kaiwo", applied_annotation="a", component="kaiwo")
        with TimeLimit(1.0) as limit:
            yield Reviewed(manager, limit)


async def test_reviews_are_counted_by_path_and_result(reviewed: Reviewed) -> None:
    """A path that nobody serves does not make a series of its own."""
    assert reviewed.review("good")["allowed"] is True
    assert reviewed.review("bad")["allowed"] is False
    reviewed.review("good", "/some/other/path")
    reviewed.webhooks._review(Key("", ""), b"\xff", PATH)
    assert reviewed.counted("allowed") == 1
    assert reviewed.counted("refused") == 1
    assert reviewed.counted("unreadable") == 1
    assert reviewed.counted("unreadable", "other") == 1


async def test_a_review_that_hangs_is_ended(reviewed: Reviewed) -> None:
    """The event loop stands still for a second at most, and for less the next time."""
    began = time.perf_counter()
    assert reviewed.review("hang")["allowed"] is False
    first = time.perf_counter() - began
    began = time.perf_counter()
    reviewed.review("hang")
    second = time.perf_counter() - began
    assert REVIEW_LIMIT * 0.9 < first < REVIEW_LIMIT + 0.5
    assert second < first / 2
    assert reviewed.counted("error") == 2
    assert reviewed.review("good")["allowed"] is True


async def test_it_is_not_ready_before_it_serves(reviewed: Reviewed) -> None:
    """The Service would send requests otherwise; the condition says why."""
    ready, detail = reviewed.manager.health.ready()
    assert not ready
    assert detail["webhooks"] == "Starting: no certificate was read yet"
    condition = reviewed.webhooks.condition(3)
    assert (condition.type, condition.status, condition.reason) == ("WebhooksServed", "False", "Starting")
