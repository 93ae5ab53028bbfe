"""Local ports that lead to a pod of a workload; the next pod takes over when one is gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from kaiwo.client import pods as pod_facts
from kaiwo.client.errors import ClientError, InvalidArgument
from kaiwo.client.kinds import KAIWO_SERVICE
from kaiwo.client.pod_watch import PodWatch
from kaiwo.client.record import Record
from kaiwo.engine.errors import ApiError, ConnectionBroken, EngineError, Forbidden, StreamFailed
from kaiwo.engine.streaming import open_port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.port_forward_session import PortForwardSession
    from kaiwo.engine.resource import Object

LOOPBACK = ("127.0.0.1", "::1")
"""Where ports are opened unless told otherwise: nobody but this machine's users can reach them."""

_PIECE = 32 << 10
_LAST_PORT = 65535

_POD_SECONDS = 30.0
"""How long a connection waits for a pod."""

_TRIES = 3
"""Pods that a connection tries."""

_QUIET_SECONDS = 10.0
"""Silence after which a connection ends whose local side has said that it sends no more: the protocol cannot
pass that on, and a program that is gone looks the same."""


class PortInUse(ClientError):
    """A local port cannot be opened."""


class ForwardedPort(Record, frozen=True):
    """A local port and where it leads.

    Attributes:
        address: local address, for example ``127.0.0.1``.
        local: local port.
        remote: port in the pod.
    """

    address: str
    local: int
    remote: int


def parse_ports(text: str) -> tuple[int, int]:
    """The local and the remote port that ``8080``, ``8080:80`` or ``:80`` mean; 0 for any free local port.

    Raises:
        InvalidArgument: it is none of these.
    """
    local, colon, remote = text.partition(":")
    words = (local or "0", remote) if colon else (local, local)
    if all(word.isascii() and word.isdigit() for word in words):
        ports = (int(words[0]), int(words[1]))
        if max(ports) <= _LAST_PORT and ports[1]:
            return ports
    raise InvalidArgument(
        f'expected a port such as 8080, 8080:80 or :80, got "{text}"', "ports are numbers from 1 to 65535"
    )


