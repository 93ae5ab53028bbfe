"""What the host itself needs of the cluster, whatever plugins are loaded."""

from __future__ import annotations

from typing import Final

from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS
from kaiwo.plugin.rbac import PolicyRule

_GROUP = next(iter(WORKLOADS.values())).group
_PLURALS = tuple(resource.plural for resource in WORKLOADS.values())

READ: Final = ("get", "list", "watch")

HOST_RULES: Final[tuple[PolicyRule, ...]] = (
    PolicyRule((_GROUP,), _PLURALS, READ, "what users submit"),
    PolicyRule((_GROUP,), tuple(f"{plural}/status" for plural in _PLURALS), ("patch",), "what became of it"),
    PolicyRule(
        (_GROUP,),
        tuple(f"{plural}/finalizers" for plural in _PLURALS),
        ("update",),
        "created objects name their workload as an owner whose deletion they may hold up",
    ),
    PolicyRule(
        (KAIWO_CONFIG.group,),
        (KAIWO_CONFIG.plural,),
        (*READ, "create"),
        "the configuration; it is made with defaults when there is none",
    ),
    PolicyRule(
        (KAIWO_CONFIG.group,), (f"{KAIWO_CONFIG.plural}/status",), ("patch",), "whether it is in force"
    ),
    PolicyRule(
        ("apiextensions.k8s.io",),
        ("customresourcedefinitions",),
        ("get",),
        "installed definitions are compared with what the loaded plugins need",
    ),
    PolicyRule(("",), ("nodes",), READ, "which GPUs there are"),
    PolicyRule(("",), ("pods",), READ, "the state of a workload is that of its pods"),
    PolicyRule(
        ("",), ("persistentvolumeclaims",), (*READ, "create", "patch"), "volumes that workloads ask for"
    ),
    PolicyRule(("storage.k8s.io",), ("storageclasses",), READ, "why a volume is not there, and may it grow"),
    PolicyRule(("",), ("events",), ("create", "patch"), "every change of status is told as an Event"),
    PolicyRule(("",), ("events",), ("list",), "why an object stands still may be told in its events alone"),
    PolicyRule(
        ("scheduling.k8s.io",), ("priorityclasses",), READ, "whether the class a workload names exists"
    ),
)
"""Cluster-wide rules; workloads live in any namespace."""
