"""The rights in the cluster that a plugin needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class PolicyRule:
    """One line of the operator's ClusterRole; a role holds only what loaded plugins declare.

    Attributes:
        groups: API groups, the core group as an empty string; no wildcard.
        resources: plural names, subresources as ``jobs/status``; no wildcard.
        verbs: verbs as RBAC writes them; no wildcard.
        why: one clause for the reader of the rendered role.
    """

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
