"""The facts that ``kaiwo plan`` decides from: read once from a cluster, or assumed without one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.api.config_names import SINGLETON
from kaiwo.api.errors import InvalidConfig, render
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.cli import kit
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.client.kinds import KAIWO_CONFIG
from kaiwo.engine.cached_object import managers_of
from kaiwo.engine.errors import Forbidden, NotFound
from kaiwo.engine.resource import (
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    STORAGE_CLASS,
)
from kaiwo.engine.yaml_reader import parse
from kaiwo.engine.yaml_scalars import DocumentError
from kaiwo.plugin.facts import NodeFact, VendorGpus
from kaiwo.plugin.namespace_defaults import NO_DEFAULTS
from kaiwo.plugin.queues import QueueFacts
from kaiwo.plugin.settings import configured_vendors, read_settings
from kaiwo.plugin.vendors import NodeGpus
from kaiwo.workload.download.job import downloads
from kaiwo.workload.gpus.nodes import expected_nodes, node_fact
from kaiwo.workload.gpus.requested_models import meaning
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.labels import MANAGER, RECORD, RUN_ID
from kaiwo.workload.model import AUXILIARIES, Facts
from kaiwo.workload.namespace_defaults import values_in_use
from kaiwo.workload.storage.classes import storage_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from kaiwo.api.workload import Workload
    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.namespace_defaults import DefaultValues
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.storage.classes import StorageClass

NO_NODES = "none"

_PLENTY = 1_000_000
"""GPUs of a node that is assumed where no nodes are known; more than any workload requests."""


@dataclass(frozen=True, slots=True)
class ExistingObjects:
    """What exists of one workload in the cluster.

    Attributes:
        live: the object under its child's name, its own or not.
        pods: its pods.
        download_pods: the pods of its download Job.
        auxiliaries: its volumes and what downloads into them, by kind and name.
        hidden: whether the user may not read the child, so that nothing is known of it.
        namespace_defaults: what its namespace gives.
    """

    live: Object | None = None
    pods: tuple[Object, ...] = ()
    download_pods: tuple[Object, ...] = ()
    auxiliaries: Mapping[tuple[Resource, str], Object] = field(default_factory=dict)
    hidden: bool = False
    namespace_defaults: DefaultValues = NO_DEFAULTS

    @property
    def made(self) -> frozenset[str]:
        """The uids of what Kaiwo made."""
        present = (*([self.live] if self.live else ()), *self.auxiliaries.values())
        return frozenset(obj["metadata"]["uid"] for obj in present if MANAGER in managers_of(obj, RECORD))


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """What a plan knows of the cluster, the same for all workloads of one call.

    Attributes:
        config: KaiwoConfig in force.
        nodes: as known; None when none are known, so that capacity cannot be checked.
        priority_classes: names, None when not known.
        storage_classes: by name, None when not known.
        served: kinds that the cluster serves, None when not known.
        queue_objects: what the queue system reads, by resource.
        settings: settings by name of the plugin.
        missing_queue: the plugin of the queue system that was in force and is not loaded, empty for none.
    """

    config: ResolvedConfig
    nodes: tuple[NodeFact, ...] | None = None
    priority_classes: frozenset[str] | None = None
    storage_classes: Mapping[str, StorageClass] | None = None
    served: frozenset[Resource] | None = None
    queue_objects: Mapping[Resource, tuple[Object, ...]] = field(default_factory=dict)
    settings: Mapping[str, BaseModel] = field(default_factory=dict)
    missing_queue: str = ""

    def facts(self, workload: Workload, plugins: Plugins, present: ExistingObjects) -> Facts:
        """The facts for one workload.

        Args:
            workload: what is planned.
            plugins: what is loaded.
            present: what exists of it.
        """
        nodes = self.nodes
        if nodes is None:
            models = tuple(workload.spec.gpu_models or ()) or ("",)
            nodes = _assumed(plugins, models)
        served = self.served
        queue = plugins.queue_system
        return Facts(
            now=datetime.now(UTC),
            config=self.config,
            nodes=nodes,
            priority_classes=self.priority_classes,
            storage_classes=self.storage_classes,
            served=(lambda _: True) if served is None else served.__contains__,
            live=present.live,
            made=present.made,
            pods=present.pods,
            download_pods=present.download_pods,
            auxiliaries=present.auxiliaries,
            queue_facts=None
            if queue is None
            else QueueFacts(
                objects={
                    resource: tuple(obj for obj in objects if _concerns(obj, resource, workload.namespace))
                    for resource, objects in self.queue_objects.items()
                },
                default_queue=self.config.default_cluster_queue_name,
                settings=self.settings.get(queue.plugin),
                missing=frozenset() if served is None else frozenset(queue.reads) - served,
            ),
            missing_queue=self.missing_queue,
            settings=self.settings,
            namespace_defaults=present.namespace_defaults,
        )


def assumed_context(plugins: Plugins) -> ClusterContext:
    """The documented defaults, and no knowledge of nodes."""
    config = ResolvedConfig.defaults()
    return ClusterContext(config=config, settings=_settings(plugins, config))


def read_context(cluster: Cluster, plugins: Plugins, *, level: int = 0) -> ClusterContext:
    """Everything that a plan reads from the cluster.

    Args:
        cluster: where to read.
        plugins: what is loaded.
        level: verbosity from which it is said what may not be read.

    Raises:
        EngineError: it does not answer.
    """
    live = _live_config(cluster)
    config = _config(live)
    vendors = configured_vendors(plugins, config.plugins)
    hidden: list[Resource] = []
    nodes, classes, storage = (
        _list(cluster, resource, hidden) for resource in (NODE, PRIORITY_CLASS, STORAGE_CLASS)
    )
    needed = {resource for backend in plugins.backends for resource in (backend.child, *backend.requires)}
    queue = plugins.queue_system
    read: dict[Resource, tuple[Object, ...]] = {}
    if queue is not None:
        needed |= set(queue.reads)
        for resource in queue.reads:
            # What belongs to single children may be thousands, and a plan shows none of it.
            found = None if resource in queue.owned else _list(cluster, resource, hidden)
            if found is not None:
                read[resource] = tuple(found)
    _warn_of_hidden(hidden, level)
    return ClusterContext(
        config=config,
        nodes=None
        if nodes is None
        else (
            *(node_fact(node, vendors) for node in nodes),
            *expected_nodes(config, plugins.vendors),
        ),
        priority_classes=None if classes is None else frozenset(c["metadata"]["name"] for c in classes),
        storage_classes=None
        if storage is None
        else {found.name: found for found in (storage_class(item) for item in storage)},
        served=cluster.served(*needed),
        queue_objects=read,
        settings=_settings(plugins, config),
        missing_queue="" if queue is not None else lenient_map(live.get("status")).get("queuePlugin") or "",
    )


def read_existing(cluster: Cluster, workload: Workload, child: Resource) -> ExistingObjects:
    """What the cluster has of a workload."""
    try:
        live: Object | None = cluster.get(child, workload.namespace, workload.name)
    except NotFound:
        live = None
    except Forbidden:
        return ExistingObjects(hidden=True)
    if not workload.uid:
        return ExistingObjects(live)
    own = f"{RUN_ID}={workload.uid}"
    hidden: list[Resource] = []
    pods = _list(cluster, POD, hidden, workload.namespace, own) or ()
    named = {
        (kind, item["metadata"]["name"]): item
        for kind in AUXILIARIES
        for item in _list(cluster, kind, hidden, workload.namespace, own) or ()
        if item["metadata"]["name"] != workload.name
    }
    _warn_of_hidden(hidden)
    download_pods = tuple(pod for pod in pods if _is_download(pod))
    return ExistingObjects(live, tuple(pod for pod in pods if not _is_download(pod)), download_pods, named)


def read_namespace_defaults(cluster: Cluster, namespace: str, plugins: Plugins) -> DefaultValues:
    """What the namespace gives to its workloads."""
    hidden: list[Resource] = []
    found = [
        (declared, _list(cluster, declared.kind, hidden, namespace) or ())
        for declared in plugins.namespace_defaults
    ]
    _warn_of_hidden(hidden)
    return values_in_use(found)


def _is_download(pod: Object) -> bool:
    return downloads(pod["metadata"].get("labels"))


def with_nodes(base: ClusterContext, source: str, plugins: Plugins) -> ClusterContext:
    """The same with other nodes: those of a file (``kubectl get nodes -o yaml``), or ``none``.

    Raises:
        Failure: the file cannot be read or holds no Node.
    """
    nodes: list[NodeFact] = []
    if source != NO_NODES:
        vendors = configured_vendors(plugins, base.config.plugins)
        nodes = [node_fact(node, vendors) for node in _node_file(source)]
    return replace(base, nodes=(*nodes, *expected_nodes(base.config, plugins.vendors)))


def _node_file(source: str) -> list[Object]:
    how = "write the file with: kubectl get nodes -o yaml > FILE, or give --nodes none"
    try:
        with open(source, encoding="utf-8-sig") as stream:  # noqa: PTH123  a name from the command line
            values = [document.value for document in parse(stream.read())]
    except DocumentError as error:
        raise Failure(f"{source}:{error.line}:{error.column}: {error.message}", how, code=USAGE) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise Failure(f"--nodes {source}: cannot be read: {reason}", how, code=USAGE) from error
    found: list[Object] = []
    for value in values:
        items = value.get("items") if isinstance(value, dict) and "items" in value else [value]
        found += [
            item
            for item in (items if isinstance(items, list) else ())
            if isinstance(item, dict) and item.get("kind") == "Node"
        ]
    if not found:
        raise Failure(f"--nodes {source}: no Node in this file", how, code=USAGE)
    return found


def _concerns(obj: Object, resource: Resource, namespace: str) -> bool:
    """Whether an object of a queue system's matters to a workload of a namespace."""
    metadata = obj["metadata"]
    if resource == NAMESPACE:
        return bool(metadata["name"] == namespace)
    return not resource.namespaced or bool(metadata.get("namespace") == namespace)


