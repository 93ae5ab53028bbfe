"""Renders what the operator and others may write to adopt an object, beyond what roles can express."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.api.installation import OPERATOR, installed_name
from kaiwo.api.workload import API_VERSION, GROUP
from kaiwo.install.admission_policy import denying_policy
from kaiwo.install.write_policy import is_operator
from kaiwo.workload.labels import ADOPTED, MANAGED, MANAGED_VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.install.rendered_manifest import RenderedManifest

ADOPTION_POLICY: Final = f"{OPERATOR}-adoption"
"""Name of the policy for workloads of adopted objects, before the namespace of the installation is added."""


def adoption_policy(plurals: Sequence[str], installation: str) -> list[RenderedManifest]:
    """A ValidatingAdmissionPolicy and its binding: users do not say which object a workload adopted.

    Who may write the status of workloads may: every operator, and administrators of the cluster. The operator
    in turn creates and deletes no other workloads than those of adopted objects.

    Args:
        plurals: resources of Kaiwo's kinds that objects are adopted into (``kaiwojobs``).
        installation: the namespace of the installation.
    """
    name = installed_name(ADOPTION_POLICY, installation)
    may_report = (
        f"authorizer.group('{GROUP}').resource(request.resource.resource).subresource('status')"
        ".namespace(request.namespace).check('patch').allowed()"
    )
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [GROUP],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": list(plurals),
                    "scope": "Namespaced",
                }
            ]
        },
        "variables": [
            _adopted("before", "oldObject", "request.operation == 'CREATE'"),
            _adopted("after", "object", "request.operation == 'DELETE'"),
        ],
        "validations": [
            {
                "expression": "request.operation == 'DELETE' || variables.before == variables.after || "
                f"{may_report}",
                "message": f"metadata.labels[{ADOPTED}]: only Kaiwo sets, changes or removes it; "
                "create the workload without it",
                "reason": "Forbidden",
            },
            {
                "expression": f"!({is_operator(installation)['expression']}) || "
                "(request.operation == 'CREATE' ? variables.after : variables.before) != ''",
                "message": "the Kaiwo operator creates and deletes only workloads of adopted objects",
                "reason": "Forbidden",
            },
        ],
    }
    return denying_policy(name, spec, app=OPERATOR, installation=installation)


def _adopted(name: str, value: str, without: str) -> Object:
    """The variable with the label of an object; empty where there is no such object or label."""
    label = f"{value}.metadata.?labels[?'{ADOPTED}'].orValue('')"
    return {"name": name, "expression": f"{without} ? '' : {label}"}


def adopts(value: str = "object", before: str = "oldObject") -> str:
    """The expression that an update adds a workload as the controller of a labelled object, and only that."""
    labelled = f"{before}.metadata.?labels[?'{MANAGED}'].orValue('') == '{MANAGED_VALUE}'"
    owners = f"{before}.metadata.?ownerReferences.orValue([])"
    kept = " && ".join(
        [f"{value}.?spec == {before}.?spec"]
        + [
            f"{value}.metadata.?{name} == {before}.metadata.?{name}"
            for name in ("labels", "annotations", "finalizers")
        ]
    )
    reference = (
        f"o in {owners} || (o.apiVersion == '{API_VERSION}' && o.name == {value}.metadata.name && "
        "o.?controller.orValue(false))"
    )
    return (
        f"({labelled} && {owners}.all(o, !o.?controller.orValue(false)) && {kept} && "
        f"{owners}.all(o, o in {value}.metadata.?ownerReferences.orValue([])) && "
        f"{value}.metadata.?ownerReferences.orValue([]).all(o, {reference}))"
    )
