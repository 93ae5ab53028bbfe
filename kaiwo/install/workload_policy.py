"""Renders the policy that keeps users from gaining through a workload what they may not do themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kaiwo.admission.template_rules import (
    ALLOW_PRIVILEGED,
    FOREIGN_NAMESPACE,
    LISTS,
    RULES,
    SPEC_RULE,
    SYSTEM_PREFIX,
    WAY_OUT,
    TemplateRule,
    written,
)
from kaiwo.api.crds import KAIWO_JOB, WORKLOADS
from kaiwo.api.installation import installed_name
from kaiwo.install.admission_policy import denying_policy
from kaiwo.install.restrictions import DANGEROUS_AUDIT, restriction_validations, restriction_variables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kaiwo.engine.resource import Object, Resource
    from kaiwo.install.rendered_manifest import RenderedManifest
    from kaiwo.install.restrictions import Restriction
    from kaiwo.plugin.backends import Backend

WORKLOAD_POLICY: Final = "kaiwo-workloads"
"""Name of the policy and of its binding, before the namespace of the installation is added."""

MAX_GROUPS: Final = 100
"""Pod templates in one list, such as the worker groups of a Ray cluster."""

MAX_ITEMS: Final = 2000
"""Containers and volumes of all templates: the API server limits what evaluating a rule may cost."""


_POD_LABELS: Final = (
    "('podTemplateSpecLabels' in variables.spec ? [variables.spec.podTemplateSpecLabels] : [])"
)
"""Expression of a list with the labels that the spec itself gives to pods."""


def workload_policy(
    backends: Iterable[Backend], installation: str, restricted: Collection[Restriction] = ()
) -> list[RenderedManifest]:
    """A ValidatingAdmissionPolicy and its binding, for Kubernetes 1.30 and later.

    The operator creates objects with its own rights. So the requester is asked for at admission: a child of
    an embedded kind is made only for those who may create that kind, and an embedded pod template gets no
    privileges of a node unless the namespace allows them. Queues, priority classes and users can be
    restricted for a namespace, by its labels.

    Args:
        backends: of the loaded plugins; each declares its block and where pod templates are in it.
        installation: the namespace of the installation.
        restricted: what workloads may name only with a right to it, in every namespace.
    """
    chosen = sorted(backends, key=lambda backend: backend.name)
    templates = [(backend.kind, path) for backend in chosen for path in backend.pod_templates]
    lists = [_TemplateList(kind, path) for kind, path in templates if "*" in path]
    name = installed_name(WORKLOAD_POLICY, installation)
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [KAIWO_JOB.group],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [resource.plural for resource in WORKLOADS.values()],
                    "scope": "Namespaced",
                }
            ]
        },
        "matchConditions": [
            # Whoever changes labels or finalizers only is not judged by what somebody else wrote.
            {
                "name": "spec-changed",
                "expression": "request.operation == 'CREATE' || object[?'spec'] != oldObject[?'spec']",
            }
        ],
        "variables": [
            _variable("spec", "has(object.spec) && type(object.spec) == map ? object.spec : {}"),
            _variable(
                "privileged",
                f"namespaceObject.metadata.?labels[?'{ALLOW_PRIVILEGED}'].orValue('') == 'true'",
            ),
            *restriction_variables(restricted),
            *(_variable(kind, f"object.kind == '{kind}' ? [variables.spec] : []") for kind in WORKLOADS),
            *(one.declared() for one in lists),
            _variable("pods", _pods(templates)),
            _variable("items", f"variables.pods.map(p, {_items('p.spec')}).sum()"),
            _variable("small", f"variables.items <= {MAX_ITEMS} ? variables.pods : []"),
            _variable("judged", "variables.privileged ? [] : variables.small"),
            *(_variable(_name(rule), f"variables.judged.filter(p, {_breaks(rule)})") for rule in RULES),
        ],
        "validations": [
            *(_right(backend, kind) for backend in chosen for kind in _children(backend)),
            *(one.size_validation() for one in lists),
            {
                "expression": f"variables.items <= {MAX_ITEMS}",
                "message": f"spec: at most {MAX_ITEMS} containers and volumes are possible in embedded pod "
                f"templates; remove some, {WAY_OUT}",
                "reason": "Invalid",
            },
            *(_template_validation(rule) for rule in RULES),
            {
                "expression": "variables.privileged || !('priorityClass' in variables.spec) || "
                f"!variables.spec.priorityClass.startsWith('{SYSTEM_PREFIX}')",
                "message": f"spec.{SPEC_RULE.field}: {SPEC_RULE.message}",
                "reason": "Forbidden",
            },
            {
                "expression": f"({_embedded_metadata(chosen, 'namespace')}).all(n, "
                "type(n) != string || n == '' || n == request.namespace)",
                "message": FOREIGN_NAMESPACE,
                "reason": "Forbidden",
            },
            *restriction_validations(f"{_embedded_metadata(chosen, 'labels')} + {_POD_LABELS}"),
        ],
        "auditAnnotations": [DANGEROUS_AUDIT],
    }
    return denying_policy(name, spec, app="kaiwo", installation=installation)


class _TemplateList:
    """A list of pod templates in a block: its items are counted before the template of each is read."""

    def __init__(self, kind: str, path: tuple[str, ...]) -> None:
        star = path.index("*")
        self.before, self.after = path[:star], path[star + 1 :]
        self.start = _start(kind)
        self.variable = "_".join((kind, *self.before))

    def declared(self) -> Object:
        """The variable with the list: no item where it is absent or no list, else that list."""
        return _variable(
            self.variable, f"{_steps(self.start, self.before)}.filter(x, type(x) == list && size(x) > 0)"
        )

    @property
    def items(self) -> str:
        """Expression of the items; empty where the list is absent or too long."""
        name = f"variables.{self.variable}"
        return f"({name}.exists(x, size(x) <= {MAX_GROUPS}) ? {name}[0] : [])"

    def size_validation(self) -> Object:
        """The validation that the list is short enough to be looked into."""
        return {
            "expression": f"variables.privileged || "
            f"variables.{self.variable}.all(x, size(x) <= {MAX_GROUPS})",
            "message": f"{written(('spec', *self.before))}: at most {MAX_GROUPS} items are possible; "
            f"remove some, {WAY_OUT}",
            "reason": "Invalid",
        }


def _variable(name: str, expression: str) -> Object:
    return {"name": name, "expression": expression}


def _start(kind: str) -> str:
    """Expression of a list with the spec, or without it where the object is of another kind."""
    return f"variables.{kind}"


def _steps(start: str, path: tuple[str, ...]) -> str:
    """Expression of a list with the value at a path, or without one where there is none.

    What is no map on the way ends it: shapes are judged by the schema and by the backend.
    """
    return start + "".join(f".map(x, type(x) == map && '{name}' in x, x['{name}'])" for name in path)


def _pods(templates: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    """Expression of all embedded pod specs with where they are written; none where all is allowed."""
    found = []
    for kind, path in templates:
        start, after = _start(kind), path
        if "*" in path:
            group = _TemplateList(kind, path)
            start, after = group.items, group.after
        at = json.dumps(written(("spec", *path, "spec")))
        spec = f"{_steps(start, (*after, 'spec'))}.filter(x, type(x) == map)"
        found.append(f"{spec}.map(x, {{'at': dyn({at}), 'spec': dyn(x)}})")
    return f"variables.privileged && !variables.restrict_priority_classes ? [] : {' + '.join(found) or '[]'}"


def _embedded_metadata(backends: Sequence[Backend], name: str) -> str:
    """Expression of a list with one field of the metadata of all embedded objects and pod templates."""
    found = [_steps(_start(backend.kind), (backend.block, "metadata", name)) for backend in backends]
    for kind, path in [(backend.kind, path) for backend in backends for path in backend.pod_templates]:
        start, after = _start(kind), path
        if "*" in path:
            group = _TemplateList(kind, path)
            start, after = group.items, group.after
        found.append(_steps(start, (*after, "metadata", name)))
    return " + ".join(found) or "[]"


def _items(spec: str) -> str:
    """Expression of how many items the lists of a pod's spec have together."""
    return " + ".join(
        f"('{name}' in {spec} && type({spec}['{name}']) == list ? size({spec}['{name}']) : 0)"
        for name in LISTS
    )


