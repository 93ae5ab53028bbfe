"""Whether the declared rights are those that the declarations need, without any that nobody should have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaiwo.api.crds import WORKLOADS
from kaiwo.install.host_rules import CLUSTER_RULES, WORKLOAD_RULES
from kaiwo.plugin.sources import DOWNLOAD_RULES
from kaiwo.plugin.vendors import GpuVendor
from kaiwo.testing.conformance.results import CheckOutput, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.rbac import PolicyRule
    from kaiwo.plugin.registry import LoadedPlugin
    from kaiwo.testing.conformance.results import CheckInput

_WATCH: Final = ("list", "watch")
_CHILD: Final = ("get", *_WATCH, "create", "patch", "delete")
_WRITE: Final = {"create", "update", "patch", "delete", "deletecollection"}

_FORBIDDEN: Final = {
    ("", "secrets"): set(),
    ("", "nodes/proxy"): set(),
    ("", "pods/exec"): set(),
    ("", "pods/attach"): set(),
    ("", "pods/ephemeralcontainers"): set(),
    ("", "serviceaccounts/token"): set(),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _WRITE,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _WRITE,
    ("rbac.authorization.k8s.io", "roles"): _WRITE,
    ("rbac.authorization.k8s.io", "rolebindings"): _WRITE,
    ("rbac.authorization.k8s.io", "clusterroles"): _WRITE,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _WRITE,
}
"""By group and resource the verbs that no rule may have; an empty set for all of them."""

_WORKLOADS: Final = {(kind.group, kind.plural) for kind in WORKLOADS.values()}

_FORBIDDEN_VERBS: Final = {"escalate", "bind", "impersonate"}


class _Need(NamedTuple):
    """A right that a declaration needs."""

    where: str
    group: str
    resource: str
    verb: str
    why: str


def check(given: CheckInput) -> CheckOutput:
    """Check the rules of a plugin."""
    plugin = given.plugin
    rules = plugin.rules()
    needs = list(_needs(plugin))
    if not rules and not needs:
        return CheckOutput("")
    violations = (
        *_missing(rules, needs),
        *_excessive(plugin),
        *_unlimited(plugin),
        *_settings(plugin),
        *_scopes(plugin),
    )
    return CheckOutput(f"{len(rules)} rule{'s' if len(rules) != 1 else ''}", violations)


def _needs(plugin: LoadedPlugin) -> Iterator[_Need]:
    for backend in plugin.backends:
        if backend.built:
            yield from _backend_needs(backend)
    for source in plugin.sources:
        if source.downloader is not None:
            where = f"download source {source.name}"
            for rule in DOWNLOAD_RULES:
                for group, resource, verb in _rights(rule):
                    yield _Need(where, group, resource, verb, rule.why)
    for vendor in plugin.vendors:
        yield from _of_kind(f"GPU vendor {vendor.name}", ("", "nodes"), _WATCH, "which GPUs nodes have")
    watched = [
        *((f"namespace defaults {each.name}", "kind", each.kind) for each in plugin.namespace_defaults),
        *(
            (f"queue system {queue.name}", "reads", kind)
            for queue in plugin.queue_systems
            for kind in queue.reads
        ),
    ]
    for where, attribute, kind in watched:
        yield from _of_kind(
            where, _names(kind), _WATCH, f"`{attribute}` names it, so the operator watches it"
        )


def _backend_needs(backend: Backend) -> Iterator[_Need]:
    where = f"backend {backend.name}"
    for form in (backend, *backend.variants):
        yield from _of_kind(where, _names(form.child), _CHILD, f"{form.child} are the children of workloads")
        for kind in form.secondary:
            yield from _of_kind(
                where, _names(kind), _WATCH, "`secondary` names it, so the operator watches it"
            )
        for kind in form.pod_owners:
            yield from _of_kind(
                where, _names(kind), _WATCH, "`pod_owners` names it, so the operator watches it"
            )
    if backend.adoption is not None:
        own = ("kaiwo.silogen.ai", f"{backend.kind.lower()}s")
        yield from _of_kind(where, own, ("create", "delete"), "an adopted object gets a workload")


def _names(kind: Resource) -> tuple[str, str]:
    return kind.group, kind.plural


def _of_kind(where: str, kind: tuple[str, str], verbs: Iterable[str], why: str) -> Iterator[_Need]:
    for verb in verbs:
        yield _Need(where, *kind, verb, why)


def _rights(rule: PolicyRule) -> Iterator[tuple[str, str, str]]:
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                yield group, resource, verb


def _missing(rules: Iterable[PolicyRule], needs: Iterable[_Need]) -> Iterator[Violation]:
    """Rights that the declarations need and nobody declares, one violation for each kind."""
    held = {right for rule in (*CLUSTER_RULES, *WORKLOAD_RULES, *rules) for right in _rights(rule)}
    lacking: dict[tuple[str, str, str], list[_Need]] = {}
    for need in needs:
        if (need.group, need.resource, need.verb) not in held:
            lacking.setdefault((need.where, need.group, need.resource), []).append(need)
    for (where, group, resource), found in lacking.items():
        name = f"{resource}.{group}" if group else resource
        verbs = ", ".join(dict.fromkeys(need.verb for need in found))
        yield Violation(
            where,
            f"has no right to {verbs} {name}",
            f"{found[0].why}; the API server refuses it and workloads wait",
            f"add a PolicyRule for {name} with the verbs {verbs} to its rules",
        )


def _excessive(plugin: LoadedPlugin) -> Iterator[Violation]:
    for where, rule in _rules_with_place(plugin):
        for group, resource, verb in _rights(rule):
            verbs = _FORBIDDEN.get((group, resource))
            if verb in _FORBIDDEN_VERBS or (verbs is not None and (not verbs or verb in verbs)):
                yield Violation(
                    where,
                    f"asks for the right to {verb} {resource}",
                    "with it the operator could do what its users may not",
                    "remove it; a Secret is mounted by its name, and a program runs in a pod",
                )
        if not rule.why.strip():
            yield Violation(
                where,
                f"has a rule for {', '.join(rule.resources)} without a reason",
                "administrators read it in the rendered role",
                "say in `why` what the right is for, in one clause",
            )


def _unlimited(plugin: LoadedPlugin) -> Iterator[Violation]:
    """Rules of backends with which the operator could write objects that are not Kaiwo's.

    For a backend only children and secondary objects are written, all with the label of their workload.
    """
    for backend in plugin.backends:
        for rule in (rule for form in (backend, *backend.variants) for rule in form.rules):
            resources = dict.fromkeys(
                resource
                for group, resource, verb in _rights(rule)
                if verb in _WRITE and (group, resource) not in _WORKLOADS
            )
            if resources and not (rule.own_objects or rule.labels):
                yield Violation(
                    f"backend {backend.name}",
                    f"has a rule to write {', '.join(resources)} that does not say own_objects=True",
                    "with it the operator could change and delete objects of this kind that users made",
                    "add own_objects=True to the rule; what is created has the label kaiwo.silogen.ai/run-id",
                )


def _settings(plugin: LoadedPlugin) -> Iterator[Violation]:
    """Rules that depend on a setting that there is not."""
    model = plugin.settings_model()
    known = {info.alias or name for name, info in model.model_fields.items()} if model else set()
    for where, rule in _rules_with_place(plugin):
        if rule.setting and rule.setting not in known:
            yield Violation(
                where,
                f"has a rule for the setting {rule.setting!r}, which its settings do not have",
                "the role cannot be rendered",
                "name a boolean setting as KaiwoConfig writes it",
            )


def _scopes(plugin: LoadedPlugin) -> Iterator[Violation]:
    """Rules for namespaced kinds that an operator for chosen namespaces would have everywhere."""
    namespaced = {
        _names(kind): kind
        for kind in (
            *(kind for queue in plugin.queue_systems for kind in queue.reads),
            *(kind.resource for controller in plugin.controllers for kind in controller.kinds),
        )
    }
    declarations: tuple[Any, ...] = (*plugin.queue_systems, *plugin.controllers)
    for declaration in declarations:
        for rule in declaration.rules:
            for group in rule.groups:
                for resource in rule.resources:
                    kind = namespaced.get((group, resource))
                    if kind is not None and kind.namespaced and not rule.namespaced:
                        yield Violation(
                            _place(declaration),
                            f"has a rule for {kind} that does not say namespaced=True",
                            "an operator for chosen namespaces gets the right in all of them",
                            "add namespaced=True to the rule",
                        )


def _rules_with_place(plugin: LoadedPlugin) -> Iterator[tuple[str, PolicyRule]]:
    for declaration in plugin.declarations():
        for rule in getattr(declaration, "rules", ()):
            yield _place(declaration), rule


def _place(declaration: Any) -> str:
    kind = "GPU vendor" if isinstance(declaration, GpuVendor) else _words(type(declaration).__name__)
    return f"{kind} {declaration.name}"


def _words(name: str) -> str:
    """A class name in words: ``QueueSystem`` is ``queue system``."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
