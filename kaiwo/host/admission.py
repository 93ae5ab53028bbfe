"""The webhooks of the operator process: server, certificates, reviewers, metrics and their condition."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from kaiwo.admission.certificate_controller import CertificateController
from kaiwo.admission.jobs import JobRules, job_reviewers
from kaiwo.admission.review import review
from kaiwo.admission.reviewers import reviewers
from kaiwo.admission.server import WebhookServer
from kaiwo.api.conditions import Condition
from kaiwo.api.installation import OPERATOR
from kaiwo.host.kaiwoconfig import WEBHOOKS_SERVED
from kaiwo.host.metrics.definitions import CERTIFICATE_EXPIRY, REVIEW_SECONDS, REVIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kaiwo.admission.answer import Answer
    from kaiwo.admission.request import Request
    from kaiwo.admission.reviewers import Reviewer
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.workqueue import Key
    from kaiwo.host.plugin_timeout import TimeLimit
    from kaiwo.host.settings import Settings
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.model import Facts, Registry

REVIEW_LIMIT: Final = 1.0
"""Seconds for one review, which takes under a millisecond. A function of a plugin that hangs holds up the
event loop for no longer than this."""

_OTHER = "other"


def all_reviewers(
    settings: Settings,
    plugins: Plugins,
    registry: Registry,
    namespace: str,
    *,
    facts: Callable[[], Facts],
    default_queue: Callable[[], str],
    excluded: Collection[str],
) -> dict[str, Reviewer]:
    """Who reviews at which path, for what the settings turn on.

    Args:
        settings: identity and enforcing mode.
        plugins: loaded plugins.
        registry: their declarations.
        namespace: of the operator.
        facts: what is known of the cluster, for the namespace under review.
        default_queue: returns the name of the default queue in force.
        excluded: namespaces in which no Job is put under management.
    """
    account = f"system:serviceaccount:{namespace}:{OPERATOR}"
    found = reviewers(plugins, registry, facts, identity=settings.identity, exempt=(account,))
    rules = JobRules(
        registry=registry, enforcing=settings.enforce_kaiwo_on_gpu_workloads, default_queue=default_queue,
        excluded=excluded, operator=account, settings=lambda: facts().settings,
    )  # fmt: skip
    return found | job_reviewers(rules)


class Webhooks:
    """Serves the webhooks of one process, on leaders and followers alike."""

    def __init__(
        self,
        settings: Settings,
        manager: Manager,
        namespace: str,
        *,
        limit: TimeLimit,
        reviewers: Callable[[Callable[[], str]], Mapping[str, Reviewer]],
        on_change: Callable[[], None],
    ) -> None:
        """Prepare; nothing is served before `start`.

        Args:
            settings: address and certificates.
            manager: reads and writes, and knows whether this process leads.
            namespace: of the operator.
            limit: ends functions of plugins that hang.
            reviewers: makes those who decide, by HTTP path, of a function that returns the namespace under
                review.
            on_change: called when `condition` is another one.
        """
        self._limit = limit
        self._namespace = ""
        made = reviewers(lambda: self._namespace)
        self._reviewers = {path: self._counted(reviewer) for path, reviewer in made.items()}
        registry = manager.metrics.registry
        self._reviews = REVIEWS.counter(registry)
        self._seconds = REVIEW_SECONDS.histogram(registry)
        self._expires = CERTIFICATE_EXPIRY.gauge(registry)
        self._expires.set_function(self._expiry)
        self._result = ""
        self._server = WebhookServer(settings.webhook_address, self._review, self._failed)
        self._certificates = CertificateController(
            manager.client, namespace,
            folder=settings.webhook_certificates, leading=lambda: manager.leading, use=self._server.use,
            on_change=on_change,
        )  # fmt: skip
        self._task: asyncio.Task[None] | None = None
        manager.health.check("webhooks", self._health)

    def start(self) -> None:
        """Begin to serve as soon as there is a certificate."""
        self._task = asyncio.create_task(self._certificates.run(), name="webhook certificates")

    async def close(self) -> None:
        """Answer what is under way and what still comes, then end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._server.close()

    def condition(self, generation: int) -> Condition:
        """The condition of KaiwoConfig.

        Args:
            generation: of the KaiwoConfig.
        """
        state = self._certificates.state
        return Condition(
            WEBHOOKS_SERVED, "True" if state.well else "False", state.reason, state.message, generation
        )

    def _health(self) -> tuple[bool, str]:
        """Ready as soon as requests are answered, so that the Service sends none before."""
        state = self._certificates.state
        return state.serving, f"{state.reason}: {state.message}" if state.message else "ok"

    def _expiry(self) -> float:
        expires = self._certificates.expires
        return expires.timestamp() if expires is not None else 0.0

    # -- one review

    def _review(self, subject: Key, body: bytes, path: str) -> bytes:
        self._result, self._namespace = "unreadable", subject.namespace
        label = self._label(path)
        began = time.perf_counter()
        with self._limit.planning(subject, REVIEW_LIMIT):
            answer = self._limit.wrap("webhooks", f"review at {label}", review)(body, self._reviewers, path)
        self._seconds.labels(label).observe(time.perf_counter() - began)
        self._reviews.labels(label, self._result).inc()
        return answer

    def _counted(self, reviewer: Reviewer) -> Reviewer:
        def counted(request: Request) -> Answer:
            self._result = "error"
            answer = reviewer(request)
            self._result = "allowed" if answer.allowed else "refused"
            return answer

        return counted

    def _failed(self, path: str, cause: str) -> None:
        self._reviews.labels(self._label(path), cause).inc()

    def _label(self, path: str) -> str:
        return path if path in self._reviewers else _OTHER