class PortForward:
    """Ports that are forwarded while the block runs; an asynchronous context manager.

    Attributes:
        ports: what is open.
    """

    def __init__(
        self,
        api: Client,
        workload: Object,
        ports: Sequence[tuple[int, int]],
        *,
        addresses: Sequence[str] = LOOPBACK,
        pod: str | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            api: the client.
            workload: as the API server returned it.
            ports: pairs of local and remote port; 0 for any free local one.
            addresses: local addresses to listen on.
            pod: name of the only pod to connect to.
            notify: called with a sentence when a connection fails or another pod takes over.
        """
        self.ports: list[ForwardedPort] = []
        self._api = api
        self._workload = workload
        self._wanted = ports
        self._addresses = addresses
        self._only = pod
        self._notify = notify or (lambda _: None)
        self._watch = PodWatch(api, workload, notify=notify)
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._current = ""
        self._failed: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Find a pod and open the ports.

        Raises:
            NoPods: the workload has ended.
            PortInUse: a port cannot be opened.
        """
        self._failed = asyncio.get_running_loop().create_future()
        await self._watch.__aenter__()
        try:
            self._check()
            for local, remote in self._wanted:
                await self._listen(local, remote)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    def _check(self) -> None:
        if self._watch.has_ended:
            raise pod_facts.why_no_pods(self._watch.workload)

    async def __aexit__(self, *exc: object) -> None:
        """Close the ports and all connections."""
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        if self._failed is not None:
            self._failed.cancel()
        await self._watch.__aexit__()

    async def wait(self) -> None:
        """Wait until the workload has ended or what was asked for is forbidden.

        While no pod can be connected to, each new reason for it is notified.

        Raises:
            ApiError: the user lacks a right.
        """
        ended = asyncio.ensure_future(self._ended())
        try:
            await asyncio.wait({ended, *filter(None, (self._failed,))}, return_when=asyncio.FIRST_COMPLETED)
            if self._failed is not None and self._failed.done():
                self._failed.result()
            await ended
        finally:
            ended.cancel()
            await asyncio.wait({ended})

    async def _ended(self) -> None:
        waits_for = ""
        while not self._watch.has_ended:
            seen = self._watch.changes
            good = self._good_pods(set())
            why = "" if good else self._why_none().message
            if why and why != waits_for:
                self._notify(f"connections wait for a pod: {why}")
            elif waits_for and good:
                self._notify(f"pod {pod_facts.pod_name(good[0])} takes connections now")
            waits_for = why
            await self._watch.changed(seen)

    async def _listen(self, local: int, remote: int) -> None:
        """Open one port on all addresses; one that this machine does not have is left out if others work."""
        opened: list[str] = []
        failure: OSError | None = None
        for address in self._addresses:
            try:
                server = await asyncio.start_server(
                    lambda reader, writer: self._accept(reader, writer, remote), address, local
                )
            except OSError as error:
                failure = failure or error
                continue
            self._servers.append(server)
            host, local = server.sockets[0].getsockname()[:2]
            opened.append(host)
            self.ports.append(ForwardedPort(address=host, local=local, remote=remote))
        # 127.0.0.1 in use and ::1 free would lead a browser to another program.
        if failure is not None and (not opened or self._addresses[0] not in opened):
            raise PortInUse(
                f"port {local} cannot be opened on {self._addresses[0]}: {failure.strerror or failure}",
                f"choose another one, for example {local + 1}:{remote}, or any free one with :{remote}",
            )

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, remote: int) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        complete = False
        try:
            session = await self._connect(remote)
            if session is not None:
                try:
                    await pipe(reader, writer, session)
                    complete = True
                finally:
                    await session.close()
        except asyncio.CancelledError:
            pass  # the ports are closed; asyncio would report a handler that was cancelled
        except StreamFailed as error:
            self._notify(f"port {remote}: {_last_part(str(error))}")
        except EngineError as error:
            self._notify(f"port {remote}: {error}")
            if isinstance(error, Forbidden) and self._failed is not None and not self._failed.done():
                self._failed.set_exception(error)
        finally:
            # A connection that broke must not look as if the pod had sent all.
            if complete:
                writer.close()
            else:
                writer.transport.abort()

    async def _connect(self, remote: int) -> PortForwardSession | None:
        """A connection to the port of a pod; None when no pod takes one."""
        bad: set[str] = set()
        for _ in range(_TRIES):
            pod = await self._pod(bad)
            if pod is None:
                self._notify(f"port {remote}: {self._why_none().message}")
                return None
            try:
                return await open_port(
                    self._api, pod["metadata"]["namespace"], pod_facts.pod_name(pod), remote
                )
            except Forbidden:
                raise
            except (ApiError, ConnectionBroken) as error:
                bad.add(pod["metadata"]["uid"])
                self._notify(f"port {remote}: pod {pod_facts.pod_name(pod)}: {error}")
        return None

    async def _pod(self, bad: set[str]) -> Object | None:
        """The pod to connect to: the same as last time while it is good; waits for one."""
        deadline = asyncio.get_running_loop().time() + _POD_SECONDS
        while True:
            seen = self._watch.changes
            good = self._good_pods(bad)
            if good:
                uids = {pod["metadata"]["uid"]: pod for pod in good}
                chosen = uids.get(self._current, good[0])
                if self._current and chosen["metadata"]["uid"] != self._current:
                    self._notify(f"now connected to pod {pod_facts.pod_name(chosen)}")
                self._current = chosen["metadata"]["uid"]
                return chosen
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or self._watch.has_ended:
                return None
            await self._watch.changed(seen, left)

    def _good_pods(self, bad: set[str]) -> list[Object]:
        return [pod for pod in self._watch.in_order() if self._is_good(pod, bad)]

    def _is_good(self, pod: Object, bad: set[str]) -> bool:
        if pod["metadata"]["uid"] in bad or self._only not in (None, pod_facts.pod_name(pod)):
            return False
        if self._workload["kind"] == KAIWO_SERVICE.kind:
            return pod_facts.is_ready(pod)
        return pod_facts.is_running(pod)

    def _why_none(self) -> pod_facts.NoPods:
        """Why there is no pod to connect to."""
        pods = self._watch.in_order()
        if not pods:
            return pod_facts.why_no_pods(self._watch.workload)
        name = pod_facts.pod_name(pods[-1])
        waiting = pod_facts.container_state(pods[-1], pod_facts.main_container(pods[-1])).waiting
        return pod_facts.NoPods(f"no pod is ready; {name}: {waiting or 'not ready'}")


async def pipe(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    session: PortForwardSession,
    *,
    quiet_seconds: float = _QUIET_SECONDS,
) -> None:
    """Pass bytes both ways until one side ends; as slow as the slower one.

    Args:
        reader: from the local program.
        writer: to the local program.
        session: with the pod.
        quiet_seconds: silence of the pod to wait for after the local program has sent its last.

    Raises:
        StreamFailed: the pod's side says so.
        ConnectionBroken: the connection broke.
    """
    clock = asyncio.get_running_loop().time
    last = clock()

    async def receive() -> None:
        nonlocal last
        with suppress(OSError):  # the local program is gone
            while (data := await session.read()) is not None:
                last = clock()
                writer.write(data)
                await writer.drain()

    async def send() -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                await session.write(data)

    receiving, sending = asyncio.ensure_future(receive()), asyncio.ensure_future(send())
    try:
        await asyncio.wait({receiving, sending}, return_when=asyncio.FIRST_COMPLETED)
        while not receiving.done() and (left := last + quiet_seconds - clock()) > 0:
            await asyncio.wait({receiving}, timeout=left)
        if receiving.done():
            receiving.result()
    finally:
        receiving.cancel()
        sending.cancel()
        await asyncio.wait({receiving, sending})
        if not sending.cancelled():
            sending.exception()  # whoever receives learns it, too


def _last_part(text: str) -> str:
    """The end of a kubelet's chain of causes, which says what happened."""
    return text.rpartition(": ")[2] or text
