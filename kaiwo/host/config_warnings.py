"""Conditions of a KaiwoConfig about values that are in force and cannot have the effect that is meant.

Each of them heals by itself: a StorageClass can be created, a plugin loaded, a node added. So these values
stay in force, unlike values that can never be used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kaiwo.api.conditions import Condition
from kaiwo.api.errors import Problem, render
from kaiwo.api.suggestion import did_you_mean
from kaiwo.workload.gpus.resource_keys import is_gpu

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.quantity import Quantity

PLUGINS: Final = "PluginSettingsUsed"
STORAGE_CLASS: Final = "DefaultStorageClassFound"
QUEUE: Final = "DefaultQueueFound"
RAY_HEAD: Final = "RayHeadFits"
GPUS: Final = "GpuSettingsUsed"
MONITORING: Final = "ResourceMonitoringOn"
WARNINGS: Final = (PLUGINS, STORAGE_CLASS, QUEUE, RAY_HEAD, GPUS, MONITORING)
"""Types of the conditions; each is there only while it is False."""


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """What the values of a KaiwoConfig refer to.

    Attributes:
        plugins: state of each installed or selected plugin, by name.
        with_settings: names of the loaded plugins that have settings.
        storage_classes: names of all StorageClasses.
        queues: names of the queues that workloads can name; None where that is not known.
        gpu_keys: resource keys of each loaded GPU vendor, by name.
        largest_node: memory of the largest node; None without nodes.
        monitored: whether the operator reads the use of GPUs.
    """

    plugins: Mapping[str, str] = field(default_factory=dict)
    with_settings: Collection[str] = ()
    storage_classes: Collection[str] = ()
    queues: Collection[str] | None = None
    gpu_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    largest_node: Quantity | None = None
    monitored: bool = False


def warning_conditions(config: ResolvedConfig, facts: ConfigFacts, generation: int) -> list[Condition]:
    """The conditions about values in force that cannot have an effect now; none where all is well.

    Args:
        config: the values in force.
        facts: what they refer to.
        generation: of the KaiwoConfig.
    """
    conditions = []
    if text := render(_plugins(config, facts)):
        conditions.append(Condition(PLUGINS, "False", "UnknownPlugin", text, generation))
    if text := render(_storage_class(config, facts)):
        conditions.append(Condition(STORAGE_CLASS, "False", "StorageClassNotFound", text, generation))
    if text := render(_queue(config, facts)):
        conditions.append(Condition(QUEUE, "False", "QueueNotFound", text, generation))
    if text := render(_ray_head(config, facts)):
        conditions.append(Condition(RAY_HEAD, "False", "NoNodeFits", text, generation))
    if text := render(_gpus(config, facts)):
        conditions.append(Condition(GPUS, "False", "UnknownVendor", text, generation))
    if text := render(_monitoring(config, facts)):
        conditions.append(Condition(MONITORING, "False", "MonitoringOff", text, generation))
    return conditions


def _plugins(config: ResolvedConfig, facts: ConfigFacts) -> Iterator[Problem]:
    for name in sorted(set(config.plugins) - set(facts.with_settings)):
        path, state = f"spec.plugins.{name}", facts.plugins.get(name)
        if state == "loaded":
            yield Problem(path, "the plugin has no settings", "remove them")
        elif state == "not-allowed":
            yield Problem(path, "the plugin is not allowed", "add it to pluginsAllowed or remove this")
        elif state is not None:
            yield Problem(path, f"the plugin is {state}", "add it to the operator's plugins or remove this")
        else:
            guess = did_you_mean(name, [*facts.with_settings, *facts.plugins])
            yield Problem(path, "no plugin of this name is installed", guess or "install it or remove this")


def _storage_class(config: ResolvedConfig, facts: ConfigFacts) -> Iterator[Problem]:
    name = config.default_storage_class
    if name is not None and name not in facts.storage_classes:
        yield Problem(
            "spec.storage.defaultStorageClass",
            f'StorageClass "{name}" does not exist, volumes of workloads wait for it',
            did_you_mean(name, facts.storage_classes) or "create it, or name another",
        )


def _queue(config: ResolvedConfig, facts: ConfigFacts) -> Iterator[Problem]:
    name = config.default_cluster_queue_name
    if facts.queues is not None and name not in facts.queues:
        yield Problem(
            "spec.defaultClusterQueueName",
            f'queue "{name}" does not exist, workloads that name no queue do not start',
            did_you_mean(name, facts.queues) or "add the queue, or name another",
        )


def _ray_head(config: ResolvedConfig, facts: ConfigFacts) -> Iterator[Problem]:
    largest, wanted = facts.largest_node, config.head_pod_memory
    if largest is not None and largest < wanted and not config.expected_gpus:
        yield Problem(
            "spec.ray.headPodMemory",
            f"{wanted} is more than any node has, the largest has {largest}; Ray clusters do not start",
            "lower it, or add a larger node",
        )


def _gpus(config: ResolvedConfig, facts: ConfigFacts) -> Iterator[Problem]:
    if not facts.gpu_keys:
        return
    known = ", ".join(sorted(facts.gpu_keys))
    for at, expected in enumerate(config.expected_gpus):
        # As where the nodes are counted: a vendor is written in any case.
        if expected.vendor.strip().lower() not in facts.gpu_keys:
            yield Problem(
                f"spec.nodes.expectedGpus[{at}].vendor",
                f'no loaded plugin recognises vendor "{expected.vendor}"',
                f"known: {known}",
            )
    key = config.default_gpu_resource_key
    if not is_gpu(key, (each for keys in facts.gpu_keys.values() for each in keys)):
        yield Problem(
            "spec.nodes.defaultGpuResourceKey",
            f'no loaded plugin declares the resource "{key}"',
            f"vendors of loaded plugins: {known}",
        )


def _monitoring(config: ResolvedConfig, facts: ConfigFacts) -> Iterator[Problem]:
    if config.terminate_underutilized and not facts.monitored:
        yield Problem(
            "spec.resourceMonitoring.terminateUnderutilized",
            "has no effect while the operator does not read the use of GPUs",
            "run it with RESOURCE_MONITORING_ENABLED=true",
        )
