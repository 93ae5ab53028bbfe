"""What an unknown field probably means: words of other tools, and fields that stand at the wrong level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.errors import join_path
from kaiwo.api.kind_models import known_fields, sections
from kaiwo.api.suggestion import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

_OTHER_WORDS: Mapping[str, str] = {
    "args": "spec.entrypoint",
    "cmd": "spec.entrypoint",
    "command": "spec.entrypoint",
    "run": "spec.entrypoint",
    "script": "spec.entrypoint",
    "queue": "spec.clusterQueue",
    "queueName": "spec.clusterQueue",
    "localQueue": "spec.clusterQueue",
    "partition": "spec.clusterQueue",
    "cpu": "spec.resources.limits.cpu",
    "cpus": "spec.resources.limits.cpu",
    "mem": "spec.resources.limits.memory",
    "memory": "spec.resources.limits.memory",
    "nodes": "spec.replicas",
    "workers": "spec.replicas",
    "gpuType": "spec.gpuModels",
    "priority": "spec.priorityClass",
    "priorityClassName": "spec.priorityClass",
    "secrets": "spec.secretVolumes",
    "time": "spec.duration",
    "timeout": "spec.duration",
    "volume": "spec.storage.data",
    "volumes": "spec.storage.data",
    "name": "metadata.name",
    "namespace": "metadata.namespace",
    "labels": "metadata.labels",
    "annotations": "metadata.annotations",
}
"""Words that people who know Kubernetes, Slurm or other launchers write, and the field for each."""

_BESIDES = {"spec.clusterQueue": ", or give --queue"}


def field_hint(model: type[BaseModel], path: Sequence[str | int]) -> str:
    """What to write in place of an unknown field; empty when nothing is near.

    Args:
        model: the composed model of the whole object.
        path: where the field stands, its own name at the end.
    """
    name, holder = str(path[-1]), join_path(path[:-1])
    places = [join_path((*above, name)) for above, names in sections(model, "spec") if name in names]
    if places:
        # A name that several sections know is most likely meant where the fewest levels lie above it.
        return _move(holder, min(places, key=lambda place: place.count(".")))
    siblings = known_fields(model, tuple(path[:-1]))
    meant = _OTHER_WORDS.get(name)
    if meant is None or _form(name) in map(_form, siblings):
        return did_you_mean(name, siblings)
    return f"write {meant}{_BESIDES.get(meant, '')}"


def _move(holder: str, place: str) -> str:
    parent = place.rpartition(".")[0]
    verb = "indent" if parent.startswith(holder) else "move"
    return f"write {place}: {verb} it below {parent}"


def _form(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
