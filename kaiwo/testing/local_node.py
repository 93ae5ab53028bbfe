"""``python -m kaiwo.testing.local_node``: runs download pods that fake nodes only pretend to run.

It watches one namespace for pods of download Jobs that wait on a node, runs each as `LocalDownload` does, and
reports what a kubelet would: running, and how it ended. It ends with SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load
from kaiwo.engine.errors import EngineError
from kaiwo.engine.resource import CONFIG_MAP, POD, SECRET
from kaiwo.engine.timestamps import format_time
from kaiwo.testing.local_download import Ended, LocalDownload, MountError
from kaiwo.workload.download.job import CONTAINER, DOWNLOADER
from kaiwo.workload.metadata import TYPE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.engine.resource import Object

_SELECTOR = f"{TYPE}={DOWNLOADER}"
_CANNOT_RUN = 127  # as a shell says that there is no such command
_PAUSE = 1.0  # seconds before pods are listed again when a watch has ended


async def serve(client: Client, namespace: str, directory: Path) -> None:
    """Run every download pod of a namespace, one after the other, until cancelled.

    Args:
        client: of a user who may read Secrets and write the status of pods there.
        namespace: the namespace.
        directory: where each pod gets a directory of its own.
    """
    done: set[str] = set()
    while True:
        with contextlib.suppress(EngineError):
            async for pod in _seen(client, namespace):
                uid = pod["metadata"]["uid"]
                if uid not in done and pod["spec"].get("nodeName"):
                    done.add(uid)
                    await run_pod(client, pod, directory / uid)
        await asyncio.sleep(_PAUSE)


async def _seen(client: Client, namespace: str) -> AsyncIterator[Object]:
    """Download pods as they are and as they change."""
    version = "0"
    async for page in client.pages(POD, namespace, label_selector=_SELECTOR):
        version = page.resource_version
        for raw in page.items:
            yield msgspec.json.decode(raw)
    async for kind, raw in client.watch(POD, namespace, resource_version=version, label_selector=_SELECTOR):
        if kind in {"ADDED", "MODIFIED"}:
            yield msgspec.json.decode(raw)


async def run_pod(client: Client, pod: Object, root: Path) -> Ended | None:
    """Run one download pod and report it; None when a volume cannot be mounted, which keeps it waiting.

    A program that cannot be run ends with 127.

    Args:
        client: see :func:`serve`.
        pod: the live pod.
        root: an empty directory, or none yet.
    """
    namespace = pod["metadata"]["namespace"]
    objects: dict[tuple[str, str], Object] = {}
    for resource in (CONFIG_MAP, SECRET):
        async for obj in client.list(resource, namespace):
            objects[resource.kind, obj["metadata"]["name"]] = obj
    local = LocalDownload(pod["spec"], root, lambda kind, name: objects.get((kind, name)))
    try:
        local.mount()
    except MountError:
        return None
    began = _now()
    await _report(client, pod, "Running", {"running": {"startedAt": began}})
    try:
        ended = await asyncio.to_thread(local.run)
    except OSError as error:
        ended = Ended(_CANNOT_RUN, "", "", str(error))
    state = {
        "exitCode": ended.code,
        "reason": "Error" if ended.code else "Completed",
        "message": ended.message,
        "startedAt": began,
        "finishedAt": _now(),
    }
    await _report(client, pod, "Failed" if ended.code else "Succeeded", {"terminated": state})
    return ended


def _now() -> str:
    return format_time(datetime.now(UTC))


async def _report(client: Client, pod: Object, phase: str, state: Object) -> None:
    container = {
        "name": CONTAINER,
        "image": pod["spec"]["containers"][0]["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
    metadata = pod["metadata"]
    body = {"status": {"phase": phase, "containerStatuses": [container]}}
    await client.merge_patch(POD, metadata["namespace"], metadata["name"], body, subresource="status")


async def _main(arguments: argparse.Namespace) -> None:
    async with Client(load(arguments.kubeconfig)) as client:
        task = asyncio.ensure_future(serve(client, arguments.namespace, arguments.directory))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m kaiwo.testing.local_node", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="the cluster")
    parser.add_argument("--namespace", default="default", help="whose download pods are run")
    parser.add_argument("--directory", type=Path, required=True, help="where the pods' files go")
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
