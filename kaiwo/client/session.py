"""The Python client for coroutines; `kaiwo.client.blocking` has the one for scripts and notebooks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo.client import deletion, manifests, submission, waiting, workloads
from kaiwo.client.errors import InvalidArgument
from kaiwo.client.kinds import KIND_NAMES, WORKLOADS
from kaiwo.client.observing import ObservingClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo.api.validate import Validator
    from kaiwo.client.manifests import Manifest
    from kaiwo.client.run import RunRecord
    from kaiwo.client.workloads import SubmitRecord, WorkloadRecord
    from kaiwo.engine.resource import Object, Resource


class AsyncClient(ObservingClient):
    """Kaiwo on one cluster, for coroutines.

    Use it as ``async with AsyncClient() as client``, or call `close` at the end. All methods belong to the
    event loop in which the first one was called.

    Args:
        kubeconfig: path of a kubeconfig; None for kubectl's own search, and in a pod its service account.
        context: kubeconfig context; None for the current one.
        namespace: for workloads that name none, and for lists; None for that of kaiwoconfig.yaml, else the
            context's.
        timeout: seconds for one request.

    Raises:
        CredentialsError: no usable kubeconfig.
        InvalidArgument: kaiwoconfig.yaml cannot be read.
    """

    async def submit(
        self,
        manifest: Manifest,
        *,
        replace: bool = False,
        take_over: bool = False,
        dry_run: bool = False,
    ) -> tuple[SubmitRecord, ...]:
        """Send workloads; those that exist already are changed to what the manifest says.

        Everything is validated first, and checked by the API server, before anything is sent.

        Args:
            manifest: YAML text, the path of a file, a mapping, or a model.
            replace: delete and create anew what has ended or would change, with its data volumes.
            take_over: change workloads of other users.
            dry_run: check only.

        Raises:
            InvalidManifest: the cluster would reject it.
            WorkloadExists: the name is taken by a workload that may not be changed.
            NotInstalled: the cluster does not serve Kaiwo's kinds.
            EngineError: the API server rejects it or does not answer.
        """
        objects = manifests.read(manifest)
        warnings = manifests.complete(objects, self._validator, self._config, self.namespace)
        rules = submission.SubmitRules(replace=replace, take_over=take_over)
        sent = [await submission.submit(self.api, obj, rules, dry_run=True) for obj in objects]
        if not dry_run:
            sent = [await submission.submit(self.api, obj, rules) for obj in objects]
        return tuple(
            workloads.SubmitRecord(change=change, workload=workloads.record(obj), warnings=tuple(about))
            for (obj, change), about in zip(sent, warnings, strict=True)
        )

    async def run(
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
        """Run a command on the cluster, as ``kaiwo run`` does; returns when the workload is created.

        Args:
            command: the program and its arguments; one text with blanks is a shell command.
            folder: shipped with the workload and its working directory; None ships nothing.
            gpus: GPUs of the whole workload.
            image: container image; empty for the cluster's default.
            name: of the workload; empty for one that is made of the command.
            vendor: of the GPUs; empty for the cluster's default.
            replicas: Ray workers, or replicas of a service.
            ray: run on Ray.
            env: environment variables.
            secrets: ``VARIABLE=SECRET:KEY`` for a variable, ``SECRET`` or ``SECRET:/PATH`` for files.
            queue: to wait in; empty for that of kaiwoconfig.yaml, else the default one.
            user: owner; empty for that of kaiwoconfig.yaml.
            storage: ``SIZE``, ``SIZE:/PATH`` or ``SIZE:/PATH:CLASS`` of a data volume; empty for none.
            git: ``URL``, ``URL@BRANCH`` or ``URL@COMMIT`` to clone and run in; empty for none.
            hf: ``ORG/MODEL`` or ``ORG/MODEL:SIZE`` of the Hugging Face Hub, downloaded first.
            service: a service instead of a job.
            port: that the service listens on; 0 for none.
            annotations: of the workload and its pods.
            namespace: None for the client's.

        Raises:
            InvalidArgument: an argument cannot be used.
            ShippingError: the folder is too large, or cannot be read.
            InvalidManifest: the cluster would reject the workload.
            WorkloadExists: the name is taken.
            EngineError: the API server rejects it or does not answer.
        """
        from kaiwo.client import run as runs
        from kaiwo.client.run_request import RunRequest

        place = namespace or self.namespace
        request = RunRequest(
            command=command,
            gpus=gpus,
            image=image,
            name=name,
            vendor=vendor,
            replicas=replicas,
            ray=ray,
            env=env or {},
            secrets=secrets,
            queue=queue,
            user=user,
            storage=storage,
            git=git,
            hf=hf,
            service=service,
            port=port,
            annotations=annotations or {},
        )
        source = Path(folder) if folder is not None else None
        archive = await asyncio.to_thread(runs.pack_folder, request, source)
        prepared = runs.prepare(
            request,
            config=self._config,
            namespace=place,
            archive=archive,
            scheduler=await runs.scheduler_name(self.api) if archive or port or ray else "",
        )
        live = await runs.start(self.api, prepared, lambda obj: manifests.check(obj, self._validator))
        await runs.clean_up(self.api, place)
        return prepared.record(live)

    async def get(self, name: str, *, namespace: str | None = None) -> WorkloadRecord:
        """One workload.

        Args:
            name: ``train``, ``job/train`` or ``service/chat``.
            namespace: None for the client's.

        Raises:
            WorkloadNotFound: there is none of that name.
            InvalidArgument: a job and a service have that name.
        """
        return workloads.record(await self._find(name, namespace))

    async def list(
        self,
        kind: str | None = None,
        *,
        user: str | None = None,
        queue: str | None = None,
        statuses: Collection[str] = (),
        namespace: str | None = None,
        all_namespaces: bool = False,
    ) -> tuple[WorkloadRecord, ...]:
        """The workloads that pass all filters, by namespace and name.

        Args:
            kind: ``job`` or ``service``; None for both.
            user: only this user's.
            queue: only those of this queue.
            statuses: only those with one of these status words.
            namespace: None for the client's.
            all_namespaces: of all namespaces.

        Raises:
            InvalidArgument: an unknown kind or status, or a filter that is no text.
            NotInstalled: the cluster does not serve Kaiwo's kinds.
        """
        _check_statuses(statuses)
        _check_texts(kind=kind, user=user, queue=queue, namespace=namespace)
        scope = None if all_namespaces else namespace or self.namespace
        found = await workloads.list_workloads(self.api, scope, _kinds(kind))
        chosen = [obj for obj in found if workloads.wanted(obj, user=user, queue=queue, statuses=statuses)]
        records = [workloads.record(obj) for obj in chosen]
        return tuple(sorted(records, key=lambda one: (one.namespace, one.name, one.kind)))

    async def wait(
        self,
        *names: str,
        until: Collection[str] = waiting.DONE,
        timeout: float | None = None,  # noqa: ASYNC109 -- part of the result: it names what is waited for
        on_change: Callable[[WorkloadRecord], None] | None = None,
        namespace: str | None = None,
    ) -> tuple[WorkloadRecord, ...]:
        """Wait until all workloads have one of the statuses; from a watch, over lost connections.

        Args:
            names: ``train``, ``job/train`` or ``service/chat``.
            until: statuses; by default that jobs are COMPLETE and services READY.
            timeout: seconds; None waits for ever, but not for a workload that stays in ERROR.
            on_change: called with a workload whenever its status or reason has changed.
            namespace: None for the client's.

        Raises:
            WorkloadNotFound: there is none of that name.
            WorkloadFailed: one ended otherwise, stayed in ERROR, or was deleted.
            WaitTimeout: the time is over.
            InvalidArgument: ``until`` or ``timeout`` cannot be used.
        """
        _check_statuses(until)
        waiting.check_timeout(timeout)
        objects = [await self._find(name, namespace) for name in names]

        def report(obj: Object) -> None:
            if on_change is not None:
                on_change(workloads.record(obj))

        found = await waiting.wait(self.api, objects, until=until, timeout=timeout, on_change=report)
        return tuple(workloads.record(obj) for obj in found)

    async def delete(
        self,
        *names: str,
        wait: bool = True,
        timeout: float = 120.0,  # noqa: ASYNC109 -- part of the result: it names what is still there
        namespace: str | None = None,
    ) -> tuple[WorkloadRecord, ...]:
        """Delete workloads with everything that was created for them, their data volumes included.

        Args:
            names: ``train``, ``job/train`` or ``service/chat``; nothing is deleted unless all exist.
            wait: until they are gone.
            timeout: seconds of that.
            namespace: None for the client's.

        Returns:
            the workloads as they were.

        Raises:
            WorkloadNotFound: there is none of that name.
            WaitTimeout: the time is over and one still exists.
            InvalidArgument: ``timeout`` cannot be used; nothing was deleted.
        """
        waiting.check_timeout(timeout)
        objects = [await self._find(name, namespace) for name in names]
        going = [obj for obj in objects if await deletion.delete(self.api, obj)]
        if wait:
            await deletion.wait_until_gone(self.api, going, timeout)
        return tuple(workloads.record(obj) for obj in objects)

    @cached_property
    def _validator(self) -> Validator:

        return self._plugins.validator()


def _kinds(kind: str | None) -> tuple[Resource, ...]:
    if kind is None:
        return WORKLOADS
    if kind.lower() not in KIND_NAMES:
        raise InvalidArgument(f'unknown kind "{kind}" (known: job, service)')
    return (KIND_NAMES[kind.lower()],)


def _check_texts(**arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None and not isinstance(value, str):
            raise InvalidArgument(f"{name}: expected a text, got {value!r}", f'for example {name}="{value}"')


def _check_statuses(statuses: object) -> None:
    known = isinstance(statuses, Collection) and all(word in workloads.STATUSES for word in statuses)
    if isinstance(statuses, str) or not known:
        raise InvalidArgument(
            f"statuses: expected a collection of {', '.join(workloads.STATUSES)}; got {statuses!r}"
        )
