"""The Python client for scripts and notebooks: the methods of `AsyncClient`, each waits for its result."""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

from kaiwo.client import waiting
from kaiwo.client.errors import InvalidArgument
from kaiwo.client.session import AsyncClient

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path

    from kaiwo.client.exec import CommandResult
    from kaiwo.client.logs import LogLine
    from kaiwo.client.manifests import Manifest
    from kaiwo.client.node_records import NodeList
    from kaiwo.client.port_forward import ForwardedPort
    from kaiwo.client.queue_records import QueueDetails, QueueList
    from kaiwo.client.report import GpuReport, GroupBy
    from kaiwo.client.run import RunRecord
    from kaiwo.client.why import Verdict
    from kaiwo.client.workloads import SubmitRecord, WorkloadRecord

T = TypeVar("T")


class Client:
    """Kaiwo on one cluster, for scripts and notebooks: each method waits for its result.

    It works inside a running event loop too, as in a notebook: its own loop runs in one thread in the
    background. Use it as ``with Client() as client``, or call `close` at the end. Several threads may share
    one. An interrupt (Ctrl-C) ends the call, not the client.

    The arguments are those of `AsyncClient`, as are arguments, results and errors of all methods.
    """

    def __init__(
        self,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        namespace: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._async = AsyncClient(
            kubeconfig=kubeconfig, context=context, namespace=namespace, timeout=timeout
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kaiwo-client", daemon=True)
        self._thread.start()
        # Also at the end of the interpreter, for a notebook that never closes it.
        self._finalizer = weakref.finalize(self, _shut_down, self._async, self._loop, self._thread)

    def __enter__(self) -> Self:
        """Use as ``with Client() as client``."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread; doing it twice changes nothing more."""
        self._finalizer()

    @property
    def namespace(self) -> str:
        """For workloads that name none, and for lists."""
        return self._async.namespace

    def submit(
        self, manifest: Manifest, *, replace: bool = False, take_over: bool = False, dry_run: bool = False
    ) -> tuple[SubmitRecord, ...]:
        """See `AsyncClient.submit`."""
        return self._run(self._async.submit(manifest, replace=replace, take_over=take_over, dry_run=dry_run))

    def run(
        self,
        *command: str,
        folder: str | Path | None = None,
        gpus: int = 0,
        image: str = "",
        name: str = "",
        vendor: str = "",
        replicas: int = 1,
        ray: bool = False,
        env: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
        queue: str = "",
        user: str = "",
        storage: str = "",
        git: str = "",
        hf: Sequence[str] = (),
        service: bool = False,
        port: int = 0,
        annotations: Mapping[str, str] | None = None,
        namespace: str | None = None,
    ) -> RunRecord:
        """See `AsyncClient.run`."""
        return self._run(
            self._async.run(
                *command,
                folder=folder,
                gpus=gpus,
                image=image,
                name=name,
                vendor=vendor,
                replicas=replicas,
                ray=ray,
                env=env,
                secrets=secrets,
                queue=queue,
                user=user,
                storage=storage,
                git=git,
                hf=hf,
                service=service,
                port=port,
                annotations=annotations,
                namespace=namespace,
            )
        )

    def get(self, name: str, *, namespace: str | None = None) -> WorkloadRecord:
        """See `AsyncClient.get`."""
        return self._run(self._async.get(name, namespace=namespace))

    def list(
        self,
        kind: str | None = None,
        *,
        user: str | None = None,
        queue: str | None = None,
        statuses: Collection[str] = (),
        namespace: str | None = None,
        all_namespaces: bool = False,
    ) -> tuple[WorkloadRecord, ...]:
        """See `AsyncClient.list`."""
        return self._run(
            self._async.list(
                kind,
                user=user,
                queue=queue,
                statuses=statuses,
                namespace=namespace,
                all_namespaces=all_namespaces,
            )
        )

    def wait(
        self,
        *names: str,
        until: Collection[str] = waiting.DONE,
        timeout: float | None = None,
        on_change: Callable[[WorkloadRecord], None] | None = None,
        namespace: str | None = None,
    ) -> tuple[WorkloadRecord, ...]:
        """See `AsyncClient.wait`; `on_change` is called in the background thread."""
        return self._run(
            self._async.wait(*names, until=until, timeout=timeout, on_change=on_change, namespace=namespace)
        )

    def delete(
        self, *names: str, wait: bool = True, timeout: float = 120.0, namespace: str | None = None
    ) -> tuple[WorkloadRecord, ...]:
        """See `AsyncClient.delete`."""
        return self._run(self._async.delete(*names, wait=wait, timeout=timeout, namespace=namespace))

    def logs(
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
    ) -> Iterator[LogLine]:
        """See `AsyncClient.logs`; `notify` is called in the background thread."""
        from kaiwo.client.log_follower import LogOptions

        options = LogOptions(since_seconds, tail, container, all_containers, previous, download)
        batches = self._async.log_batches(name, options, follow=follow, notify=notify, namespace=namespace)
        try:
            while (batch := self._run(_next(batches))) is not None:
                yield from batch
        finally:
            self._run(batches.aclose())

    def exec(
        self,
        name: str,
        *command: str,
        pod: str | None = None,
        container: str | None = None,
        stdin: bytes | None = None,
        namespace: str | None = None,
    ) -> CommandResult:
        """See `AsyncClient.exec`."""
        return self._run(
            self._async.exec(name, *command, pod=pod, container=container, stdin=stdin, namespace=namespace)
        )

    @contextmanager
    def port_forward(
        self, name: str, *ports: int | str, pod: str | None = None, namespace: str | None = None
    ) -> Iterator[tuple[ForwardedPort, ...]]:
        """See `AsyncClient.port_forward`; the ports are served by the background thread."""
        forward = self._async.port_forward(name, *ports, pod=pod, namespace=namespace)
        opened = self._run(forward.__aenter__())
        try:
            yield opened
        finally:
            self._run(forward.__aexit__(None, None, None))

    def queues(self, *, namespace: str | None = None) -> QueueList:
        """See `AsyncClient.queues`."""
        return self._run(self._async.queues(namespace=namespace))

    def queue(self, name: str, *, namespace: str | None = None) -> QueueDetails:
        """See `AsyncClient.queue`."""
        return self._run(self._async.queue(name, namespace=namespace))

    def nodes(self, *, vendor: str = "", pool: str = "", namespace: str | None = None) -> NodeList:
        """See `AsyncClient.nodes`."""
        return self._run(self._async.nodes(vendor=vendor, pool=pool, namespace=namespace))

    def why(self, name: str, *, namespace: str | None = None) -> Verdict:
        """See `AsyncClient.why`."""
        return self._run(self._async.why(name, namespace=namespace))

    def report(
        self,
        since: timedelta,
        *,
        by: GroupBy = "user",
        prometheus: str = "",
        namespace: str | None = None,
        all_namespaces: bool = False,
    ) -> GpuReport:
        """See `AsyncClient.report`."""
        return self._run(
            self._async.report(
                since, by=by, prometheus=prometheus, namespace=namespace, all_namespaces=all_namespaces
            )
        )

    def _run(self, work: Awaitable[T]) -> T:
        async def call() -> T:
            return await work

        if not self._finalizer.alive:
            if asyncio.iscoroutine(work):
                work.close()
            raise InvalidArgument("the client is closed", "construct another one")
        future = asyncio.run_coroutine_threadsafe(call(), self._loop)
        try:
            return future.result()
        except BaseException:
            # An interrupt must not leave the request running behind the user's back.
            future.cancel()
            raise


def _shut_down(client: AsyncClient, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    async def end() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()

    asyncio.run_coroutine_threadsafe(end(), loop).result(timeout=10.0)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=10.0)
    loop.close()


async def _next(batches: AsyncGenerator[T, None]) -> T | None:
    return await anext(batches, None)
