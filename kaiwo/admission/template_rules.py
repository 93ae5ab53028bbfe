"""What an embedded pod template may ask for only in a namespace that allows privileges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaiwo.plugin.backends import Backend

ALLOW_PRIVILEGED: Final = "kaiwo.silogen.ai/allow-privileged"
"""Label of a namespace in which these rules do not count; its value is ``true``."""

WAY_OUT: Final = f"or ask an administrator to label the namespace {ALLOW_PRIVILEGED}=true"
"""End of the messages."""

SYSTEM_PREFIX: Final = "system-"
"""Start of the names of priority classes that the cluster's own pods have."""


@dataclass(frozen=True, slots=True)
class TemplateRule:
    """One rule for one field of a pod's spec.

    A value of another type than Kubernetes has there is refused where values are listed. Shapes above the
    field are left to whoever reads the whole object.

    Attributes:
        path: the field below the pod's ``spec``; ``*`` stands for every item of a list.
        allowed: the only values it may have when it is given. Empty: any text that does not start
            with `SYSTEM_PREFIX`.
        expected: what a message says of the field.
    """

    path: tuple[str, ...]
    allowed: tuple[bool | str | None, ...]
    expected: str

    @property
    def field(self) -> str:
        """The path as messages write it."""
        return written(self.path)

    @property
    def message(self) -> str:
        """What a message says after the path of the field."""
        return f"{self.expected} in this namespace; remove it, {WAY_OUT}"

    def breaks(self, value: object) -> bool:
        """Whether the field must not have a value."""
        if self.allowed:
            # Not by `in`: 0 equals False.
            return not any(type(value) is type(one) and value == one for one in self.allowed)
        return isinstance(value, str) and value.startswith(SYSTEM_PREFIX)


_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")

LISTS: Final = (*_CONTAINERS, "volumes")
"""Lists of a pod's spec that rules look into; their length decides what a check costs."""

RULES: Final = (
    TemplateRule(("volumes", "*", "hostPath"), (None,), "must not be set"),
    *(
        TemplateRule((name,), (None, False), "must be false")
        for name in ("hostNetwork", "hostPID", "hostIPC")
    ),
    *(
        TemplateRule((name, "*", "securityContext", "privileged"), (None, False), "must be false")
        for name in _CONTAINERS
    ),
    TemplateRule(("nodeName",), (None, ""), "must not be set"),
    # Kubernetes still takes the old name of the same field.
    *(
        TemplateRule((name,), (None, "", "default"), "must be 'default'")
        for name in ("serviceAccountName", "serviceAccount")
    ),
    TemplateRule(("priorityClassName",), (), f"must not start with '{SYSTEM_PREFIX}'"),
)

SPEC_RULE: Final = TemplateRule(("priorityClass",), (), RULES[-1].expected)
"""The rule for the workload's own ``spec``, whose priority class goes to every pod."""


FOREIGN_NAMESPACE: Final = (
    "metadata.namespace of an embedded object: must be the namespace of the workload; remove it"
)
"""Objects of a workload are in its own namespace, so another one in an embedded object is never meant."""


def written(path: Iterable[str]) -> str:
    """A path as messages write it: ``volumes[*].hostPath``."""
    return ".".join(path).replace(".*", "[*]")


def broken_rules(kind: str, spec: object, backends: Iterable[Backend]) -> list[str]:
    """What the policy refuses of a workload's embedded templates, in its words, without a cluster.

    Args:
        kind: of the workload.
        spec: of the workload, of any shape.
        backends: of the loaded plugins.
    """
    found = [
        f"{written(('spec', *path, 'spec', *rule.path))}: {rule.message}"
        for backend in backends
        if backend.kind == kind
        for path in backend.pod_templates
        for pod in _values(spec, (*path, "spec"))
        for rule in RULES
        if any(map(rule.breaks, _values(pod, rule.path)))
    ]
    if any(map(SPEC_RULE.breaks, _values(spec, SPEC_RULE.path))):
        found.append(f"spec.{SPEC_RULE.field}: {SPEC_RULE.message}")
    return list(dict.fromkeys(found))


def names_foreign_namespace(kind: str, spec: object, backends: Iterable[Backend], namespace: str) -> bool:
    """Whether an embedded object or pod template names another namespace than that of the workload."""
    paths = [
        (*path, "metadata", "namespace")
        for backend in backends
        if backend.kind == kind
        for path in ((backend.block,), *backend.pod_templates)
    ]
    found = (value for path in paths for value in _values(spec, path))
    return any(isinstance(value, str) and value not in ("", namespace) for value in found)


def _values(value: object, path: tuple[str, ...]) -> Iterator[object]:
    """The values at a path; none where the shape is another one."""
    if not path:
        yield value
    elif path[0] == "*":
        for item in value if isinstance(value, list) else ():
            yield from _values(item, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _values(value[path[0]], path[1:])
