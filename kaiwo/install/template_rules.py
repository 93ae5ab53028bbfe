"""What an embedded pod template may ask for only in a namespace that allows privileges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ALLOW_PRIVILEGED: Final = "kaiwo.silogen.ai/allow-privileged"
"""Label of a namespace in which these rules do not count; its value is ``true``."""

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
        return ".".join(self.path).replace(".*", "[*]")


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
