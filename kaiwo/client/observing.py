"""The methods of the Python client that read a cluster: logs, exec, ports, why, queues, nodes, report."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from kaiwo.client.connected import ConnectedClient
from kaiwo.client.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from datetime import timedelta

    from kaiwo.client.exec import CommandResult
    from kaiwo.client.log_follower import LogOptions
    from kaiwo.client.logs import LogLine
    from kaiwo.client.node_records import NodeList
    from kaiwo.client.port_forward import ForwardedPort
    from kaiwo.client.queue_records import QueueDetails, QueueList
    from kaiwo.client.report import GpuReport, GroupBy
    from kaiwo.client.why import Verdict


class ObservingClient(ConnectedClient):
    """The part of `AsyncClient` that changes nothing in the cluster."""

    async def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since_seconds: int | None = None,
        container: str | None = None,
        all_containers: bool = False,
        previous: bool = False,
        download: bool = False,
        notify: Callable[[str], None] | None = None,
        namespace: str | None = None,
    ) -> AsyncGenerator[LogLine, None]:
        """The lines that a workload's containers wrote, of all its pods.

        Args:
            name: ``train``, ``job/train`` or ``service/chat``.
            follow: go on with new lines until the workload has ended.
            tail: only the last lines of each container.
            since_seconds: only lines that are no older.
            container: its name; None for the main one of each pod.
            all_containers: those of all containers.
            previous: of the containers before their last restart.
            download: of the download instead.
            notify: called with a sentence when something is waited for or missing.
            namespace: None for the client's.

        Raises:
            WorkloadNotFound: there is none of that name.
            ClientError: no pod, no such container, or no log yet.
            ApiError: logs or pods may not be read.
        """
        from kaiwo.client.log_follower import LogOptions
        from kaiwo.client.logs import each_line

        options = LogOptions(since_seconds, tail, container, all_containers, previous, download)
        batches = self.log_batches(name, options, follow=follow, notify=notify, namespace=namespace)
        async with aclosing(each_line(batches)) as lines:
            async for line in lines:
                yield line

    async def log_batches(
        self,
        name: str,
        options: LogOptions,
        *,
        follow: bool = False,
        notify: Callable[[str], None] | None = None,
        namespace: str | None = None,
    ) -> AsyncGenerator[list[LogLine], None]:
        """As `logs`, in lists as the lines come in: much faster for many lines."""
        from kaiwo.client.logs import log_batches

        workload = await self._find(name, namespace)
        async with aclosing(log_batches(self.api, workload, options, notify, follow=follow)) as batches:
            async for batch in batches:
                yield batch

    async def exec(
        self,
        name: str,
        *command: str,
        pod: str | None = None,
        container: str | None = None,
        stdin: bytes | None = None,
        namespace: str | None = None,
    ) -> CommandResult:
        """Run a command in a pod of a workload, and return what it wrote.

        Args:
            name: ``train``, ``job/train`` or ``service/chat``.
            command: program and arguments.
            pod: its name; None for the first that is ready.
            container: its name; None for the main one.
            stdin: input of the command; None for none.
            namespace: None for the client's.

        Raises:
            WorkloadNotFound: there is none of that name.
            ClientError: no pod runs, or it has no such container.
            ApiError: rejected, or the program is not there.
        """
        from kaiwo.client import exec as client_exec

        workload = await self._find(name, namespace)
        return await client_exec.run(self.api, workload, command, pod=pod, container=container, stdin=stdin)

    @asynccontextmanager
    async def port_forward(
        self, name: str, *ports: int | str, pod: str | None = None, namespace: str | None = None
    ) -> AsyncIterator[tuple[ForwardedPort, ...]]:
        """Local ports that lead to a pod of a workload while the block runs.

        Args:
            name: ``train``, ``job/train`` or ``service/chat``.
            ports: ``8080``, ``"8080:80"``, or ``":80"`` for any free local port.
            pod: name of the only pod to connect to.
            namespace: None for the client's.

        Raises:
            WorkloadNotFound: there is none of that name.
            InvalidArgument: no port, or one that cannot be read.
            ClientError: the workload has ended, or a port cannot be opened.
        """
        from kaiwo.client.port_forward import PortForward, parse_ports

        pairs = [parse_ports(str(port)) for port in ports]
        if not pairs:
            raise InvalidArgument("no port", 'give for example "8080:80"')
        workload = await self._find(name, namespace)
        async with PortForward(self.api, workload, pairs, pod=pod) as forward:
            yield tuple(forward.ports)

    async def queues(self, *, namespace: str | None = None) -> QueueList:
        """All queues with quota, use and what waits.

        Args:
            namespace: whose; None for the client's.

        Raises:
            ClientError: there is no queue system.
        """
        from kaiwo.client.queue import list_queues

        return await list_queues(self.api, self._plugins, namespace or self.namespace)

    async def queue(self, name: str, *, namespace: str | None = None) -> QueueDetails:
        """One queue with who holds its quota and who waits.

        Args:
            name: of the queue.
            namespace: whose; None for the client's.

        Raises:
            ClientError: there is no such queue, or no queue system.
        """
        from kaiwo.client.queue import describe_queue

        return await describe_queue(self.api, self._plugins, namespace or self.namespace, name)

    async def nodes(self, *, vendor: str = "", pool: str = "", namespace: str | None = None) -> NodeList:
        """The nodes, their GPUs, and who uses them.

        Args:
            vendor: only nodes with GPUs of this vendor; empty for all.
            pool: only nodes of this pool; empty for all.
            namespace: whose pods count where those of all may not be listed; None for the client's.

        Raises:
            ApiError: nodes may not be listed.
        """
        from kaiwo.client.nodes import list_nodes

        place = namespace or self.namespace
        return await list_nodes(self.api, self._plugins, place, vendor=vendor, pool=pool)

    async def why(self, name: str, *, namespace: str | None = None) -> Verdict:
        """Why a workload is where it is: a verdict, its evidence, and the chain of causes.

        Args:
            name: ``train``, ``job/train`` or ``service/chat``.
            namespace: None for the client's.

        Raises:
            WorkloadNotFound: there is none of that name.
        """
        from kaiwo.client import why as client_why

        workload = await self._find(name, namespace)
        return await client_why.why(self.api, lambda: self._plugins, workload)

    async def report(
        self,
        since: timedelta,
        *,
        by: GroupBy = "user",
        prometheus: str = "",
        namespace: str | None = None,
        all_namespaces: bool = False,
    ) -> GpuReport:
        """GPU-hours: reserved, used, idle and waiting.

        Args:
            since: length of the window, which ends now.
            by: what to group by.
            prometheus: URL of a Prometheus server with the metrics of the GPUs; empty for none.
            namespace: None for the client's.
            all_namespaces: of all namespaces.

        Raises:
            ClientError: the Prometheus server cannot be used or does not answer.
            ApiError: the workloads may not be listed.
        """
        from kaiwo.client.report import gpu_report

        scope = None if all_namespaces else namespace or self.namespace
        return await gpu_report(self.api, self._plugins, scope, since=since, by=by, prometheus=prometheus)
