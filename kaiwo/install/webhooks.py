"""Renders the webhooks: Service, Secret, rights, and the configurations for the API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from kaiwo.admission.bundles import CONFIGURATIONS
from kaiwo.admission.names import (
    MUTATE_JOBS,
    MUTATE_WORKLOADS,
    SECRET,
    SERVICE,
    VALIDATE_CONFIGURATIONS,
    VALIDATE_JOBS,
    VALIDATE_TEMPLATES,
    VALIDATE_WORKLOADS,
    configurations_name,
)
from kaiwo.admission.template_rules import ALLOW_PRIVILEGED
from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB, WORKLOADS
from kaiwo.api.installation import OPERATOR, SYSTEM_NAMESPACE, head, installed_name
from kaiwo.install.admission_policy import API_VERSION as ADMISSION
from kaiwo.install.admission_policy import denying_policy
from kaiwo.install.rendered_manifest import RenderedManifest
from kaiwo.install.roles import API_VERSION as RBAC
from kaiwo.install.roles import binding, cluster_binding
from kaiwo.install.write_policy import NAMESPACE_NAME, is_operator
from kaiwo.workload.labels import MANAGED, MANAGED_VALUE, REQUESTED_BY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.registry import Plugins

Identity: TypeAlias = Literal["off", "set", "check"]

PORT: Final = 9443
PORT_NAME: Final = "webhooks"

CERTIFICATES: Final = "/certificates"
"""Folder of the container in which given certificates are mounted."""

TIMEOUT: Final = 5
"""Seconds that the API server waits for an answer."""


_EITHER = "[object, oldObject].exists(o, o != null && {})"
_LABELLED: Final = _EITHER.format(f"o.metadata.?labels[?'{MANAGED}'].orValue('') == '{MANAGED_VALUE}'")
_REQUESTED: Final = _EITHER.format(f"o.metadata.?annotations[?'{REQUESTED_BY}'].hasValue()")
_OWNED: Final = (
    "oldObject.metadata.?ownerReferences.orValue([])"
    f".exists(r, r.?controller.orValue(false) && r.apiVersion.startsWith('{KAIWO_JOB.group}/'))"
)
"""Expressions: managed, with a requesting user that must not be forged, and owned by a workload."""

_OWN_METADATA = "['managedFields', 'resourceVersion', 'generation']"


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """What the webhooks do.

    Attributes:
        enforce_gpu_workloads: whether plain Jobs that request GPUs are put under Kaiwo's management.
        identity: of `spec.user`: off takes any, set writes the authenticated user, check refuses another.
        certificates: Secret in the operator's namespace with tls.crt, tls.key and ca.crt; empty for
            certificates that the operator signs itself.
    """

    enforce_gpu_workloads: bool = False
    identity: Identity = "off"
    certificates: str = ""


EVERY_WEBHOOK: Final = WebhookOptions(enforce_gpu_workloads=True, identity="set")
"""Options with which every object is rendered that there may be."""


def webhook_variables(options: WebhookOptions) -> list[Object]:
    """The environment variables of the operator."""
    found = {"KAIWO_WEBHOOKS": "true", "KAIWO_WEBHOOK_ADDRESS": f":{PORT}"}
    if options.certificates:
        found["KAIWO_WEBHOOK_CERTIFICATES"] = CERTIFICATES
    if options.identity != "off":
        found["KAIWO_IDENTITY"] = options.identity
    if options.enforce_gpu_workloads:
        found["ENFORCE_KAIWO_ON_GPU_WORKLOADS"] = "true"
    return [{"name": name, "value": value} for name, value in found.items()]


def webhook_rights(namespace: str, options: WebhookOptions) -> list[RenderedManifest]:
    """Roles and the policy for what the operator keeps in order: one Secret and the trusted authorities.

    Args:
        namespace: of the operator.
        options: of the webhooks.
    """
    name = installed_name(SERVICE, namespace)
    cluster_role = head(RBAC, "ClusterRole", name, app=OPERATOR, installation=namespace)
    cluster_role["rules"] = [
        {
            "apiGroups": [CONFIGURATIONS[0].group],
            "resources": [kind.plural for kind in CONFIGURATIONS],
            "resourceNames": [name],
            "verbs": ["get", "patch"],
        }
    ]
    why = "the authorities that the API server trusts are kept right; a policy protects all other fields"
    found = [
        RenderedManifest(cluster_role, ((why,),)),
        cluster_binding(name, role=name, account=OPERATOR, namespace=namespace),
        *_configuration_policy(namespace),
    ]
    if options.certificates:
        return found
    role = head(RBAC, "Role", SERVICE, app=OPERATOR, installation=namespace, namespace=namespace)
    role["rules"] = [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": [SECRET],
            "verbs": ["get", "create", "patch"],
        }
    ]
    why = "webhook certificates; create with a name allows no more than to make this one again"
    return [
        *found,
        RenderedManifest(role, ((why,),)),
        binding(SERVICE, role=("Role", SERVICE), account=OPERATOR, namespace=namespace),
    ]


def _configuration_policy(namespace: str) -> list[RenderedManifest]:
    """The policy by which the operator changes nothing of the configurations but ``caBundle``.

    Whoever holds its token could otherwise have every Secret of the cluster sent to the operator's pod.
    """
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [CONFIGURATIONS[0].group],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": [kind.plural for kind in CONFIGURATIONS],
                }
            ]
        },
        "matchConditions": [is_operator(namespace)],
        "variables": [
            {"name": "new", "expression": "dyn(object)"},
            {"name": "old", "expression": "dyn(oldObject)"},
            # Empty lists are left out of an object.
            {"name": "hooks", "expression": "dyn(variables.new.?webhooks.orValue([]))"},
            {"name": "before", "expression": "dyn(variables.old.?webhooks.orValue([]))"},
        ],
        "validations": [
            {
                "expression": " && ".join(
                    [
                        "request.operation == 'UPDATE'",
                        _same("variables.new.metadata", "variables.old.metadata", _OWN_METADATA),
                        "variables.hooks.size() == variables.before.size()",
                        "variables.hooks.all(w, variables.before.exists(o, "
                        + " && ".join(
                            [
                                "o.name == w.name",
                                _same("w", "o", "['clientConfig']"),
                                _same("w.clientConfig", "o.clientConfig", "['caBundle']"),
                            ]
                        )
                        + "))",
                    ]
                ),
                "message": "the Kaiwo operator changes nothing of a webhook configuration but caBundle",
                "reason": "Forbidden",
            }
        ],
    }
    name = installed_name(SERVICE, namespace)
    return denying_policy(name, spec, app=OPERATOR, installation=namespace)


def _same(new: str, old: str, but: str) -> str:
    """Expression of whether two maps have the same members, some of them left out."""
    return (
        f"{new}.all(k, k in {but} || (k in {old} && {old}[k] == {new}[k])) && "
        f"{old}.all(k, k in {but} || k in {new})"
    )


def webhook_objects(
    plugins: Plugins, namespace: str, workload_namespaces: Sequence[str], options: WebhookOptions
) -> list[RenderedManifest]:
    """Service, the Secret that the operator fills, and the configurations.

    Args:
        plugins: loaded plugins.
        namespace: of the operator.
        workload_namespaces: the only namespaces whose workloads run; empty for all.
        options: of the webhooks.
    """
    service = head("v1", "Service", SERVICE, app=OPERATOR, installation=namespace, namespace=namespace)
    service["spec"] = {
        "selector": {"app.kubernetes.io/name": OPERATOR},
        "ports": [{"name": "https", "port": 443, "targetPort": PORT_NAME, "protocol": "TCP"}],
    }
    secret = head("v1", "Secret", SECRET, app=OPERATOR, installation=namespace, namespace=namespace)
    where = _namespaces(namespace, workload_namespaces)
    found = [RenderedManifest(service)]
    if not options.certificates:
        found.append(RenderedManifest(secret | {"type": "Opaque"}))
    for kind, webhooks in zip(
        CONFIGURATIONS,
        (_validating(plugins, namespace, where), _mutating(plugins, namespace, where, options)),
        strict=True,
    ):
        if webhooks:
            name = configurations_name(namespace)
            obj = head(ADMISSION, kind.kind, name, app=OPERATOR, installation=namespace)
            found.append(RenderedManifest(obj | {"webhooks": webhooks}))
    return found


def _namespaces(namespace: str, workload_namespaces: Sequence[str]) -> Object:
    """The selector of namespaces whose objects are reviewed: never those of the cluster and the operator."""
    left_out = (SYSTEM_NAMESPACE, namespace)
    named = [name for name in workload_namespaces if name not in left_out]
    expression = (
        {"key": NAMESPACE_NAME, "operator": "In", "values": named}
        if workload_namespaces
        else {"key": NAMESPACE_NAME, "operator": "NotIn", "values": list(left_out)}
    )
    return {"matchExpressions": [expression]}


def _validating(plugins: Plugins, namespace: str, where: Object) -> list[Object]:
    workloads = _rules(WORKLOADS.values(), "CREATE", "UPDATE")
    configurations = _rules([KAIWO_CONFIG, *(kind.resource for kind in plugins.kinds())], "CREATE", "UPDATE")
    restricted = [
        *where["matchExpressions"],
        {"key": ALLOW_PRIVILEGED, "operator": "NotIn", "values": ["true"]},
    ]
    found = [
        _webhook("workloads", VALIDATE_WORKLOADS, namespace, where, workloads),
        _webhook("templates", VALIDATE_TEMPLATES, namespace, {"matchExpressions": restricted}, workloads),
        _webhook("configurations", VALIDATE_CONFIGURATIONS, namespace, where, configurations),
    ]
    for kind, _ in _adopted(plugins):
        name, kept = kind.plural, [("managed", f"{_LABELLED} || {_OWNED}")]
        changes = _rules([kind], "UPDATE")
        found.append(_webhook(name, VALIDATE_JOBS, namespace, where, changes, conditions=kept))
    return found


def _mutating(plugins: Plugins, namespace: str, where: Object, options: WebhookOptions) -> list[Object]:
    found = []
    if options.identity != "off":
        rules = _rules(WORKLOADS.values(), "CREATE", "UPDATE")
        found.append(_webhook("identity", MUTATE_WORKLOADS, namespace, where, rules))
    keys = [key for vendor in plugins.vendors for key in vendor.resource_keys]
    for kind, template in _adopted(plugins):
        conditions = [("managed", f"{_LABELLED} || {_REQUESTED}")]
        if options.enforce_gpu_workloads:
            gpus = _requests_gpus(template, keys)
            required = _webhook(
                f"gpu-{kind.plural}", MUTATE_JOBS, namespace, where, _rules([kind], "CREATE"),
                conditions=[("gpus", gpus)],
            )  # fmt: skip
            found.append(required | {"failurePolicy": "Fail"})
            conditions.append(("not-a-new-gpu-workload", f"!(request.operation == 'CREATE' && {gpus})"))
        rules = _rules([kind], "CREATE", "UPDATE")
        name = f"managed-{kind.plural}"
        found.append(_webhook(name, MUTATE_JOBS, namespace, where, rules, conditions=conditions))
    return found


def _adopted(plugins: Plugins) -> list[tuple[Resource, str]]:
    """The kinds that backends adopt, each with the expression of the pod template's spec in its objects."""
    return [
        (backend.child, ".".join(["object", *backend.adoption.pod_template, "spec"]))
        for backend in plugins.backends
        if backend.adoption is not None and backend.built
    ]


