"""The rights that the host itself needs, independent of plugins."""

from __future__ import annotations

from typing import Final

from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS
from kaiwo.plugin.rbac import PolicyRule

_GROUP = next(iter(WORKLOADS.values())).group
_PLURALS = tuple(resource.plural for resource in WORKLOADS.values())

READ: Final = ("get", "list", "watch")

WORKLOAD_RULES: Final[tuple[PolicyRule, ...]] = (
    PolicyRule((_GROUP,), _PLURALS, READ, "what users submit"),
    PolicyRule(
        (_GROUP,), tuple(f"{plural}/status" for plural in _PLURALS), ("patch",), "the status of a workload"
    ),
    PolicyRule(
        (_GROUP,),
        tuple(f"{plural}/finalizers" for plural in _PLURALS),
        ("update",),
        "created objects have their workload as an owner with blockOwnerDeletion",
    ),
    PolicyRule(("",), ("pods",), READ, "the state of a workload is that of its pods"),
    PolicyRule(
        ("",), ("persistentvolumeclaims",), (*READ, "create", "patch"), "volumes that workloads request"
    ),
    PolicyRule(("",), ("events",), ("create", "patch"), "every change of status is recorded as an Event"),
    PolicyRule(("",), ("events",), ("list",), "some causes of a waiting object are only in its events"),
)
"""Rights in the namespaces of workloads."""

SHARD_RULES: Final[tuple[PolicyRule, ...]] = (
    PolicyRule(("",), ("namespaces",), READ, "which shard a namespace belongs to"),
)
"""Rights to cluster-scoped resources where several operators share the namespaces."""

CLUSTER_RULES: Final[tuple[PolicyRule, ...]] = (
    PolicyRule(
        (KAIWO_CONFIG.group,),
        (KAIWO_CONFIG.plural,),
        (*READ, "create"),
        "the configuration; the operator creates it with defaults when there is none",
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
    PolicyRule(
        ("storage.k8s.io",),
        ("storageclasses",),
        READ,
        "why a volume is not bound, and whether it can be expanded",
    ),
    PolicyRule(
        ("scheduling.k8s.io",), ("priorityclasses",), READ, "whether the class a workload names exists"
    ),
)
"""Rights to cluster-scoped resources."""
