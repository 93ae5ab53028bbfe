"""Security contexts of generated pods and their containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

_USER_ID = 1000
"""User, group and fsGroup of generated pods, as documented for ``spec.dangerous``."""

_RESTRICTED_SINCE = 2
"""The first version of the generated templates that meets the Pod Security Standard ``restricted``."""


def identity() -> Object:
    """The user and the groups of a generated pod, as a security context."""
    return {"runAsUser": _USER_ID, "runAsGroup": _USER_ID, "fsGroup": _USER_ID}


def restricted_pod() -> Object:
    """The security context of a pod that meets ``restricted`` together with `restricted_container`."""
    return {**identity(), "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def restricted_container() -> Object:
    """The security context of a container in such a pod."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def set_contexts(pod: Object, template_version: int) -> None:
    """Give a generated pod and its containers their security contexts, in place.

    Args:
        pod: the pod spec.
        template_version: version of the generated templates that it follows.
    """
    if template_version < _RESTRICTED_SINCE:
        pod["securityContext"] = identity()
        return
    pod["securityContext"] = restricted_pod()
    for container in pod["containers"]:
        container["securityContext"] = restricted_container()