def _requests_gpus(pod: str, keys: Iterable[str]) -> str:
    """Expression of whether a pod requests one of some resources, in a container of any sort.

    Args:
        pod: expression of its spec.
        keys: of GPU vendors; one that ends in ``*`` is the start of a family of keys.
    """
    distinct = sorted(set(keys))
    whole = [key for key in distinct if not key.endswith("*")]
    tests = [f"k in {whole}"] + [f"k.startsWith('{key[:-1]}')" for key in distinct if key.endswith("*")]
    matches = " || ".join(tests)
    kinds = " || ".join(
        f"c.?resources.?{kind}.orValue({{}}).exists(k, {matches})" for kind in ("limits", "requests")
    )
    return f"({pod}.?containers.orValue([]) + {pod}.?initContainers.orValue([])).exists(c, {kinds})"


def _rules(kinds: Iterable[Resource], *operations: str) -> list[Object]:
    """Rules for the kinds themselves, without their subresources."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for kind in kinds:
        scope = "Namespaced" if kind.namespaced else "Cluster"
        groups.setdefault((kind.group, kind.version, scope), []).append(kind.plural)
    return [
        {
            "apiGroups": [group],
            "apiVersions": [version],
            "operations": list(operations),
            "resources": sorted(plurals),
            "scope": scope,
        }
        for (group, version, scope), plurals in groups.items()
    ]


def _webhook(
    name: str,
    path: str,
    namespace: str,
    where: Object,
    rules: list[Object],
    *,
    conditions: Sequence[tuple[str, str]] = (),
) -> Object:
    """One webhook; while the operator is away, what it reviews is written all the same."""
    operator = is_operator(namespace)
    return {
        "name": f"{name}.kaiwo.silogen.ai",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": SERVICE, "namespace": namespace, "path": path, "port": 443}},
        "rules": rules,
        "namespaceSelector": where,
        "matchConditions": [
            {"name": "not-the-operator", "expression": f"!({operator['expression']})"},
            *({"name": name, "expression": expression} for name, expression in conditions),
        ],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT,
    }
