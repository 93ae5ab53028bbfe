"""Renders the policies for rights that a role cannot limit: to objects of workloads, and to single labels."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Final, TypeAlias

from kaiwo.api.crds import WORKLOADS
from kaiwo.api.installation import OPERATOR, SYSTEM_NAMESPACE, installed_name
from kaiwo.api.workload import GROUP
from kaiwo.install.admission_policy import denying_policy
from kaiwo.install.adoption_policy import adoption_policy, adopts
from kaiwo.install.write_policy import NAMESPACE_NAME, is_operator
from kaiwo.workload.labels import MANAGED, MANAGED_VALUE, RUN_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from kaiwo.engine.resource import Object
    from kaiwo.install.rendered_manifest import RenderedManifest
    from kaiwo.plugin.rbac import PolicyRule

Place: TypeAlias = tuple[str, str]
"""API group and resource."""

OBJECT_POLICY: Final = f"{OPERATOR}-objects"
"""Name of the policy for objects of workloads, before the namespace of the installation is added."""

LABEL_POLICY: Final = f"{OPERATOR}-labels"
"""Name of the policy for labels of others' objects, before the namespace of the installation is added."""

WORKLOAD_PLURALS: Final = frozenset(resource.plural for resource in WORKLOADS.values())
"""Resources of the kinds of workloads."""

_OPERATIONS: Final = {
    "create": "CREATE",
    "update": "UPDATE",
    "patch": "UPDATE",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
"""Operations of an admission request, by the verb that a role needs for it."""


def object_policies(rules: Iterable[PolicyRule], installation: str) -> list[RenderedManifest]:
    """ValidatingAdmissionPolicies and their bindings for rules that limit what the operator writes.

    An operation that another rule permits for all objects of a kind is not limited.

    Args:
        rules: rights of the operator.
        installation: the namespace of the installation. There and in kube-system the operator writes
            nothing of this, by another policy.
    """
    chosen = [rule for rule in rules if _OPERATIONS.keys() & set(rule.verbs)]
    free = {
        (place, _OPERATIONS[verb])
        for rule in chosen
        if not rule.own_objects and not rule.labels
        for place in _places(rule)
        for verb in _OPERATIONS.keys() & set(rule.verbs)
    }
    own = {place for rule in chosen if rule.own_objects for place in _places(rule)}
    adopting = {place for rule in chosen if rule.adopts for place in _places(rule)}
    labels: dict[Place, set[str]] = {}
    for rule in chosen:
        for place in _places(rule):
            if rule.labels and (place, "UPDATE") not in free:
                labels.setdefault(place, set()).update(rule.labels)
    found: list[RenderedManifest] = []
    limited = {place: _limited(place, free) for place in sorted(own)}
    if any(limited.values()):
        found += _policy(OBJECT_POLICY, installation, limited, [_own(adopting)])
    if labels:
        validations = [_labels(place, sorted(keys)) for place, keys in sorted(labels.items())]
        updates = {place: ["UPDATE"] for place in sorted(labels)}
        found += _policy(LABEL_POLICY, installation, updates, validations, variables=_VARIABLES)
    if adopting:
        written = {resource for rule in chosen if GROUP in rule.groups for resource in rule.resources}
        found += adoption_policy(sorted(written & WORKLOAD_PLURALS), installation)
    return found


def _places(rule: PolicyRule) -> Iterator[Place]:
    return product(rule.groups, rule.resources)


def _limited(place: Place, free: AbstractSet[tuple[Place, str]]) -> list[str]:
    """The operations on a kind that the policy judges."""
    return [each for each in dict.fromkeys(_OPERATIONS.values()) if (place, each) not in free]


def _policy(
    name: str,
    installation: str,
    places: Mapping[Place, list[str]],
    validations: list[Object],
    *,
    variables: list[Object] | None = None,
) -> list[RenderedManifest]:
    full = installed_name(name, installation)
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": NAMESPACE_NAME, "operator": "NotIn", "values": [SYSTEM_NAMESPACE, installation]}
                ]
            },
            "resourceRules": [
                {
                    "apiGroups": [group],
                    "apiVersions": ["*"],
                    "operations": operations,
                    "resources": [resource],
                    "scope": "*",
                }
                for (group, resource), operations in places.items()
                if operations
            ],
        },
        "matchConditions": [is_operator(installation)],
        **({"variables": variables} if variables else {}),
        "validations": validations,
    }
    return denying_policy(full, spec, app=OPERATOR, installation=installation)


def _own(adopting: Iterable[tuple[str, str]]) -> Object:
    """The validation that an object belongs to a workload: a new one by its label, another as it was.

    Users may have removed the label of a live object; its owner shows then whose it is. An adopted object has
    such an owner too, and is not Kaiwo's to change.

    Args:
        adopting: groups and resources whose objects are adopted.
    """

    def labelled(value: str) -> str:
        return f"has({value}.metadata.labels) && '{RUN_ID}' in {value}.metadata.labels"

    owned = (
        f"oldObject.metadata.?labels[?'{MANAGED}'].orValue('') != '{MANAGED_VALUE}' && "
        "has(oldObject.metadata.ownerReferences) && oldObject.metadata.ownerReferences.exists(o, "
        f"o.apiVersion.startsWith('{GROUP}/'))"
    )
    adopted = "".join(
        f" || (request.operation == 'UPDATE' && request.resource.group == '{group}' && "
        f"request.resource.resource == '{resource}' && {adopts()})"
        for group, resource in sorted(adopting)
    )
    return {
        "expression": f"request.operation == 'CREATE' ? {labelled('object')} : "
        f"({labelled('oldObject')}) || ({owned}){adopted}",
        "message": f"the Kaiwo operator writes only objects of workloads, with the label {RUN_ID}",
        "reason": "Forbidden",
    }


_KEPT: Final = ("annotations", "finalizers", "ownerReferences")

_VARIABLES: Final[list[Object]] = [
    {"name": "labels", "expression": "has(object.metadata.labels) ? object.metadata.labels : {}"},
    {"name": "before", "expression": "has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}"},
    {
        "name": "kept",
        "expression": " && ".join(
            ["object.?spec == oldObject.?spec"]
            + [f"object.metadata.?{name} == oldObject.metadata.?{name}" for name in _KEPT]
        ),
    },
]


def _labels(place: Place, keys: list[str]) -> Object:
    """The validation that nothing but some labels of an object changes."""
    group, resource = place
    allowed = json.dumps(keys)
    expression = (
        f"request.resource.group != '{group}' || request.resource.resource != '{resource}' || "
        "(variables.kept && "
        f"variables.labels.all(k, k in {allowed} || "
        "(k in variables.before && variables.before[k] == variables.labels[k])) && "
        f"variables.before.all(k, k in {allowed} || k in variables.labels))"
    )
    return {
        "expression": expression,
        "message": f"the Kaiwo operator changes nothing of {resource} but the labels {', '.join(keys)}",
        "reason": "Forbidden",
    }
