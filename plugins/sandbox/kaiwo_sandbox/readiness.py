"""Waiting for programs and objects to become ready, and saying what went wrong when they do not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kaiwo_sandbox import process
from kaiwo_sandbox.api import Api, ApiError
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.process import Process

START_SECONDS = 120.0
"""How long any one step of a start may take; on a quiet machine the longest takes three."""

_POLL_SECONDS = 0.1


def wait_until(what: str, ready: Callable[[], bool], *, directory: Path, watched: Process) -> None:
    """Return when `ready` does, asking every 0.1 s while `watched` lives.

    Raises:
        SandboxError: the process ended, or the time is up; with the last lines of its log.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        if ready():
            return
        if not watched.alive():
            raise _failure(f"{watched.name} ended before {what}.", directory, watched)
        if time.monotonic() > deadline:
            raise _failure(f"{what}: not so after {START_SECONDS:.0f} s.", directory, watched)
        time.sleep(_POLL_SECONDS)


def _failure(what: str, directory: Path, watched: Process) -> SandboxError:
    return SandboxError(
        what,
        why=process.log_tail(directory, watched.name) or "It printed nothing.",
        next_step="Run 'kaiwo sandbox down' and 'kaiwo sandbox up' again; the machine may be overloaded.",
    )


def api_is_ready(api: Api) -> bool:
    """Whether the API server's /readyz says so."""
    try:
        api.get("/readyz")
    except (OSError, ApiError):
        return False
    return True


def served(api: Api, definitions: Collection[Object]) -> bool:
    """Whether discovery lists the kinds that all these CRDs define; big schemas take seconds."""
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
        except (OSError, ApiError):
            return False
        if not plurals <= found:
            return False
    return True


def wait_for_nodes(api: Api, names: Collection[str]) -> None:
    """Watch until all these nodes are Ready and pods without tolerations may run on them.

    Raises:
        SandboxError: the time is up.
    """
    waiting = set(names)
    if not waiting:
        return
    for event in api.watch("/api/v1/nodes", timeout=START_SECONDS):
        if _usable(event["object"]):
            waiting.discard(event["object"]["metadata"]["name"])
        if not waiting:
            return
    raise SandboxError(
        f"Nodes not Ready after {START_SECONDS:.0f} s: {', '.join(sorted(waiting))}.",
        why="kwok has not set their conditions, or the controller-manager has not removed their taints.",
        next_step="Look at logs/kwok.log and logs/kube-controller-manager.log in the sandbox's directory.",
    )


def _usable(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    taints = node.get("spec", {}).get("taints") or []
    return ready and not any(taint["key"].startswith("node.kubernetes.io/not-ready") for taint in taints)


def wait_for_service_account(api: Api, namespace: str) -> None:
    """Watch until the namespace's service account `default` exists; pods are refused before.

    Raises:
        SandboxError: the time is up.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts?fieldSelector=metadata.name%3Ddefault"
    for event in api.watch(path, timeout=START_SECONDS):
        if event["type"] == "ADDED":
            return
    raise SandboxError(
        f"Namespace {namespace} has no service account 'default' after {START_SECONDS:.0f} s.",
        why="The controller-manager makes it, and does not keep up.",
        next_step="Look at logs/kube-controller-manager.log in the sandbox's directory.",
    )
