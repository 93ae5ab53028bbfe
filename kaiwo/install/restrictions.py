"""What workloads may name only with a right to it: queues, priority classes, users, ``dangerous: true``.

The right is an ordinary one of RBAC: Roles and bindings give it by namespace, user and group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from kaiwo.api.workload import GROUP

if TYPE_CHECKING:
    from collections.abc import Collection

    from kaiwo.engine.resource import Object

Restriction: TypeAlias = Literal["queues", "priority-classes", "users", "dangerous"]

RESTRICTIONS: Final[tuple[Restriction, ...]] = ("queues", "priority-classes", "users", "dangerous")

LABEL_PREFIX: Final = f"{GROUP}/restrict-"
"""Start of the labels of a namespace, for example ``kaiwo.silogen.ai/restrict-queues=true``."""

_QUEUE_LABELS: Final = "kueue.x-k8s.io/"
"""Start of the labels by which an object or a pod would choose a queue or a priority past the spec."""

_HOW: Final = "ask an administrator for that right"

_IS_DANGEROUS: Final = "variables.{}[?'dangerous'].orValue(false) == true"

DANGEROUS_AUDIT: Final[Object] = {
    "key": "dangerous",
    "valueExpression": f"{_IS_DANGEROUS.format('spec')} ? 'requested by ' + request.userInfo.username : ''",
}
"""Annotation in the API server's audit log for each workload whose pods have no security context."""


def restriction_variables(everywhere: Collection[Restriction]) -> list[Object]:
    """Variables of the policy: what is restricted in the namespace, and the spec before the change.

    Args:
        everywhere: what is restricted in every namespace, whatever its labels.
    """
    found = [
        {
            "name": _variable(name),
            "expression": "true"
            if name in everywhere
            else f"namespaceObject.metadata.?labels[?'{LABEL_PREFIX}{name}'].orValue('') == 'true'",
        }
        for name in RESTRICTIONS
    ]
    before = (
        "request.operation == 'UPDATE' && has(oldObject.spec) && type(oldObject.spec) == map ? "
        "oldObject.spec : {}"
    )
    return [*found, {"name": "before", "expression": before}]


def restriction_validations(labels: str) -> list[Object]:
    """Validations of the policy. A field that does not change is not judged by who changes another one.

    Args:
        labels: expression of a list with the labels that users give to created objects and their pods.
    """
    queue, priority, user = (_value(name) for name in ("clusterQueue", "priorityClass", "user"))
    return [
        _validation(
            "queues",
            "clusterQueue",
            f"{queue} != ''",
            "'spec.clusterQueue: a queue must be named in this namespace'",
        ),
        _validation(
            "queues",
            "clusterQueue",
            f"{queue} == '' || {_may('queues', queue)}",
            f"'spec.clusterQueue: you may not use queue ' + {queue} + ' in this namespace; {_HOW} "
            f"(use queues.{GROUP})'",
        ),
        _validation(
            "priority-classes",
            "priorityClass",
            f"{priority} == '' || {_may('priorityclasses', priority)}",
            f"'spec.priorityClass: you may not use priority class ' + {priority} + ' in this namespace; "
            f"{_HOW} (use priorityclasses.{GROUP})'",
        ),
        {
            "expression": f"!variables.{_variable('priority-classes')} || variables.small.all(p, "
            "!('priorityClassName' in p.spec) || p.spec.priorityClassName == '')",
            "message": "priorityClassName of an embedded pod template: must not be set in this namespace; "
            "use spec.priorityClass",
            "reason": "Forbidden",
        },
        {
            "expression": f"!(variables.{_variable('queues')} || variables.{_variable('priority-classes')}) "
            f"|| ({labels}).all(l, type(l) != map || l.all(k, !k.startsWith('{_QUEUE_LABELS}')))",
            "message": f"spec.podTemplateSpecLabels and labels of embedded objects: none may start with "
            f"{_QUEUE_LABELS} in this namespace; use spec.clusterQueue and spec.priorityClass",
            "reason": "Forbidden",
        },
        _validation(
            "users",
            "user",
            f"{user} == '' || {user} == request.userInfo.username || "
            f"authorizer.group('').resource('users').name({user}).check('impersonate').allowed()",
            f"'spec.user: must be ' + request.userInfo.username + ' or left out in this namespace, because "
            f"you may not impersonate user ' + {user}",
        ),
        {
            "expression": f"!variables.{_variable('dangerous')} || !({_IS_DANGEROUS.format('spec')}) || "
            f"({_IS_DANGEROUS.format('before')}) || authorizer.group('{GROUP}')"
            ".resource('dangerousworkloads').namespace(request.namespace).check('use').allowed()",
            "message": f"spec.dangerous: must not be true in this namespace; {_HOW} "
            f"(use dangerousworkloads.{GROUP})",
            "reason": "Forbidden",
        },
    ]


def _variable(name: str) -> str:
    return f"restrict_{name.replace('-', '_')}"


def _value(field: str) -> str:
    return f"variables.spec[?'{field}'].orValue('')"


def _may(resource: str, name: str) -> str:
    """Expression of whether the requester has the verb ``use`` for a name in the workload's namespace."""
    return (
        f"authorizer.group('{GROUP}').resource('{resource}').namespace(request.namespace)"
        f".name({name}).check('use').allowed()"
    )


def _validation(restriction: Restriction, field: str, allowed: str, message: str) -> Object:
    unchanged = (
        f"(request.operation == 'UPDATE' && {_value(field)} == variables.before[?'{field}'].orValue(''))"
    )
    return {
        "expression": f"!variables.{_variable(restriction)} || {unchanged} || {allowed}",
        "message": f"spec.{field}: not allowed in this namespace; {_HOW}",
        "messageExpression": message,
        "reason": "Forbidden",
    }
