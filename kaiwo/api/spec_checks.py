"""Checks across fields that a schema cannot express; values that the models reject are skipped."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from kaiwo.api.config_names import SINGLETON
from kaiwo.api.core_type_checks import check_env, check_resources, check_secret_volumes, check_volumes
from kaiwo.api.duration import InvalidDuration, parse_duration
from kaiwo.api.errors import Problem, join_path, shorten
from kaiwo.api.metadata_checks import labels_problems
from kaiwo.api.name_rules import topology_label_problems
from kaiwo.api.scalars import IMAGE, PATTERN_WORDS
from kaiwo.api.shebang import command_of
from kaiwo.api.spec_rules import (
    ALLOCATION_VARIABLES,
    DOWNLOAD_NEEDS_VOLUME,
    ONE_TOPOLOGY_LABEL,
    STORAGE_DISABLED,
)
from kaiwo.api.suggestion import did_you_mean
from kaiwo.api.usual_slips import usual_slips
from kaiwo.api.workload import GROUP
from kaiwo.engine.quantity import InvalidQuantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kaiwo.api.plugin_fields import WorkloadKind

_IMAGE = re.compile(IMAGE)
_NODE_STATES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Domains of taints that the controllers of Kubernetes and of a cloud add and remove."""

Found = tuple[list[Problem], list[Problem]]
"""Problems and warnings."""


def check_workload(kind: WorkloadKind, spec: Mapping[str, Any], *, on_ray: bool, defaulted: bool) -> Found:
    """Check the ``spec`` of a workload, given as the user wrote it or, if ``defaulted``, with defaults."""
    problems = [
        *_gpus(spec, defaulted=defaulted),
        *_topology(spec),
        *_entrypoint(spec.get("entrypoint"), on_ray=on_ray),
        *_image(spec.get("image")),
        *labels_problems(_mapping(spec.get("podTemplateSpecLabels")), ("spec", "podTemplateSpecLabels")),
        *check_env(spec.get("env"), "spec.env"),
        *check_secret_volumes(spec.get("secretVolumes"), "spec.secretVolumes"),
        *check_resources(spec.get("resources"), "spec.resources"),
        *_storage(spec.get("storage")),
        *check_volumes(spec),
    ]
    return problems, [*_warnings(kind, spec, on_ray=on_ray, defaulted=defaulted)]


