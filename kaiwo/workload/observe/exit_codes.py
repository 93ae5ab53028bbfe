"""What the exit code of a container means, as far as its pod shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.workload.json_access import cut, last_line, lenient_map, lenient_maps, one_line

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

OOM_KILLED = "OOMKilled"
"""The kubelet's reason where a container used more memory than its limit."""

_END_UNKNOWN = "ContainerStatusUnknown"
"""The kubelet's reason where a container was gone before its end was seen; the code is then 137."""

NOT_STARTED = ("StartError", "ContainerCannotRun")
"""Reasons of containerd and Docker where no program ran; the code is then 128 or 127 and says nothing."""

_BEFORE_CAUSE = ("unable to start container process: ", "error during container init: ")
"""What runc and containerd write before the cause; it is the same for every cause."""

_MESSAGE_LENGTH = 300
"""Characters of a container's last line that are shown; the log has the rest."""

_SIGKILL = 137
_MEANINGS = {
    126: "the command is not executable",
    127: "the command was not found",
    132: "SIGILL: the program has instructions that this CPU does not know",
    134: "SIGABRT: the program aborted itself",
    135: "SIGBUS: often too little shared memory in /dev/shm",
    136: "SIGFPE: an arithmetic error",
    139: "SIGSEGV: the program accessed memory that it does not have",
    143: "SIGTERM: it was asked to end",
}
"""Codes that a shell or the kernel gives, from 128 on plus the number of a signal."""


def exit_text(ended: Object, container: object, pod: Object) -> str:
    """How a container ended, with the cause where the code or its pod shows it.

    Args:
        ended: its ``state.terminated``.
        container: its name.
        pod: its pod.
    """
    code = ended.get("exitCode")
    if ended.get("reason") == OOM_KILLED:
        limit = memory_limit(pod, container)
        of = f" of {limit}" if limit else ""
        return f"killed because it used more memory than its limit{of} (OOMKilled)"
    if ended.get("reason") == _END_UNKNOWN:
        return f"ended unseen, as its node or its container runtime failed; code {code} stands for unknown"
    if ended.get("reason") in NOT_STARTED:
        cause = _last_line(ended)
        return f"could not be started ({ended['reason']})" + (f": {cause}" if cause else "")
    text = f"exited with code {code}"
    if ended.get("signal"):
        text = f"{text} by signal {ended['signal']}"
    meaning = _killed(pod) if code == _SIGKILL else _MEANINGS.get(code) if isinstance(code, int) else ""
    return f"{text} ({meaning})" if meaning else text


def exit_message(ended: Object) -> str:
    """What a container said when it ended, on one line; of several lines, as of a log, the last.

    Empty for one that could not be started: :func:`exit_text` has what the container runtime says of that.

    Args:
        ended: its ``state.terminated``.
    """
    return "" if ended.get("reason") in NOT_STARTED else _last_line(ended)


def _last_line(ended: Object) -> str:
    text = one_line(last_line(ended.get("message")))
    if ended.get("reason") in NOT_STARTED:
        for sign in _BEFORE_CAUSE:
            text = text.rpartition(sign)[2]
        text = text.removesuffix(": unknown")
    return cut(text, _MESSAGE_LENGTH)


def _killed(pod: Object) -> str:
    """Who sent SIGKILL to a container that stayed below its memory limit."""
    metadata, status = lenient_map(pod.get("metadata")), lenient_map(pod.get("status"))
    if metadata.get("deletionTimestamp"):
        grace = metadata.get("deletionGracePeriodSeconds")
        within = f" within {grace} s" if isinstance(grace, int) else ""
        return f"SIGKILL: its pod was deleted and it did not end{within}"
    if status.get("reason"):
        return f"SIGKILL: the node ended its pod, {one_line(status['reason'])}"
    return "SIGKILL, not for its memory limit: the node was short of memory, or a process killed it"


def memory_limit(pod: Object, container: object) -> str:
    """The memory limit of a container as it is written, empty without one."""
    spec = lenient_map(pod.get("spec"))
    for part in ("containers", "initContainers"):
        for item in lenient_maps(spec.get(part)):
            if item.get("name") == container:
                limit = lenient_map(lenient_map(item.get("resources")).get("limits")).get("memory")
                return str(limit) if isinstance(limit, str | int) else ""
    return ""
