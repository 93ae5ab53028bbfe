"""What a metrics endpoint says of the pods of a case, as Prometheus text or as a Prometheus server."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from kaiwo.testing.exporter import TEXT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.testing.exporter import Exporter
    from kaiwo.testing.monitored import MonitoredCluster

FORMS: Final = ("text", "server")
METRIC: Final = "gpu_gfx_activity"
HOME: Final = "team"
"""Namespace of the pods."""

_AT_HOME: Final = re.compile(rf'(namespace=\\*"){HOME}(?=\\*")')


@dataclass(frozen=True, slots=True)
class Sample:
    """The utilization of one GPU.

    Attributes:
        pod: that holds it.
        gpu: its number.
        value: as it is written.
        namespace: of the pod.
        age: seconds since it was taken; None for a sample without a time.
    """

    pod: str
    gpu: int = 0
    value: str = "0"
    namespace: str = HOME
    age: float | None = None


@dataclass(slots=True)
class Feed:
    """An endpoint.

    Attributes:
        exporter: that answers.
        form: one of `FORMS`.
        cluster: whose clocks count.
        samples: what it says.
        more: further lines of the text.
        frozen: whether a server answers with the result of an earlier query.
        namespace: that text has in place of `HOME`.
    """

    exporter: Exporter
    form: str
    cluster: MonitoredCluster
    samples: list[Sample] = field(default_factory=list)
    more: str = ""
    frozen: float | None = None
    namespace: str = HOME

    def attach(self) -> None:
        """Answer with what is said now."""
        self.exporter.status, self.exporter.headers = 200, {}
        self.exporter.answer = self._answer

    def replace(self, answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> None:
        """Answer otherwise."""
        self.exporter.answer = answer

    async def _answer(self, _: web.Request) -> web.StreamResponse:
        if self.form == "text":
            return web.Response(body=self.text().encode(), headers={"Content-Type": TEXT})
        at = self.frozen if self.frozen is not None else self.cluster.now().timestamp()
        result: list[Any] = [
            {"metric": {**_labels(one), "gpu_uuid": f"u{one.gpu}"}, "value": [at, one.value]}
            for one in self.samples
        ]
        document = {"status": "success", "data": {"resultType": "vector", "result": result}}
        return web.Response(body=json.dumps(document).encode(), headers={"Content-Type": "application/json"})

    def text(self) -> str:
        """What is said now, as Prometheus text."""
        now = self.cluster.now().timestamp()
        found = []
        for one in self.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in _labels(one).items())
            at = "" if one.age is None else f" {int((now - one.age) * 1000)}"
            found.append(f'{METRIC}{{{labels},gpu_uuid="u{one.gpu}"}} {one.value}{at}\n')
        return _AT_HOME.sub(rf"\g<1>{self.namespace}", "".join(found) + self.more)


def _labels(one: Sample) -> dict[str, str]:
    """Of a sample; a pod or namespace without a name has none."""
    labels = {"gpu_id": str(one.gpu), "namespace": one.namespace, "pod": one.pod}
    return {name: value for name, value in labels.items() if value}
