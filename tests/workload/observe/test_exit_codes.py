"""An exit code is explained where it, or the pod, says more than a number."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo.workload.observe.exit_codes import exit_text

POD = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "2Gi"}}}]}}

OCI = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create "
    "failed: unable to start container process: error during container init: "
)
NOT_FOUND = "executable file not found in $PATH"
UNLIMITED = (
    "exited with code 137 (SIGKILL, not for its memory limit: the node was short of memory, "
    "or a process killed it)"
)


@pytest.mark.parametrize(
    ("ended", "pod", "said"),
    [
        (
            {"exitCode": 137, "reason": "OOMKilled"},
            POD,
            "killed because it used more memory than its limit of 2Gi (OOMKilled)",
        ),
        (
            {"exitCode": 137, "reason": "OOMKilled"},
            {},
            "killed because it used more memory than its limit (OOMKilled)",
        ),
        (
            {"exitCode": 137, "reason": "Error"},
            POD,
            UNLIMITED,
        ),
        (
            {"exitCode": 137},
            {"metadata": {"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30}},
            "exited with code 137 (SIGKILL: its pod was deleted and it did not end within 30 s)",
        ),
        (
            {"exitCode": 137},
            {"status": {"reason": "Evicted"}},
            "exited with code 137 (SIGKILL: the node ended its pod, Evicted)",
        ),
        (
            {"exitCode": 137, "reason": "ContainerStatusUnknown"},
            POD,
            "ended unseen, as its node or its container runtime failed; code 137 stands for unknown",
        ),
        (
            {"exitCode": 128, "reason": "StartError", "message": f'{OCI}exec: "pyton": {NOT_FOUND}: unknown'},
            POD,
            f'could not be started (StartError): exec: "pyton": {NOT_FOUND}',
        ),
        (
            {"exitCode": 128, "reason": "ContainerCannotRun"},
            POD,
            "could not be started (ContainerCannotRun)",
        ),
        ({"exitCode": 127}, {}, "exited with code 127 (the command was not found)"),
        ({"exitCode": 1}, {}, "exited with code 1"),
        ({"exitCode": 1, "signal": 9}, {}, "exited with code 1 by signal 9"),
        ({"exitCode": []}, {"spec": {"containers": 3}}, "exited with code []"),
    ],
)
def test_the_cause_behind_a_code_is_named(ended: dict[str, Any], pod: dict[str, Any], said: str) -> None:
    """Out of its own memory limit, out of the node's, deleted, or a code that shells give."""
    assert exit_text(ended, "c", pod) == said