def _assumed(plugins: Plugins, models: tuple[str, ...]) -> tuple[NodeFact, ...]:
    """One node that has more than enough of everything, parts of GPUs included."""
    gpus = []
    for vendor in plugins.vendors:
        keys = [key for key in vendor.resource_keys if "*" not in key]
        for one in (meaning(model, vendor) for model in models):
            gpus += [
                VendorGpus(vendor.name, NodeGpus(model=one.model, count=_PLENTY, resource_key=key))
                for key in ([one.resource_key] if one.resource_key else keys)
            ]
    return (NodeFact(name="assumed", gpus=tuple(gpus)),)


def _live_config(cluster: Cluster) -> Object:
    try:
        return cluster.get(KAIWO_CONFIG, None, SINGLETON)
    except (NotFound, Forbidden) as error:
        kit.say(f"warning: KaiwoConfig cannot be read, defaults are assumed: {error}", level=1)
    return {}


def _config(live: Object) -> ResolvedConfig:
    try:
        return ResolvedConfig.from_object(live)
    except InvalidConfig as error:
        kit.say(f"warning: KaiwoConfig {SINGLETON} is invalid, defaults are assumed: {error}")
    return ResolvedConfig.defaults()


def _list(
    cluster: Cluster,
    resource: Resource,
    hidden: list[Resource],
    namespace: str | None = None,
    label: str | None = None,
) -> list[Object] | None:
    """All objects; None when they may not be read, which adds the kind to ``hidden``."""
    try:
        return cluster.list(resource, namespace, label_selector=label)
    except NotFound:
        return []
    except Forbidden:
        hidden.append(resource)
        return None


def _warn_of_hidden(hidden: Sequence[Resource], level: int = 0) -> None:
    if hidden:
        kinds = ", ".join(str(resource) for resource in hidden)
        kit.say(f"warning: not allowed to list {kinds}; what depends on them is not checked", level=level)


def _settings(plugins: Plugins, config: ResolvedConfig) -> Mapping[str, BaseModel]:
    """Settings by name of the plugin; a plugin whose section cannot be used has none."""
    settings, problems = read_settings(plugins.settings_models(), config.plugins)
    if problems:
        kit.say(f"warning: KaiwoConfig is invalid, a section is not used: {render(problems)}")
    return settings
