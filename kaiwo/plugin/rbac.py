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
        own_objects: only objects of workloads may be written: those with the label
            ``kaiwo.silogen.ai/run-id``. A role cannot say that; an admission policy does. What another rule
            of a loaded plugin permits for all objects of the kind is not limited.
        adopts: besides, objects with the label ``kaiwo.silogen.ai/managed: "true"`` may get a workload as
            their owner, and nothing else of them may be changed; by the same policy.
        labels: the only labels of such objects that may be changed, and nothing else of them; by the same
            policy. Empty: no limit.
        setting: the rule is needed only while this setting of the plugin, named as in KaiwoConfig, is true.
        namespaced: the kinds have namespaces, so that an operator for chosen namespaces needs the right in
            these only. It is set for rules of queue systems, controllers and vendors; those of backends and
            download sources always count so.
    """

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    own_objects: bool = False
    adopts: bool = False
    labels: tuple[str, ...] = ()
    setting: str = ""
    namespaced: bool = False
