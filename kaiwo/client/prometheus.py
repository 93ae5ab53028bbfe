"""Reading the past use of GPUs from a Prometheus server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from kaiwo.client.errors import ClientError, InvalidArgument
from kaiwo.engine.proxy import environment_proxy, without_user
from kaiwo.workload.monitoring.samples import owner_labels, owner_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kaiwo.plugin.vendors import Utilization

_TIMEOUT = 60.0
_DAY = 86400
_LONGEST_ANSWER = 64 << 20
_SHOWN = 200
_OK = 200
PodUse = dict[tuple[str, str], float]
"""GPU-hours by namespace and name of the pod."""


class PrometheusError(ClientError):
    """A Prometheus server does not answer, or its answer cannot be used."""


def check_url(url: str) -> str:
    """The URL without a slash at its end.

    Raises:
        InvalidArgument: it is no URL of a web server.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgument(
            f'prometheus: expected a URL such as http://localhost:9090, got "{without_password(url)}"',
            "kubectl get services -A shows where Prometheus is; kubectl port-forward reaches it",
        )
    return url.rstrip("/")


def without_password(url: str) -> str:
    """A URL for messages, without user and password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def step_of(seconds: float) -> int:
    """Seconds between two samples: a minute for a day, more for longer windows, an hour at most."""
    return min(3600, max(60, int(seconds / _DAY) * 60))


def use_query(utilization: Utilization, seconds: int, step: int) -> str:
    """The query for GPU-hours used by pod: the mean of each GPU, a percentage, times the time it is there."""
    samples = f"sum_over_time({utilization.metric}[{seconds}s:{step}s])"
    return f"sum by ({', '.join(owner_labels(utilization))}) ({samples}) * {step} / 360000"


def read_answer(answer: object, utilization: Utilization) -> PodUse:
    """GPU-hours by pod from an answer of Prometheus' API; a sample that is no number counts nothing.

    Raises:
        PrometheusError: it is an error, or no vector.
    """
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or answer.get("status") != "success" or not isinstance(data, dict):
        text = str(answer.get("error") if isinstance(answer, dict) else answer)[:_SHOWN]
        raise PrometheusError(f"query rejected by Prometheus: {text}", "check the URL of --prometheus")
    found: PodUse = {}
    result = data.get("result")
    for item in result if isinstance(result, list) else ():
        labels: dict[str, str] = item.get("metric") or {}
        value: list[Any] = item.get("value") or []
        key = owner_of(utilization, labels)
        if not all(key):
            continue  # a GPU that no pod holds
        try:
            hours = float(value[1])
        except (IndexError, TypeError, ValueError):
            continue
        if 0 <= hours < float("inf"):
            found[key] = found.get(key, 0.0) + hours
    return found


async def pod_use(url: str, utilizations: Iterable[Utilization], start: datetime, end: datetime) -> PodUse:
    """GPU-hours that pods used in a window, of all vendors together.

    Args:
        url: of the Prometheus server; it may have a user and a password.
        utilizations: the vendors' metrics.
        start: of the window.
        end: of the window.

    Raises:
        PrometheusError: it does not answer, or not with a vector.
        InvalidArgument: the URL cannot be used.
    """
    seconds = max(1, int((end - start).total_seconds()))
    step = step_of(seconds)
    base = check_url(url)
    total: PodUse = {}
    for utilization in utilizations:
        query = use_query(utilization, seconds, step)
        answer = await _get(base, {"query": query, "time": str(end.timestamp())})
        for key, hours in read_answer(answer, utilization).items():
            total[key] = total.get(key, 0.0) + hours
    return total


async def _get(base: str, query: dict[str, str]) -> Any:
    import aiohttp

    shown, hint = (
        without_password(base),
        "check the URL; kubectl port-forward reaches a server in the cluster",
    )
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{base}/api/v1/query", params=query, proxy=environment_proxy(base)) as response,
        ):
            body = await response.content.read(_LONGEST_ANSWER)
            while not response.content.at_eof() and len(body) < _LONGEST_ANSWER:
                body += await response.content.read(_LONGEST_ANSWER - len(body))
            status = response.status
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        reason = without_user(str(error)) or type(error).__name__
        raise PrometheusError(f"no answer from Prometheus at {shown}: {reason}", hint) from None
    try:
        return json.loads(body)
    except ValueError:
        what = f"HTTP {status}" if status != _OK else "no JSON"
        raise PrometheusError(f"Prometheus at {shown} answers with {what}", hint) from None
