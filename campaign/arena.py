"""The control plane of a campaign, and what one case has of it: a namespace and an operator."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from campaign.children import children, normal_form
from campaign.scenarios import CANARY, DEFAULT_QUEUE, QUEUE, SECRET
from campaign.violation import ViolationError
from kaiwo.api.config_names import SINGLETON
from kaiwo.api.crds import WORKLOADS, render_crds
from kaiwo.api.status_words import TERMINAL
from kaiwo.engine import errors
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load
from kaiwo.engine.resource import NAMESPACE
from kaiwo.engine.resource import SECRET as SECRETS
from kaiwo.plugin.loader import load as load_plugins
from kaiwo.testing.operator import OperatorProcess, until
from kaiwo_kueue.kinds import QUEUE_CONFIG
from kaiwo_sandbox import readiness

if TYPE_CHECKING:
    from campaign.scenarios import Scenario
    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo_sandbox.sandbox import Sandbox

PLUGINS: Final = (
    "batch_job,deployment,ray_job,ray_service,kueue,node_pools,gpu_amd,gpu_nvidia,storage_s3_gcs_azure_git_hf"
)
ADDONS: Final = ("appwrapper", "kuberay", "kueue")
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_QUOTA: Final = {"cpu": "10k", "memory": "100Ti", "amd.com/gpu": "10k", "ephemeral-storage": "100Ti"}
_LIMIT: Final = 90.0
"""Seconds until a state that ought to come counts as missing."""


def _queues() -> Object:
    """A KaiwoQueueConfig with the default queue and another one, of ample quota."""
    resources = [{"name": name, "nominalQuota": quota} for name, quota in _QUOTA.items()]
    group = {"coveredResources": list(_QUOTA), "flavors": [{"name": QUEUE, "resources": resources}]}
    queues = [{"name": name, "spec": {"resourceGroups": [group]}} for name in (DEFAULT_QUEUE, QUEUE)]
    return {
        "apiVersion": QUEUE_CONFIG.api_version,
        "kind": QUEUE_CONFIG.kind,
        "metadata": {"name": SINGLETON},
        "spec": {"clusterQueues": queues, "resourceFlavors": [{"name": QUEUE}]},
    }


@dataclass(frozen=True, slots=True)
class Reference:
    """What a scenario comes to without a fault.

    Attributes:
        children: normal form of what was made.
        writes: method and path of each writing request, with ``{namespace}`` in place of the namespace.
    """

    children: dict[str, Any]
    writes: tuple[tuple[str, str], ...]


class Cluster:
    """A sandbox with Kaiwo's CRDs and a queue of ample quota. Use as an asynchronous context manager.

    Attributes:
        client: an administrator's.
        references: by name of scenario; runs fill it.
        directory: for files of this campaign; it goes at the end.
        left: by ``namespace/name``, which terminal status a workload has left.
        starting: taken while an operator of one case starts, which keeps a core busy.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        """Name a running sandbox with all addons."""
        self.sandbox = sandbox
        self.references: dict[str, Reference] = {}
        self.connection = load(sandbox.kubeconfig)
        self.client = Client(self.connection)
        self._temporary = tempfile.TemporaryDirectory(prefix="kaiwo-campaign-")
        self.directory = Path(self._temporary.name)
        self.left: dict[str, str] = {}
        self.starting = asyncio.Semaphore(os.cpu_count() or 1)
        self._words: dict[str, list[str]] = {}
        self._watchers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Install CRDs and queue, and begin to follow all statuses."""
        plugins = load_plugins()
        crds = render_crds(plugins.fields(), plugins.settings_models(), kinds=plugins.kinds())
        for crd in crds:
            self.sandbox.api.apply(f"{_CRDS}/{crd['metadata']['name']}", crd)
        readiness.wait_for_crds(self.sandbox.api, crds, directory=self.sandbox.directory)
        await self.client.__aenter__()
        await self.client.apply(QUEUE_CONFIG, _queues(), field_manager=QUEUE)
        self._watchers = [asyncio.create_task(self._follow(kind)) for kind in WORKLOADS.values()]
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop to follow, and remove the files."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        await self.client.__aexit__(*exc)
        self._temporary.cleanup()

    async def namespace(self, stem: str) -> str:
        """Make a namespace with a Secret.

        Args:
            stem: the beginning of its name.
        """
        plain = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40].rstrip("-")
        name = f"{plain}-{secrets.token_hex(4)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.client.create(NAMESPACE, body)
        secret = {
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": name}, "stringData": {"key": CANARY},
        }  # fmt: skip
        await self.client.create(SECRETS, secret)
        return name

    async def _follow(self, kind: Any) -> None:
        while True:
            with contextlib.suppress(errors.ConnectionBroken, errors.Gone, errors.NotFound):
                changes = self.client.watch(kind, None, resource_version="0")
                async with contextlib.aclosing(changes):
                    async for event, raw in changes:
                        if event in {"ADDED", "MODIFIED"}:
                            self._note(msgspec.json.decode(raw))
            await asyncio.sleep(0.2)

    def _note(self, obj: Object) -> None:
        metadata, word = obj["metadata"], (obj.get("status") or {}).get("status", "")
        words = self._words.setdefault(metadata["uid"], [])
        if word and (not words or words[-1] != word):
            if words and words[-1] in TERMINAL:
                self.left[f"{metadata['namespace']}/{metadata['name']}"] = f"{words[-1]} became {word}"
            words.append(word)


@dataclass(slots=True)
class Arena:
    """What a case works with.

    Attributes:
        cluster: the control plane.
        namespace: of the case.
        proxy: between the operator and the API server; faults are defined here.
        operator: the running operator; None until a case with one of its own starts it.
        submitted: workloads created so far by `submit`.
    """

    cluster: Cluster
    namespace: str
    proxy: FaultProxy
    operator: OperatorProcess | None = None
    submitted: int = field(default=0, init=False)
    _read: int = field(default=0, init=False)
    _writes: list[tuple[str, str]] = field(default_factory=list, init=False)

    @property
    def client(self) -> Client:
        """An administrator's client."""
        return self.cluster.client

    @property
    def lease(self) -> str:
        """The name of a Lease that no other case has."""
        return self.namespace[-40:].strip("-")

    async def start_operator(self, **how: Any) -> OperatorProcess:
        """Start the case's own operator, for its namespace, and wait until it is ready."""
        async with self.cluster.starting:
            self.operator = self.describe_operator(self.proxy, self.namespace, **how).start()
            await asyncio.to_thread(self.operator.wait_ready)
        return self.operator

    def describe_operator(self, proxy: FaultProxy, name: str, **how: Any) -> OperatorProcess:
        """An operator for the namespace that has not been started.

        Args:
            proxy: through which it reaches the API server.
            name: of its kubeconfig, unique among operators.
            how: further arguments of `OperatorProcess`.
        """
        return OperatorProcess(
            kubeconfig=proxy.write_kubeconfig(self.cluster.directory / f"{name}.yaml"),
            args=["--watch-namespace", self.namespace],
            **{"lease_name": self.lease, "leader_election": False, "plugins": PLUGINS, **how},
        )

    async def submit(self, scenario: Scenario) -> Object:
        """Create the workload of a scenario."""
        made = await self.client.create(WORKLOADS[scenario.kind], scenario.workload(self.namespace))
        self.submitted += 1
        return made

    async def reaches(self, scenario: Scenario, *words: str, pause: float = 0.0) -> Object:
        """Wait until the workload of a scenario has one of the statuses; by default one of its ends.

        Args:
            scenario: which workload.
            words: the statuses.
            pause: seconds for which Kaiwo does nothing for it meanwhile.

        Raises:
            ViolationError: it does not in time.
        """
        wanted = words or scenario.ends

        def there(obj: Object | None) -> bool:
            found = obj or {}
            status = found.get("status") or {}
            current = status.get("observedGeneration") == found.get("metadata", {}).get("generation")
            return status.get("status") in wanted and current

        kind = WORKLOADS[scenario.kind]
        with contextlib.suppress(AssertionError):
            limit = _LIMIT + pause
            found = await until(self.client, kind, self.namespace, scenario.name, there, timeout=limit)
            if found is not None:
                reached: Object = found["status"]
                return reached
        status = (await self.client.get(kind, self.namespace, scenario.name)).get("status") or {}
        seen = " ".join(str(status.get(part, "-")) for part in ("status", "reason", "message"))
        raise ViolationError("O1", f"not {'|'.join(wanted)} within {_LIMIT + pause:g} s: {seen}")

    async def made(self) -> dict[str, Any]:
        """Normal form of what Kaiwo made in the namespace."""
        return normal_form(await children(self.client, self.namespace), self.namespace)

    def writes(self) -> tuple[tuple[str, str], ...]:
        """The writing requests for the namespace so far, without those for Events."""
        inside = f"/namespaces/{self.namespace}/"
        read, self._read = self._read, len(self.proxy.records)
        self._writes += (
            (record.method, record.path.replace(inside, "/namespaces/{namespace}/"))
            for record in self.proxy.writes(since=read)
            if inside in record.path
        )
        return tuple(self._writes)
