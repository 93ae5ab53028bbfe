"""What Ray writes about a job or an application that failed, without the log and the stack around the cause.

Ray passes on the end of a log, up to 20000 characters, or the whole traceback of a replica. The cause is at
the end, which is cut off in the message of a status.
"""

from __future__ import annotations

import re

from kaiwo.workload.json_access import cut, lenient_text, one_line

_LOG_FOLLOWS = re.compile(r", last available logs \(truncated to [\d,]+ chars\):$")
"""How the first line ends where lines of the job's log follow (Ray's job supervisor)."""

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PROCESS = re.compile(r"^\([^()]{0,100}\bpid=\d+[^()]{0,100}\) ?")
"""Colours, and the process that Ray writes before a line of a worker's log."""

_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt|Exit|Failure)(?:: |:?$)")
"""The line of a traceback that names the exception, for most of them."""

_STACK = ("Traceback (most recent call last)", "ray::", " ", "\t")
_CAUSE_LENGTH = 500
"""Characters of a cause that are shown; the log has the rest."""


def failure_text(message: object) -> str:
    """A message of Ray on one line: its first sentence, and of a log or a traceback only the exception.

    Args:
        message: a RayJob's ``status.message``, or the message of an application or a deployment of Ray Serve.
    """
    text = _ESCAPES.sub("", lenient_text(message))
    lines = [_PROCESS.sub("", line) for line in text.splitlines() if line.strip()]
    if not lines[1:]:
        return one_line(text)
    head, logs = _LOG_FOLLOWS.subn("", lines[0])
    at = next((at for at in range(len(lines) - 1, 0, -1) if _EXCEPTION.match(lines[at])), 0)
    if not at and not logs:
        return one_line(text)
    cause = cut(one_line(" ".join(lines[at or -1 :])), _CAUSE_LENGTH)
    return cause if lines[0].startswith(_STACK) else f"{one_line(head).rstrip(':.')}: {cause}"
