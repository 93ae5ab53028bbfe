"""Streams from and to containers: logs as bytes, commands, connections to ports."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from kaiwo.engine.channels import ChannelSocket
from kaiwo.engine.exec_session import PROTOCOLS as EXEC_PROTOCOLS
from kaiwo.engine.exec_session import ExecSession
from kaiwo.engine.port_forward_session import PROTOCOLS as PORT_PROTOCOLS
from kaiwo.engine.port_forward_session import PortForwardSession
from kaiwo.engine.reader import object_path
from kaiwo.engine.resource import POD

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from kaiwo.engine.reader import Reader

LOG_STALL = 300.0
"""Seconds of silence after which a log is asked for again: a connection may be dead, or nothing is said."""


def log_chunks(
    api: Reader,
    namespace: str,
    pod: str,
    *,
    container: str,
    follow: bool = False,
    previous: bool = False,
    timestamps: bool = False,
    since_seconds: int | None = None,
    since_time: str = "",
    tail: int | None = None,
    stall: float = LOG_STALL,
) -> AsyncGenerator[bytes, None]:
    """A container's log as it comes in, cut anywhere.

    Args:
        api: the client.
        namespace: of the pod.
        pod: its name.
        container: its name.
        follow: go on until the container ends.
        previous: the log of the container before its last restart.
        timestamps: each line begins with its time (RFC 3339 with nanoseconds) and a space.
        since_seconds: only lines that are no older.
        since_time: only lines from this time on (RFC 3339); kubelets know whole seconds only.
        tail: only the last lines.
        stall: seconds of silence after which ConnectionBroken is raised.

    Raises:
        ApiError: no such pod, container or log; the container has not started (Invalid).
        ConnectionBroken: cut off before the end, or silent for too long.
    """
    query = {"container": container}
    query |= {
        name: "true"
        for name, wanted in (("follow", follow), ("previous", previous), ("timestamps", timestamps))
        if wanted
    }
    if since_seconds is not None:
        query["sinceSeconds"] = str(since_seconds)
    if since_time:
        query["sinceTime"] = since_time
    if tail is not None:
        query["tailLines"] = str(tail)
    path = object_path(POD, namespace, pod, "log") + "?" + urlencode(query)
    return api.chunks("log", "pods/log", path, stall)


async def open_exec(
    api: Reader,
    namespace: str,
    pod: str,
    command: Sequence[str],
    *,
    container: str,
    stdin: bool = False,
    tty: bool = False,
) -> ExecSession:
    """Start a command in a container.

    Args:
        api: the client.
        namespace: of the pod.
        pod: its name.
        command: program and arguments; no shell reads them.
        container: its name.
        stdin: whether the command gets input.
        tty: with a terminal; then all output comes as standard output.

    Raises:
        ApiError: rejected, or no such pod or container.
        ConnectionBroken: no answer.
    """
    query = [("container", container), ("stdout", "true")]
    query += [("stdin", "true")] if stdin else []
    # A terminal has one output; asking for both is an error.
    query += [("tty", "true")] if tty else [("stderr", "true")]
    query += [("command", word) for word in command]
    path = object_path(POD, namespace, pod, "exec") + "?" + urlencode(query)
    socket = await api.websocket("pods/exec", path, EXEC_PROTOCOLS)
    return ExecSession(ChannelSocket(socket, f"exec in pod {pod}"))


async def open_port(api: Reader, namespace: str, pod: str, port: int) -> PortForwardSession:
    """Connect to a port of a pod.

    Whether something listens there shows when it is read from.

    Raises:
        ApiError: rejected, no such pod, or it does not run.
        ConnectionBroken: no answer.
    """
    path = object_path(POD, namespace, pod, "portforward") + "?" + urlencode({"ports": str(port)})
    socket = await api.websocket("pods/portforward", path, PORT_PROTOCOLS)
    return PortForwardSession(ChannelSocket(socket, f"port {port} of pod {pod}"))
