"""The load generator for webhooks: admission reviews at a steady rate, as an API server sends them.

It runs as a process of its own (``python -m bench.reviews``). Requests are sent when they are due, whether
earlier ones are answered or not, and the time of a request counts from the moment when it was due. The last
line of output is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

from bench.idle import percentiles
from bench.subject import kaiwo_job

_CONNECTIONS = 25
"""Idle connections that an API server keeps to one webhook."""


def review_of(number: int) -> bytes:
    """The review of the creation of an ordinary KaiwoJob."""
    obj = kaiwo_job(number, "reviewed")
    group, version = obj["apiVersion"].split("/")
    kind = {"group": group, "version": version, "kind": obj["kind"]}
    request = {
        "uid": f"{number:032x}",
        "kind": kind,
        "resource": {"group": group, "version": version, "resource": "kaiwojobs"},
        "name": obj["metadata"]["name"],
        "namespace": obj["metadata"]["namespace"],
        "operation": "CREATE",
        "userInfo": {"username": "jane@example.com", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    document = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(document).encode()


async def send(url: str, authorities: str, count: int, rate: float) -> dict[str, Any]:
    """Send `count` reviews at `rate` a second; how they went."""
    context = ssl.create_default_context(cafile=authorities)
    connector = aiohttp.TCPConnector(ssl=context, limit=_CONNECTIONS)
    seconds: list[float] = []
    answers: Counter[str] = Counter()
    async with aiohttp.ClientSession(connector=connector) as session:

        async def one(number: int, due: float) -> None:
            try:
                async with session.post(url, data=review_of(number)) as answer:
                    body = await answer.json()
                    allowed = answer.status == 200 and body["response"]["allowed"]
                    answers["allowed" if allowed else str(answer.status)] += 1
            except aiohttp.ClientError as error:
                answers[type(error).__name__] += 1
            seconds.append(time.perf_counter() - due)

        await asyncio.gather(*(one(number, time.perf_counter()) for number in range(_CONNECTIONS)))
        seconds.clear()
        answers.clear()
        began = time.perf_counter()
        tasks = []
        for number in range(count):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(one(number, due)))
        await asyncio.gather(*tasks)
        took = time.perf_counter() - began
    p50, p99 = percentiles(seconds)
    return {"rate": count / took, "p50": p50 * 1000, "p99": p99 * 1000, "answers": dict(answers)}


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--authorities", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    given = parser.parse_args()
    print(json.dumps(asyncio.run(send(given.url, str(given.authorities), given.count, given.rate))))


if __name__ == "__main__":
    main()
