"""The pods whose failure counts: a Job's ``podFailurePolicy`` may ignore others, which it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit import pod_status
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.plugin.kit.kinds import Object

_IGNORE = "Ignore"


def counted(job: Object, pods: Iterable[Object]) -> list[Object]:
    """The pods without those whose failure the Job ignores: they are never the cause of its end.

    Args:
        job: the live Job.
        pods: its pods.
    """
    rules = lenient_maps(lenient_map(lenient_map(job.get("spec")).get("podFailurePolicy")).get("rules"))
    if not any(rule.get("action") == _IGNORE for rule in rules):
        return list(pods)
    return [pod for pod in pods if _action(rules, pod) != _IGNORE]


def _action(rules: Sequence[Object], pod: Object) -> object:
    """The action of the first rule that matches a pod (batch/v1); None where none does."""
    for rule in rules:
        codes = rule.get("onExitCodes")
        if _has_code(codes, pod) if isinstance(codes, dict) else _has_condition(rule, pod):
            return rule.get("action")
    return None


def _has_code(requirement: Object, pod: Object) -> bool:
    name, values = requirement.get("containerName"), requirement.get("values") or ()
    wanted = {"In": True, "NotIn": False}.get(str(requirement.get("operator")))
    for container in pod_status.containers(pod, init=True):
        code = lenient_map(lenient_map(container.get("state")).get("terminated")).get("exitCode")
        if code and name in (None, container.get("name")) and (code in values) is wanted:
            return True
    return False


def _has_condition(rule: Object, pod: Object) -> bool:
    patterns = {(item.get("type"), item.get("status")) for item in lenient_maps(rule.get("onPodConditions"))}
    conditions = lenient_maps(lenient_map(pod.get("status")).get("conditions"))
    return any((item.get("type"), item.get("status")) in patterns for item in conditions)