def check_config(obj: Mapping[str, Any], settings: Collection[str]) -> Found:
    """Check a KaiwoConfig; ``settings`` names the plugins that have settings."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    meta, spec = _mapping(obj.get("metadata")) or {}, _mapping(obj.get("spec")) or {}
    name = meta.get("name")
    if isinstance(name, str) and name != SINGLETON:
        warnings.append(
            Problem(
                "metadata.name", f'"{name}" is ignored; only "{SINGLETON}" counts', f'name it "{SINGLETON}"'
            )
        )
    if spec.get("data") is not None:
        warnings.append(Problem("spec.data", "is the older name of this section", 'rename it to "storage"'))
    for section in ("storage", "data"):
        resources = (_mapping(spec.get(section)) or {}).get("downloadResources")
        problems.extend(check_resources(resources, f"spec.{section}.downloadResources"))
        limits = _mapping((_mapping(spec.get(section)) or {}).get("downloadLimits")) or {}
        problems.extend(_positive(limits.get("maxSize"), f"spec.{section}.downloadLimits.maxSize"))
        problems.extend(_a_second(limits.get("timeout"), f"spec.{section}.downloadLimits.timeout"))
    problems.extend(
        _positive((_mapping(spec.get("ray")) or {}).get("headPodMemory"), "spec.ray.headPodMemory")
    )
    problems.extend(_taint(_mapping(spec.get("nodes")) or {}))
    warnings.extend(
        Problem(
            f"spec.plugins.{plugin}",
            "belongs to no loaded plugin that has settings",
            did_you_mean(str(plugin), settings) or "it is kept for when the plugin is loaded",
        )
        for plugin in _mapping(spec.get("plugins")) or {}
        if plugin not in settings
    )
    return problems, warnings


def _taint(nodes: Mapping[str, Any]) -> Iterator[Problem]:
    """A key of which Kubernetes takes the taint off again at once, and so for ever, or ends pods by it."""
    key = nodes.get("defaultGpuTaintKey")
    if nodes.get("addTaintsToGpuNodes") is True and isinstance(key, str) and key.startswith(_NODE_STATES):
        yield Problem(
            "spec.nodes.defaultGpuTaintKey",
            f'"{key}" is a taint by which Kubernetes shows the state of a node',
            "take another key, for example kaiwo.silogen.ai/gpu",
        )


def _gpus(spec: Mapping[str, Any], *, defaulted: bool) -> Iterator[Problem]:
    if spec.get("gpusPerReplica") is not None and spec.get("replicas") is None and not defaulted:
        yield Problem("spec.gpusPerReplica", "needs replicas", "add replicas, for example replicas: 1")


def _topology(spec: Mapping[str, Any]) -> Iterator[Problem]:
    labels = spec.get("preferredTopologyLabel"), spec.get("requiredTopologyLabel")
    if ONE_TOPOLOGY_LABEL.violated(*labels):
        yield Problem(f"spec.{ONE_TOPOLOGY_LABEL.field}", ONE_TOPOLOGY_LABEL.message)
    for name, problem in topology_label_problems(*labels):
        yield Problem(f"spec.{name}", problem)


def _entrypoint(text: object, *, on_ray: bool) -> Iterator[Problem]:
    if on_ray or not isinstance(text, str) or not text.strip():
        return
    try:
        command_of(text.strip())
    except ValueError as error:
        yield Problem("spec.entrypoint", str(error))


def _image(value: object) -> Iterator[Problem]:
    """An image that no registry can have; the kubelet would say so after the pod was scheduled."""
    if not isinstance(value, str) or not value or _IMAGE.fullmatch(value):
        return
    words = value.removeprefix("https://").removeprefix("http://").split()
    near = next((word for word in reversed(words) if _IMAGE.fullmatch(word.lower())), "")
    what = "the command" if len(words) > 1 else "the URL" if "://" in value else ""
    shown = f"{what} {shorten(value)}".strip()
    hint = f'write the image alone, for example "{near.lower()}"' if near else f"write {PATTERN_WORDS[IMAGE]}"
    yield Problem("spec.image", f"{shown} is not an image reference", hint)


def _storage(value: object) -> Iterator[Problem]:
    storage = _mapping(value)
    if storage is None or storage.get("storageEnabled") is not True:
        return
    data, cache = _mapping(storage.get("data")) or {}, _mapping(storage.get("huggingFace")) or {}
    sources = _mapping(data.get("download")) or {}
    for path, section, wanted in (
        ("data", data, any(sources.values())),
        ("huggingFace", cache, cache.get("preCacheRepos")),
    ):
        if DOWNLOAD_NEEDS_VOLUME.violated(wanted, section.get("storageSize")):
            yield Problem(f"spec.storage.{path}.storageSize", DOWNLOAD_NEEDS_VOLUME.message)
        yield from _positive(section.get("storageSize"), f"spec.storage.{path}.storageSize")


def _positive(value: object, path: str) -> Iterator[Problem]:
    if not isinstance(value, str):
        return
    try:
        amount = parse_quantity(value)
    except InvalidQuantity:
        return
    if amount.nano <= 0:
        yield Problem(path, f'must be greater than 0, got "{value}"', 'give an amount, for example "100Gi"')


def _a_second(value: object, path: str) -> Iterator[Problem]:
    try:
        short = isinstance(value, str) and parse_duration(value).total_seconds() < 1
    except InvalidDuration:
        return
    if short:
        yield Problem(path, f'must be at least 1s, got "{value}"', 'give a time, for example "12h"')


def _warnings(
    kind: WorkloadKind, spec: Mapping[str, Any], *, on_ray: bool, defaulted: bool
) -> Iterator[Problem]:
    replicas, each, total = spec.get("replicas"), spec.get("gpusPerReplica"), spec.get("gpus")
    if (on_ray or kind == "KaiwoService") and _count(total) > 0 and (defaulted or replicas is not None):
        product = _count(replicas) * _count(each)
        if product not in (0, _count(total)):
            yield Problem(
                "spec.gpus", f"{total} becomes {product}: replicas times gpusPerReplica", "leave gpus out"
            )
    yield from _own_labels(spec.get("podTemplateSpecLabels"))
    yield from usual_slips(spec, on_ray=on_ray)
    storage = _mapping(spec.get("storage")) or {}
    for name in ("data", "huggingFace"):
        if STORAGE_DISABLED.violated(storage.get("storageEnabled"), storage.get(name)):
            yield Problem(f"spec.storage.{name}", STORAGE_DISABLED.message)
    env = spec.get("env")
    names = [item.get("name") for item in env if isinstance(item, dict)] if isinstance(env, list) else []
    for name, times in Counter(name for name in names if isinstance(name, str)).items():
        if times > 1:
            yield Problem(
                "spec.env", f'"{name}" is given {times} times, and the last one wins', "remove the others"
            )
        if name in ALLOCATION_VARIABLES:
            yield Problem(
                "spec.env",
                f"{name} is not used: it always has the number of GPUs or replicas that the workload gets",
                "use another name",
            )


def _own_labels(labels: object) -> Iterator[Problem]:
    for label in _mapping(labels) or {}:
        if str(label).startswith(f"{GROUP}/"):
            yield Problem(
                join_path(("spec", "podTemplateSpecLabels", str(label))),
                f"is ignored: the prefix {GROUP} is reserved",
                "use another prefix",
            )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _mapping(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None