def _name(rule: TemplateRule) -> str:
    return "_".join(name for name in rule.path if name != "*")


def _breaks(rule: TemplateRule) -> str:
    """Expression that is true for a pod ``p`` that breaks a rule."""
    return _broken(rule, "p.spec", rule.path)


def _broken(rule: TemplateRule, value: str, path: tuple[str, ...]) -> str:
    name, *rest = path
    field = f"{value}['{name}']"
    given = f"'{name}' in {value}"
    if not rest:
        if rule.allowed:
            return " && ".join([given, *(f"{field} != {json.dumps(one)}" for one in rule.allowed)])
        return f"{given} && type({field}) == string && {field}.startsWith('{SYSTEM_PREFIX}')"
    if rest[0] == "*":
        inner = _broken(rule, "i", tuple(rest[1:]))
        return f"{given} && type({field}) == list && {field}.exists(i, type(i) == map && {inner})"
    return f"{given} && type({field}) == map && {_broken(rule, field, tuple(rest))}"


def _template_validation(rule: TemplateRule) -> Object:
    after = json.dumps(f".{rule.field}: {rule.message}")
    return {
        "expression": f"variables.{_name(rule)}.size() == 0",
        "message": f"{rule.field} of an embedded pod template: {rule.message}",
        "messageExpression": f"variables.{_name(rule)}[0].at + {after}",
        "reason": "Forbidden",
    }


def _children(backend: Backend) -> list[Resource]:
    """The kinds that its block can become: its form at the moment is a setting that may change."""
    return list(dict.fromkeys((backend.child, *(variant.child for variant in backend.variants))))


def _right(backend: Backend, kind: Resource) -> Object:
    """The validation that whoever embeds an object may create its kind."""
    given = f"variables.{backend.kind}.exists(x, '{backend.block}' in x)"
    may = (
        f"authorizer.group('{kind.group}').resource('{kind.plural}').namespace(request.namespace)"
        ".check('create').allowed()"
    )
    return {
        "expression": f"!({given}) || {may}",
        "message": f"spec.{backend.block}: you may not create {kind} in this namespace; "
        f"remove spec.{backend.block}, or ask an administrator for that right",
        "reason": "Forbidden",
    }
