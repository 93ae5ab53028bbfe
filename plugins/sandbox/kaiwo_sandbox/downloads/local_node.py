"""Runs the download pods of a namespace on this machine and reports their status as a kubelet does."""

from __future__ import annotations

import contextlib
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.downloads import CONTAINER
from kaiwo.plugin.kit.names import DOWNLOADER, TYPE
from kaiwo.plugin.kit.values import format_time
from kaiwo_sandbox.api import ApiClient, Object, SandboxApiError
from kaiwo_sandbox.downloads.local_pod import ContainerExit, LocalDownload, MountError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    RunPod: TypeAlias = Callable[[Object, Path], ContainerExit | None]

_CANNOT_RUN = 127
"""The exit code that a shell reports for an unknown command."""

_WATCH_SECONDS = 1.0
"""Length of a watch, and so the time that the end of a node may take."""

_PAUSE_SECONDS = 0.5


class LocalNode:
    """Runs every scheduled download pod of a namespace in a thread, one after the other.

    Args:
        api: a client of the API server.
        namespace: the namespace.
        directory: where each pod gets a directory of its own.
    """

    def __init__(self, api: ApiClient, namespace: str, directory: Path) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector={TYPE}%3D{DOWNLOADER}"
        self._directory = directory
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="local-node", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the pod that runs now, and return then."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        finished: set[str] = set()
        while not self._stopped.is_set():
            with contextlib.suppress(OSError, SandboxApiError):
                for event in self._api.watch(self._pods, timeout=_WATCH_SECONDS):
                    pod = event["object"]
                    uid = pod["metadata"]["uid"]
                    if self._stopped.is_set():
                        return
                    if event["type"] != "DELETED" and uid not in finished and pod["spec"].get("nodeName"):
                        finished.add(uid)
                        run_pod(self._api, pod, self._directory / uid)
            self._stopped.wait(_PAUSE_SECONDS)


def run_pod(api: ApiClient, pod: Object, root: Path) -> ContainerExit | None:
    """Run one download pod and report its status.

    A program that cannot be run exits with 127. If a volume cannot be mounted, nothing is reported and the
    result is None.

    Args:
        api: a client of the API server.
        pod: the live pod.
        root: an empty or missing directory, which becomes `/` of the container.
    """

    def read(kind: str, name: str) -> Object | None:
        try:
            found: Object = api.get(f"/api/v1/namespaces/{namespace}/{kind.lower()}s/{name}")
        except SandboxApiError:
            return None
        return found

    namespace = pod["metadata"]["namespace"]
    local = LocalDownload(pod["spec"], root, read)
    try:
        local.mount()
    except MountError:
        return None
    started = _now()
    _report(api, pod, "Running", {"running": {"startedAt": started}})
    try:
        ended = local.run()
    except OSError as error:
        ended = ContainerExit(_CANNOT_RUN, "", "", str(error))
    state = {
        "exitCode": ended.code,
        "reason": "Error" if ended.code else "Completed",
        "message": ended.message,
        "startedAt": started,
        "finishedAt": _now(),
    }
    _report(api, pod, "Failed" if ended.code else "Succeeded", {"terminated": state})
    return ended


def _now() -> str:
    return format_time(datetime.now(UTC))


def _report(api: ApiClient, pod: Object, phase: str, state: Object) -> None:
    container = {
        "name": CONTAINER,
        "image": pod["spec"]["containers"][0]["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
    metadata = pod["metadata"]
    api.request(
        "PATCH",
        f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status",
        {"status": {"phase": phase, "containerStatuses": [container]}},
        content_type="application/merge-patch+json",
    )
