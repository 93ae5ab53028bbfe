"""Checks of ``metadata``, which the API server does for every kind and no schema of ours describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.api.errors import UNKNOWN_FIELD, Problem, describe_type, join_path, not_a_string
from kaiwo.api.name_rules import label_key_problem, label_value_problem, rule_for
from kaiwo.api.suggestion import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWN = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""The fields of Kubernetes' ObjectMeta."""

GENERATED = "xxxxx"
"""The API server adds five characters to ``generateName``, and cuts what is in front of them to fit 63."""

_ROOM = 63 - len(GENERATED)


def generated(base: str, tail: str = GENERATED) -> str:
    """The name that the API server makes of ``generateName``."""
    return base[:_ROOM] + tail


def check_metadata(meta: object, *, ray: bool | None) -> Iterator[Problem]:
    """What is wrong with ``metadata``.

    Args:
        meta: the value of ``metadata``; a value that is no mapping is left to the model.
        ray: whether the name is that of a workload on Ray; None for other kinds, whose names are not checked.
    """
    if not isinstance(meta, dict):
        return
    for key in meta:
        if key not in KNOWN:
            yield Problem(
                join_path(("metadata", str(key))),
                UNKNOWN_FIELD,
                did_you_mean(str(key), KNOWN) or "use labels or annotations for data of your own",
            )
    yield from _name(meta, ray=ray)
    namespace = meta.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        yield not_a_string("metadata.namespace", namespace)
    yield from labels_problems(meta.get("labels"), ("metadata", "labels"))
    yield from _annotations(meta.get("annotations"))


def labels_problems(labels: object, path: tuple[str, ...]) -> Iterator[Problem]:
    """What is wrong with a mapping of labels; None is no labels."""
    for key, value, place in _texts(labels, path):
        if isinstance(value, Problem):
            yield value
            continue
        problem = label_key_problem(key) or label_value_problem(value)
        if problem:
            yield Problem(place, problem)


def _annotations(annotations: object) -> Iterator[Problem]:
    for key, value, place in _texts(annotations, ("metadata", "annotations")):
        if isinstance(value, Problem):
            yield value
        elif problem := label_key_problem(key):
            yield Problem(place, problem.replace("label key", "annotation key"))


def _name(meta: dict[Any, Any], *, ray: bool | None) -> Iterator[Problem]:
    name, base = meta.get("name"), meta.get("generateName")
    if name is None and base is None:
        yield Problem("metadata.name", "is required", "give the object a name")
        return
    place = "metadata.name" if name is not None else "metadata.generateName"
    text = name if name is not None else base
    if not isinstance(text, str):
        yield not_a_string(place, text)
        return
    if ray is None:
        if not text:
            yield Problem(place, "is empty", "give the object a name")
        return
    problem = rule_for(ray=ray).problem(text if name is not None else generated(text))
    if problem:
        yield Problem(place, problem, "a workload on Ray" if ray else "")


def _texts(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, str | Problem, str]]:
    if value is None:
        return
    if not isinstance(value, dict):
        place = join_path(path)
        problem = f"expected a mapping, got {describe_type(value)}"
        yield "", Problem(place, problem, "write it as indented key: value lines"), place
        return
    for key, text in value.items():
        place = join_path((*path, str(key)))
        if isinstance(key, str) and isinstance(text, str):
            yield key, text, place
        else:
            yield "", not_a_string(place, text if isinstance(key, str) else key), place
