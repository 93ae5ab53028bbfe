"""Wait for programs and objects to become ready, and report the log of a program that does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kaiwo_sandbox import process
from kaiwo_sandbox.api import ApiClient, SandboxApiError
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.process import Process

START_SECONDS = 120.0
"""Timeout of each step of a start. On an idle machine the longest step takes three seconds."""

_POLL_SECONDS = 0.1
_INOTIFY_LIMIT = "inotify: too many open files"
"""How programs written in Go report that the user has no inotify instance left."""

_INOTIFY_HINT = "stop other sandboxes, or raise the limit: sysctl -w fs.inotify.max_user_instances=1024"
_CONTROLLER_LOGS = "see logs/kwok.log and logs/kube-controller-manager.log in the sandbox's directory"


def wait_until(
    subject: str,
    ready: Callable[[], bool],
    *,
    directory: Path,
    program: Process,
    hint: str = "run kaiwo sandbox down, then kaiwo sandbox up; the machine may be overloaded",
) -> None:
    """Poll `ready` every 0.1 s until it is true, as long as `program` runs.

    Args:
        subject: what becomes ready, for error messages.
        ready: the condition.
        directory: the sandbox's directory.
        program: the process that makes it ready.
        hint: what to do after a failure.

    Raises:
        SandboxError: the process exited, or the timeout expired. It has the last lines of the log.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        if ready():
            return
        if not program.alive():
            raise _start_error(f"{program.name} exited before {subject} was ready", directory, program, hint)
        if time.monotonic() > deadline:
            raise _start_error(
                f"{subject} is not ready after {START_SECONDS:.0f} s", directory, program, hint
            )
        time.sleep(_POLL_SECONDS)


def _start_error(message: str, directory: Path, program: Process, hint: str) -> SandboxError:
    detail = process.log_tail(directory, program.name) or "its log is empty"
    return SandboxError(message, detail=detail, hint=_INOTIFY_HINT if _INOTIFY_LIMIT in detail else hint)


def api_is_ready(api: ApiClient) -> bool:
    """Whether /readyz of the API server answers with success."""
    try:
        api.get("/readyz")
    except (OSError, SandboxApiError):
        return False
    return True


def wait_for_crds(api: ApiClient, definitions: Collection[Object], *, directory: Path) -> None:
    """Wait until the API server of the sandbox in `directory` serves all these CRDs.

    Raises:
        SandboxError: the API server exited, or the timeout expired.
    """
    wait_until(
        "discovery of the CRDs",
        lambda: crds_are_served(api, definitions),
        directory=directory,
        program=process.recorded(directory)["kube-apiserver"],
    )


def crds_are_served(api: ApiClient, definitions: Collection[Object]) -> bool:
    """Whether discovery lists the resources of all these CRDs; large schemas take seconds."""
    groups: dict[str, set[str]] = {}
    for definition in definitions:
        spec = definition["spec"]
        for version in spec["versions"]:
            if version["served"]:
                path = f"/apis/{spec['group']}/{version['name']}"
                groups.setdefault(path, set()).add(spec["names"]["plural"])
    for path, plurals in groups.items():
        try:
            found = {resource["name"] for resource in api.get(path)["resources"]}
        except (OSError, SandboxApiError):
            return False
        if not plurals <= found:
            return False
    return True


def wait_for_nodes(api: ApiClient, names: Collection[str]) -> None:
    """Watch until all these nodes are Ready and have no not-ready taint.

    Raises:
        SandboxError: the timeout expired.
    """
    waiting = set(names)
    if not waiting:
        return
    for event in api.watch("/api/v1/nodes", timeout=START_SECONDS):
        if _is_usable(event["object"]):
            waiting.discard(event["object"]["metadata"]["name"])
        if not waiting:
            return
    raise SandboxError(
        f"nodes are not Ready after {START_SECONDS:.0f} s: {', '.join(sorted(waiting))}",
        hint=_CONTROLLER_LOGS,
    )


def _is_usable(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    taints = node.get("spec", {}).get("taints") or []
    return ready and not any(taint["key"].startswith("node.kubernetes.io/not-ready") for taint in taints)


def wait_for_service_account(api: ApiClient, namespace: str) -> None:
    """Watch until the namespace has its service account `default`; until then it accepts no pods.

    Raises:
        SandboxError: the timeout expired.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts?fieldSelector=metadata.name%3Ddefault"
    for event in api.watch(path, timeout=START_SECONDS):
        if event["type"] == "ADDED":
            return
    raise SandboxError(
        f'namespace "{namespace}" has no service account "default" after {START_SECONDS:.0f} s',
        hint=_CONTROLLER_LOGS,
    )
